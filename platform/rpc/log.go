package rpc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/telemetry"
)

// requestIDHeader carries the request id from process to process.
const requestIDHeader = "x-request-id"

// event is the one wide line of an RPC while it is being filled.
type event struct {
	quiet atomic.Bool

	mu    sync.Mutex
	attrs []slog.Attr
}

type eventKey struct{}

// Annotate adds to the line that is logged when the RPC which ctx belongs to has ended. Outside of an RPC it does
// nothing. It may be called from several goroutines.
func Annotate(ctx context.Context, attrs ...slog.Attr) {
	e, ok := ctx.Value(eventKey{}).(*event)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attrs = append(e.attrs, attrs...)
}

// Quiet logs this call at Debug if it succeeds. It is for calls that a loop makes every second.
func Quiet(ctx context.Context) {
	if e, ok := ctx.Value(eventKey{}).(*event); ok {
		e.quiet.Store(true)
	}
}

func (e *event) all() []slog.Attr {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.attrs)
}

// metrics counts the results of the calls by reason, which the duration histogram of the stats handler does not know.
func metrics(provider metric.MeterProvider) (layer, error) {
	handled, err := provider.Meter("paceline.internal/platform/rpc").Int64Counter("paceline_rpc_handled_total",
		metric.WithDescription("RPCs that were answered, by method, code and reason."))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, method string, next func(context.Context) error) error {
		err := next(ctx)
		reason, _ := Reason(err)
		handled.Add(ctx, 1, metric.WithAttributes(
			attribute.String("method", method),
			attribute.String("code", status.Code(err).String()),
			attribute.String("reason", reason),
		))
		return err
	}, nil
}

// log writes the rpc.handled line of a call and gives the call its request id.
func log(logger *slog.Logger, now func() time.Time) layer {
	return func(ctx context.Context, method string, next func(context.Context) error) error {
		started := now()
		e := &event{}
		ctx = telemetry.WithRequestID(ctx, requestID(ctx))
		err := next(context.WithValue(ctx, eventKey{}, e))
		code := status.Code(err)
		reason, _ := Reason(err)
		level := levelFor(ctx, method, code)
		if err == nil && e.quiet.Load() {
			level = slog.LevelDebug
		}
		logger.LogAttrs(ctx, level, "rpc.handled", slices.Concat([]slog.Attr{
			slog.String("method", method),
			slog.String("code", code.String()),
			slog.String("reason", reason),
			slog.Float64("duration_ms", float64(now().Sub(started).Microseconds())/1000),
		}, e.all())...)
		return err
	}
}

// levelFor is level, but warns of no call after its caller has left: a page that was closed makes each read behind it fail.
func levelFor(ctx context.Context, method string, code codes.Code) slog.Level {
	if l := level(method, code); l != slog.LevelWarn || !errors.Is(ctx.Err(), context.Canceled) {
		return l
	}
	return slog.LevelInfo
}

// level is Error for what only we can mend, Warn for what should not last, and Info for answers of every other kind. Probes
// come every few seconds and would drown the rest.
func level(method string, code codes.Code) slog.Level {
	switch code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return slog.LevelError
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unimplemented:
		return slog.LevelWarn
	case codes.OK, codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.Unauthenticated:
	}
	if public(method) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// requestID is the caller's id when it is one that we would write ourselves, else a new one: what a stranger sends must
// not be able to forge log lines or to fill them.
func requestID(ctx context.Context) string {
	given := metadata.ValueFromIncomingContext(ctx, requestIDHeader)
	if len(given) == 1 && wellFormedID(given[0]) {
		return given[0]
	}
	return newRequestID()
}

func wellFormedID(id string) bool {
	const (
		longest = 64
		letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	)
	return id != "" && len(id) <= longest && strings.Trim(id, letters) == ""
}

func newRequestID() string {
	id, err := uuid.NewV7()
	if err != nil { // the machine has no randomness: a call without an id is better than no call
		return ""
	}
	return id.String()
}
