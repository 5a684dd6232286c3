package gateway

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/config"
	"paceline.internal/platform/telemetry"
)

// openAPI describes /v1. It is generated from the protos, proto/http.yaml and proto/openapi.yaml.
//
//go:embed gen/openapi.yaml
var openAPI []byte

// surface is everything that answers on the public port.
type surface struct {
	alarms   alarms
	carrier  carrier
	hooks    webhooks
	sources  []source     // of webhooks
	api      http.Handler // /v1, behind the authenticator
	followed http.Handler // the stream of events, behind it as well
	console  http.Handler // the pages for operators; nil when they are off
	devices  *devices
	ready    func(context.Context) error
	proxies  []config.Network

	log    *slog.Logger
	now    func() time.Time
	tracer trace.TracerProvider
	meter  metric.MeterProvider
}

// handler routes a request, inside tracing, the log line and the recovery from panics.
func (s surface) handler() http.Handler {
	mux := http.NewServeMux()
	type route struct {
		method, path string
		handle       http.HandlerFunc
	}
	routes := []route{
		{http.MethodPost, pathStep, s.alarms.step().serve},
		{http.MethodPost, pathStepFailed, s.alarms.failed().serve},
		{http.MethodPost, pathGoal, s.alarms.goal().serve},
		{http.MethodPost, pathGoalFailed, s.alarms.goalFailed().serve},
		{http.MethodPost, pathInbound, s.carrier.inbound().serve},
		{http.MethodPost, pathStatus, s.carrier.receipt().serve},
		{http.MethodGet, pathConnect, s.devices.serve},
		{http.MethodGet, pathEvents, s.followed.ServeHTTP},
		{http.MethodGet, "/openapi.yaml", serveOpenAPI},
		{http.MethodGet, "/healthz", serveHealth},
		{http.MethodGet, "/readyz", s.serveReady},
	}
	for _, vendor := range s.sources {
		routes = append(routes, route{http.MethodPost, pathWebhooks + vendor.name, s.hooks.of(vendor)})
	}
	for _, route := range routes {
		mux.HandleFunc(route.method+" "+route.path, named(route.path, route.handle))
		mux.HandleFunc(route.path, named(route.path, func(w http.ResponseWriter, r *http.Request) {
			allowed := route.method
			if route.method == http.MethodGet && route.path != pathConnect && route.path != pathEvents { // those are streams
				allowed = "GET, HEAD"
			}
			w.Header().Set("Allow", allowed)
			answerNoRoute(r.Context(), w, http.StatusMethodNotAllowed)
		}))
	}
	mux.Handle("/v1/", s.api)
	mux.HandleFunc("/v1", func(w http.ResponseWriter, r *http.Request) { answerNoRoute(r.Context(), w, http.StatusNotFound) })
	if s.console != nil {
		mux.Handle("/console", s.console)
		mux.Handle("/console/", s.console)
		mux.HandleFunc("GET /{$}", named("/", toConsole))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerNoRoute(r.Context(), w, http.StatusNotFound)
	})
	return otelhttp.NewHandler(observe(s.log, s.now, s.proxies, cleanOnly(mux)), "gateway",
		otelhttp.WithTracerProvider(s.tracer),
		otelhttp.WithMeterProvider(s.meter),
		otelhttp.WithPropagators(telemetry.Propagator()),
		// The caller's trace is linked, not joined: else strangers could add spans to other people's conversations. A step joins its
		// conversation's trace once its signature is known to be QStash's.
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }),
		otelhttp.WithServerName("gateway"), // else spans name the Host header, which is the caller's
		otelhttp.WithFilter(func(r *http.Request) bool { // a stream's life is no latency
			return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && r.URL.Path != pathEvents && r.URL.Path != "/console/live"
		}),
	)
}

// toConsole leads a browser that was given the bare address on to the pages. A program is told that there is no such route.
func toConsole(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		answerNoRoute(r.Context(), w, http.StatusNotFound)
		return
	}
	http.Redirect(w, r, "/console", http.StatusSeeOther)
}

// named names the route for the log and the span.
func named(route string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		eventFrom(r.Context()).at(r, route)
		handle(w, r)
	}
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, "application/yaml", openAPI)
}

// serveHealth says that the process runs. Probes come every few seconds and would drown the other lines.
func serveHealth(w http.ResponseWriter, r *http.Request) {
	eventFrom(r.Context()).level = slog.LevelDebug
	write(w, http.StatusOK, "application/json", []byte(`{"status":"ok"}`))
}

// serveReady says whether requests can be answered, which takes both services.
func (s surface) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		writeError(ctx, w, http.StatusServiceUnavailable, refuse(codes.Unavailable, reasonUnavailable, err.Error()))
		return
	}
	eventFrom(ctx).level = slog.LevelDebug
	write(w, http.StatusOK, "application/json", []byte(`{"status":"ready"}`))
}
