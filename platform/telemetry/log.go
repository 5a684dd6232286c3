// Package telemetry writes what a process tells about itself: slog lines, OpenTelemetry traces, Prometheus metrics and
// the ops port that serves them. Nothing in it is global, so several services can live in one process.
package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"paceline.internal/platform/config"
)

// Config is the telemetry part of every process's environment.
type Config struct {
	LogLevel  slog.Level `env:"LOG_LEVEL"  envDefault:"info" help:"debug, info, warn or error"`
	LogFormat LogFormat  `env:"LOG_FORMAT" envDefault:"json" help:"json or text"`
	// Traces are recorded without an endpoint too, so that log lines carry a trace id; they are exported only with one.
	OTLPEndpoint config.Origin `env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"OTLP gRPC collector of traces"`
}

// LogFormat is the shape of a log line; the zero value is JSON.
type LogFormat struct{ text bool }

// LogText is the shape for people, LogJSON the one for machines.
func LogText() LogFormat { return LogFormat{text: true} }

// LogJSON is one JSON object per line.
func LogJSON() LogFormat { return LogFormat{} }

// UnmarshalText accepts json and text.
func (f *LogFormat) UnmarshalText(text []byte) error {
	switch string(text) {
	case "json":
		*f = LogJSON()
	case "text":
		*f = LogText()
	default:
		return errors.New("must be json or text")
	}
	return nil
}

// MarshalText is the format's name.
func (f LogFormat) MarshalText() ([]byte, error) {
	if f.text {
		return []byte("text"), nil
	}
	return []byte("json"), nil
}

// NewLogger logs to w under the name of the service. A line that is logged with a context carries the trace_id and
// the request_id that the context has.
func NewLogger(w io.Writer, cfg Config, service string) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	var handler slog.Handler = slog.NewJSONHandler(w, options)
	if cfg.LogFormat.text {
		handler = slog.NewTextHandler(w, options)
	}
	return slog.New(correlated{handler}).With("service", service)
}

// correlated adds what joins the lines of one request across the processes.
type correlated struct{ slog.Handler }

func (h correlated) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	if id := RequestID(ctx); id != "" {
		record.AddAttrs(slog.String("request_id", id))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs keeps the wrapping, which the embedded handler's method would lose.
func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the wrapping as WithAttrs does.
func (h correlated) WithGroup(name string) slog.Handler { return correlated{h.Handler.WithGroup(name)} }

type requestIDKey struct{}

// WithRequestID marks everything done with the context as part of one request, which rpc carries to the next process.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of the request that the context belongs to, "" when it belongs to none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// Masked is a phone number, or another short personal text, on its way to a log: it shows its first three and its
// last two characters, as +55***88, or nothing of it when it is too short for that to hide anything.
type Masked string

// String is the masked form.
func (m Masked) String() string {
	const head, tail, shortest = 3, 2, 8
	runes := []rune(string(m))
	switch {
	case len(runes) == 0:
		return ""
	case len(runes) < shortest:
		return "***"
	default:
		return string(runes[:head]) + "***" + string(runes[len(runes)-tail:])
	}
}

// GoString keeps %#v from showing the text.
func (m Masked) GoString() string { return m.String() }

// LogValue keeps slog from showing the text.
func (m Masked) LogValue() slog.Value { return slog.StringValue(m.String()) }

// MarshalText keeps JSON from showing the text.
func (m Masked) MarshalText() ([]byte, error) { return []byte(m.String()), nil }
