package telemetry

import (
	"context"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

// Conversations make conversation spans: all that is done for a conversation of days is in one trace, in whatever process and at
// whatever time.
// The trace has the conversation's own id, so that a loop that goes on after a crash finds it without anything stored or handed on, and an
// operator who has the id has the trace. The zero value traces nothing.
type Conversations struct{ Tracer trace.Tracer }

// Begin starts a span in the trace of the conversation, and returns what ends it. Where the caller is in another trace, as one is that
// only now knows what conversation it belongs to, the two are linked both ways; where it is in this one already, the span is its child.
// An id that is no UUID has no trace: then the span is the caller's child, too.
func (t Conversations) Begin(ctx context.Context, name, id string) (context.Context, func()) {
	if t.Tracer == nil {
		return ctx, func() {}
	}
	conversation, err := uuid.Parse(id)
	caller := trace.SpanFromContext(ctx)
	if came := caller.SpanContext(); err != nil || conversation == uuid.Nil || came.TraceID() == trace.TraceID(conversation) {
		ctx, span := t.Tracer.Start(ctx, name)
		return ctx, func() { span.End() }
	}
	// A parent without a span id: the span is a root, of the trace that we say.
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(conversation)}))
	ctx, span := t.Tracer.Start(ctx, name)
	if from := caller.SpanContext(); from.IsValid() {
		span.AddLink(trace.Link{SpanContext: from})
		caller.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, func() { span.End() }
}
