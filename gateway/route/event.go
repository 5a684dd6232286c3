// Package route holds what all routes of the gateway share: the log line of a request, the error answers, the strict reading of a body,
// the pipeline of a vendor's callback and its limiter.
package route

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

// Event is the one wide log line of a request, filled on the way. It names the route and never the path or the
// query, which may hold a phone number, and never a body.
type Event struct {
	Level slog.Level

	route string
	attrs []slog.Attr
}

type eventKey struct{}

// EventFrom returns the event of the request; outside a request, one that is discarded.
func EventFrom(ctx context.Context) *Event {
	if e, ok := ctx.Value(eventKey{}).(*Event); ok {
		return e
	}
	return new(Event)
}

// At names the route of the request on the line, the span and the metrics. It also covers the span's own url.path,
// which would hold a phone number.
func (e *Event) At(r *http.Request, route string) {
	e.route = route
	span := trace.SpanFromContext(r.Context())
	span.SetName(Clip(r.Method) + " " + route)
	span.SetAttributes(semconv.HTTPRoute(route), semconv.URLPath(route))
	if labels, ok := otelhttp.LabelerFromContext(r.Context()); ok {
		labels.Add(semconv.HTTPRoute(route))
	}
}

// Add puts more on the line.
func (e *Event) Add(attrs ...slog.Attr) { e.attrs = append(e.attrs, attrs...) }

// Fail puts the code and the reason of the answer on the line. The message is for the caller only: it may quote input.
func (e *Event) Fail(err *rpc.Error) {
	e.Add(slog.String("code", err.Code.String()), slog.String("reason", err.Reason))
}

// Clip cuts untrusted input to the length that a line or a span has room for: a header may hold 32 KiB, and a caller without a token can
// have it logged.
func Clip(text string) string {
	const most = 128
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Cause puts an upstream's error on the line when the caller does not get it. A service's messages are fixed and a
// transport's contain addresses only; neither contains the words of a person.
func (e *Event) Cause(err error) {
	switch status.Code(err) {
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated, codes.Unimplemented, codes.Unavailable, codes.DeadlineExceeded:
		e.Level = max(e.Level, slog.LevelWarn)
		e.Add(slog.String("cause", status.Convert(err).Message()))
	default:
	}
}

// Observe wraps the whole surface: it names the request and its client, writes its one line, and turns a panic into a 500.
func Observe(log *slog.Logger, now func() time.Time, proxies []config.Network, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started, id, client := now(), requestID(r), clientAddress(r, proxies)
		e := &Event{route: "unmatched"}
		out := &recorder{ResponseWriter: w}
		out.Header().Set(HeaderRequestID, id)
		trace.SpanFromContext(r.Context()).SetAttributes(semconv.URLPath(e.route)) // an unmatched path may hold a phone number
		ctx := context.WithValue(telemetry.WithRequestID(r.Context(), id), eventKey{}, e)
		if client.IsValid() {
			ctx = context.WithValue(ctx, clientKey{}, client.String())
		}
		defer func() {
			if cause := recover(); cause != nil {
				if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares this panic value by identity too
					panic(cause)
				}
				e.Level = slog.LevelError
				e.Add(slog.String("panic", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
				if out.status == 0 {
					WriteError(ctx, out, http.StatusInternalServerError, Public(nil))
				}
			}
			log.LogAttrs(ctx, e.Level, "http.request", append([]slog.Attr{
				slog.String("method", Clip(r.Method)), slog.String("route", e.route), slog.Int("status", out.status),
				slog.Int64("bytes", out.bytes), slog.Float64("duration_ms", float64(now().Sub(started).Microseconds())/1000),
				slog.String("client", ClientFrom(ctx)),
			}, e.attrs...)...)
		}()
		next.ServeHTTP(out, r.WithContext(ctx))
	})
}

// recorder remembers the status and the size of an answer.
type recorder struct {
	http.ResponseWriter

	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(httpStatus int) {
	if w.status == 0 {
		w.status = httpStatus
	}
	w.ResponseWriter.WriteHeader(httpStatus)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// HeaderRequestID names a request in logs, at callers and at services.
const HeaderRequestID = "X-Request-Id"

// requestID returns the caller's id, when it is short and plain enough to be logged and passed on, else a new one.
func requestID(r *http.Request) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if id := r.Header.Get(HeaderRequestID); id != "" && len(id) <= 64 && strings.Trim(id, letters) == "" {
		return id
	}
	id, err := uuid.NewV7()
	if err != nil { // the machine has no randomness: a request without an id is better than no request
		return ""
	}
	return id.String()
}
