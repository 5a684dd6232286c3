package gateway

import (
	"context"
	_ "embed"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/qstash"
	"paceline.internal/gateway/route"
	"paceline.internal/gateway/stream"
	"paceline.internal/gateway/twilio"
	"paceline.internal/platform/config"
	"paceline.internal/platform/telemetry"
)

// openAPI describes /v1. It is generated from the protos, proto/http.yaml and proto/openapi.yaml.
//
//go:embed gen/openapi.yaml
var openAPI []byte

// flowSchema describes flow.yaml, for editors. It is a copy of the one in services/onboarding/flow.
//
//go:embed flow.schema.json
var flowSchema []byte

// surface is everything that answers on the public port.
type surface struct {
	alarms   *qstash.Alarms // nil where no alarm comes from QStash
	carrier  *twilio.Callbacks
	hooks    route.Webhooks
	sources  []route.Source // of webhooks
	api      http.Handler   // /v1, behind the authenticator
	followed http.Handler   // the stream of events, behind it as well
	console  http.Handler   // the pages for operators; nil when they are off
	devices  *stream.Devices
	ready    func(context.Context) error
	proxies  []config.Network

	log    *slog.Logger
	now    func() time.Time
	tracer trace.TracerProvider
	meter  metric.MeterProvider
}

// routes registers the handler of each path, and a 405 for its other methods.
func (s surface) routes(mux *http.ServeMux) {
	posts := map[string]http.HandlerFunc{}
	if s.alarms != nil {
		posts = s.alarms.Routes()
	}
	maps.Copy(posts, s.carrier.Routes())
	for _, vendor := range s.sources {
		posts[route.PathWebhooks+vendor.Name] = s.hooks.Of(vendor)
	}
	register := func(method, path, allowed string, handle http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, named(path, handle))
		mux.HandleFunc(path, named(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allowed)
			answerNoRoute(r.Context(), w, http.StatusMethodNotAllowed)
		}))
	}
	for path, handle := range posts {
		register(http.MethodPost, path, http.MethodPost, handle)
	}
	for path, handle := range map[string]http.HandlerFunc{stream.PathConnect: s.devices.Serve, stream.PathEvents: s.followed.ServeHTTP} {
		register(http.MethodGet, path, http.MethodGet, handle)
	}
	for path, handle := range map[string]http.HandlerFunc{
		"/openapi.yaml": serveOpenAPI, "/schemas/flow.json": serveFlowSchema, "/healthz": serveHealth, "/readyz": s.serveReady,
	} {
		register(http.MethodGet, path, "GET, HEAD", handle)
	}
}

// handler routes a request, inside tracing, the log line and the recovery from panics.
func (s surface) handler() http.Handler {
	mux := http.NewServeMux()
	s.routes(mux)
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
	return otelhttp.NewHandler(route.Observe(s.log, s.now, s.proxies, cleanOnly(mux)), "gateway",
		otelhttp.WithTracerProvider(s.tracer),
		otelhttp.WithMeterProvider(s.meter),
		otelhttp.WithPropagators(telemetry.Propagator()),
		// The caller's trace is linked, not joined: else strangers could add spans to other people's conversations. A step joins its
		// conversation's trace once its signature is known to be QStash's.
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }),
		otelhttp.WithServerName("gateway"), // else spans name the Host header, which is the caller's
		otelhttp.WithFilter(func(r *http.Request) bool { // a stream's life is no latency
			return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && r.URL.Path != stream.PathEvents && r.URL.Path != "/console/live"
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
func named(path string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		route.EventFrom(r.Context()).At(r, path)
		handle(w, r)
	}
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	route.Write(w, http.StatusOK, "application/yaml", openAPI)
}

func serveFlowSchema(w http.ResponseWriter, _ *http.Request) {
	route.Write(w, http.StatusOK, "application/schema+json", flowSchema)
}

// serveHealth says that the process runs. Probes come every few seconds and would drown the other lines.
func serveHealth(w http.ResponseWriter, r *http.Request) {
	route.EventFrom(r.Context()).Level = slog.LevelDebug
	route.Write(w, http.StatusOK, "application/json", []byte(`{"status":"ok"}`))
}

// serveReady reports whether requests can be answered, which takes both services.
func (s surface) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		route.WriteError(ctx, w, http.StatusServiceUnavailable, route.Refuse(codes.Unavailable, route.ReasonUnavailable, err.Error()))
		return
	}
	route.EventFrom(ctx).Level = slog.LevelDebug
	route.Write(w, http.StatusOK, "application/json", []byte(`{"status":"ready"}`))
}

// cleanOnly answers a path with //, /./ or /../ as one that no route has: the mux would send it on with a page of HTML.
func cleanOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
			answerNoRoute(r.Context(), w, http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}
