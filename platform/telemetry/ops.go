package telemetry

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"paceline.internal/platform/config"
)

// readyTimeout is the time that /readyz asks before it answers no; orchestrators give up after a few seconds themselves.
const readyTimeout = 2 * time.Second

// queuesTimeout is the time for which it counts what waits in queues, on which the answer does not depend.
const queuesTimeout = 300 * time.Millisecond

// OpsConfig holds the contents of the ops port.
type OpsConfig struct {
	Registry prometheus.Gatherer
	// Ready returns why the process should get no traffic now, nil when it should. It is asked at every /readyz and
	// must respect its context. The text of the error is shown.
	Ready func(ctx context.Context) error
	// Queues, when set, says how the process's queues are doing, by name, as something that can be written as JSON. /readyz shows
	// it next to its answer, which does not depend on it; what cannot be asked is left out.
	Queues func(ctx context.Context) (any, error)
	// Addr is the address at which the port listens. By the name in it, if it is one, the port may be asked.
	Addr config.Addr
	// Config is shown as JSON at /debug/config. Its secrets must be config.Secret, which shows as ***.
	Config any
}

// OpsHandler serves /metrics, /healthz (the process runs), /readyz (it should get traffic: 200, or 503 with the reason
// as JSON, and how its queues are doing), /debug/config and /debug/pprof/. It belongs on a separate port that the internet
// does not reach. No web page reaches it either, through a browser that does.
func OpsHandler(cfg OpsConfig) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(withOldNames{cfg.Registry}, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, condition{Status: "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		code, answer := http.StatusOK, condition{Status: "ready"}
		if err := cfg.Ready(ctx); err != nil {
			code, answer = http.StatusServiceUnavailable, condition{Status: "unready", Reason: err.Error()}
		}
		if cfg.Queues != nil {
			counting, cancel := context.WithTimeout(ctx, queuesTimeout)
			defer cancel()
			if queues, err := cfg.Queues(counting); err == nil {
				answer.Queues = queues
			}
		}
		writeJSON(w, code, answer)
	})
	mux.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, cfg.Config)
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return withoutPages(cfg.Addr, mux)
}

// withoutPages refuses what a page in a browser asks for. A page of another site is known by the headers that its browser adds.
// A page with its own name leading here (DNS rebinding) is of the same origin to its browser, so only that name tells: one
// of the internet is refused, unless the port listens on it. An address passes, because orchestrators and Prometheus ask by it, and
// so does a name that cannot be owned on the internet.
func withoutPages(addr config.Addr, next http.Handler) http.Handler {
	configured, _, _ := net.SplitHostPort(addr.String()) // empty for the zero address
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site" {
			writeJSON(w, http.StatusForbidden, condition{Status: "forbidden", Reason: "web pages may not ask this port"})
			return
		}
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil { // without a port
			name = strings.Trim(r.Host, "[]")
		}
		if !strings.EqualFold(name, configured) && !private(strings.ToLower(name)) {
			writeJSON(w, http.StatusForbidden, condition{Status: "forbidden", Reason: "this port is not known by that name; ask for it by an " +
				"address, a name without a dot or one that ends in .internal, .local or .svc, or the name that it is configured to listen on"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// private reports whether a host is an address, or a name that cannot be owned on the internet.
func private(host string) bool {
	_, notAddress := netip.ParseAddr(host)
	last := host[strings.LastIndex(host, ".")+1:]
	return notAddress == nil || last == host || slices.Contains([]string{"internal", "local", "localhost", "svc"}, last)
}

// OpsServer is an HTTP server for the ops port with every timeout set. Writing may take long, because a CPU profile
// answers only after the seconds that it was asked to cover.
func OpsServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

type condition struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Queues any    `json:"queues,omitempty"`
}

// writeJSON encodes before it writes, so that a value which cannot be encoded is a 500 and not half an answer.
func writeJSON(w http.ResponseWriter, code int, body any) {
	encoded, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(encoded, '\n')) // an error means that the client has gone
}
