package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// longestAttribute bounds one attribute of a span, in bytes: a stranger's path or User-Agent may have 32 KiB. Our longest
// statements of SQL fit.
const longestAttribute = 4 << 10

// shutdownTimeout bounds the last export: a collector that is gone must not hold up the end of the process.
const shutdownTimeout = 2 * time.Second

// ownLabels leaves to the metrics of an HTTP server the labels that have our values. otelhttp adds server.port from the Host header,
// which is the caller's: 2,500 requests with different ports used up the limit of 2,000 series, and what came later was
// counted as overflow.
var ownLabels = sdkmetric.NewView(sdkmetric.Instrument{Name: "http.server.*"}, sdkmetric.Stream{
	AttributeFilter: attribute.NewAllowKeysFilter("http.request.method", "http.response.status_code", "http.route"),
})

// Options are the settings of New. All fields are required.
type Options struct {
	Service  string // the name that log lines, spans and target_info carry
	Config   Config
	Output   io.Writer            // where log lines go; os.Stdout or os.Stderr in a process
	Registry *prometheus.Registry // where metrics are collected, see NewRegistry; never the default registry
}

// Telemetry is the logger and the providers of one service, handed to whatever logs, traces or measures.
type Telemetry struct {
	Log      *slog.Logger
	Tracer   *sdktrace.TracerProvider
	Meter    *sdkmetric.MeterProvider
	Registry *prometheus.Registry

	exporter *otlptrace.Exporter // nil without an endpoint
}

// New starts the telemetry of a service. The collector need not be reachable: spans that cannot be exported are
// dropped after the exporter's own bounded retries.
func New(ctx context.Context, opts Options) (*Telemetry, error) {
	about := resource.NewSchemaless(attribute.String("service.name", opts.Service))
	t := &Telemetry{Log: NewLogger(opts.Output, opts.Config, opts.Service), Registry: opts.Registry}
	metrics, err := otelprometheus.New(otelprometheus.WithRegisterer(opts.Registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics exporter: %w", err)
	}
	t.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(metrics), sdkmetric.WithView(ownLabels),
		sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter)) // an exemplar would show what a view left out, and nothing reads them
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = longestAttribute
	// Every trace is recorded, whatever OTEL_TRACES_SAMPLER says: by the ids of conversations, which are UUIDs, a ratio would keep all of
	// them or none. A collector can sample them by the conversation. Without an endpoint none is recorded; log
	// lines have their trace ids all the same.
	sampler := sdktrace.NeverSample()
	if !opts.Config.OTLPEndpoint.IsZero() {
		sampler = sdktrace.AlwaysSample()
	}
	tracing := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits), sdktrace.WithSampler(sampler),
	}
	if endpoint := opts.Config.OTLPEndpoint; !endpoint.IsZero() {
		if t.exporter, err = otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint.String())); err != nil {
			return nil, fmt.Errorf("trace exporter: %w", err)
		}
		tracing = append(tracing, sdktrace.WithBatcher(reported{t.exporter, t.Log}))
	}
	t.Tracer = sdktrace.NewTracerProvider(tracing...)
	return t, nil
}

// reported logs a failed export as the other lines of the service. Left to the SDK, it is a bare line of text.
type reported struct {
	sdktrace.SpanExporter

	log *slog.Logger
}

func (r reported) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if err != nil && !errors.Is(err, context.Canceled) { // Shutdown breaks an export off, and says so
		r.log.WarnContext(ctx, "telemetry.export_failed", "spans", len(spans), "error", err)
	}
	return nil
}

// Shutdown exports what is still held and ends the providers, within two seconds and within the deadline of ctx. That
// ctx was cancelled does not count, since the end of a process usually begins with that and its last spans matter most.
// An export that fails is logged, and is no error: nothing that the process was for is lost with it.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		bounded, cancel = context.WithDeadline(bounded, deadline)
		defer cancel()
	}
	if err := t.Tracer.Shutdown(bounded); err != nil {
		t.Log.WarnContext(ctx, "telemetry.export_failed", "error", err)
		if t.exporter != nil {
			// The provider gives up on an export that hangs but leaves it running; this breaks it off.
			_ = t.exporter.Shutdown(bounded) // its error says the same
		}
	}
	return t.Meter.Shutdown(context.WithoutCancel(ctx)) // it waits for nobody: metrics are fetched
}

// NewRegistry is a registry with the metrics of the Go runtime and of the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// Propagator carries a trace from process to process as W3C trace context. Baggage is left out on purpose: what a
// caller on the internet writes there must not travel through our services.
func Propagator() propagation.TextMapPropagator { return propagation.TraceContext{} }

// TraceparentField is the header that names a span, as W3C trace context calls it.
const TraceparentField = "traceparent"

// Traceparent names the span of ctx as that header does, for a vendor who carries it in another place; empty without a span.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	Propagator().Inject(ctx, carrier)
	return carrier[TraceparentField]
}
