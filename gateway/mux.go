package gateway

import (
	"context"
	_ "embed"
	"io"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/config"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/telemetry"
)

// maxBody is the most that any request may carry but Shopify's, which has a limit of its own.
const maxBody = 64 << 10

// openAPI describes /v1. It is generated from the protos and proto/http.yaml.
//
//go:embed gen/paceline.swagger.yaml
var openAPI []byte

// surface is everything that answers on the public port.
type surface struct {
	alarms  alarms
	carrier carrier
	hooks   webhooks
	sources []source     // of webhooks
	api     http.Handler // /v1, behind the authenticator
	ready   func(context.Context) error

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
		{http.MethodPost, pathStep, claimed(has(qstash.HeaderSignature), maxBody, s.alarms.step)},
		{http.MethodPost, pathStepFailed, claimed(has(qstash.HeaderSignature), maxBody, s.alarms.failed)},
		{http.MethodPost, pathInbound, claimed(has(headerTwilioSignature), maxBody, s.carrier.inbound)},
		{http.MethodPost, pathStatus, claimed(has(headerTwilioSignature), maxBody, s.carrier.receipt)},
		{http.MethodGet, "/openapi.yaml", serveOpenAPI},
		{http.MethodGet, "/healthz", serveHealth},
		{http.MethodGet, "/readyz", s.serveReady},
	}
	for _, vendor := range s.sources {
		handle := claimed(vendor.signed, vendor.limit, s.hooks.of(vendor))
		routes = append(routes, route{http.MethodPost, pathWebhooks + vendor.name, handle})
	}
	for _, route := range routes {
		mux.HandleFunc(route.method+" "+route.path, named(route.path, route.handle))
		mux.HandleFunc(route.path, named(route.path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", route.method)
			answerNoRoute(r.Context(), nil, nil, w, r, http.StatusMethodNotAllowed)
		}))
	}
	mux.Handle("/v1/", s.api)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerNoRoute(r.Context(), nil, nil, w, r, http.StatusNotFound)
	})
	return otelhttp.NewHandler(observe(s.log, s.now, mux), "gateway",
		otelhttp.WithTracerProvider(s.tracer),
		otelhttp.WithMeterProvider(s.meter),
		otelhttp.WithPropagators(telemetry.Propagator()),
		// The caller's trace is linked, not joined: else strangers would write into the conversations of others. A step joins its
		// conversation's trace once its signature is known to be QStash's.
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }),
		otelhttp.WithServerName("gateway"), // else spans name the Host header, which is the caller's
		otelhttp.WithFilter(func(r *http.Request) bool { return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" }),
	)
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

// readBody reads a body of at most maxBody.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) { return readUpTo(w, r, maxBody) }

// readUpTo reads the whole body, or fails with *http.MaxBytesError, without reading anything when the length is given. A
// body that is shorter than it should be, because it broke off or somebody has read from it before, is an error.
func readUpTo(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil && r.ContentLength > int64(len(body)) {
		return nil, io.ErrUnexpectedEOF
	}
	return body, err
}

// publicURL is the URL that the caller was told to call, which signatures are made over.
func publicURL(origin config.Origin, r *http.Request) string {
	url := origin.String() + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return url
}
