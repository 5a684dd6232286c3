package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"paceline.internal/platform/telemetry"
)

func TestConversations(t *testing.T) {
	t.Parallel()
	const story, itsTrace = "0190a6c4-7b1e-7def-8abc-0123456789ab", "0190a6c47b1e7def8abc0123456789ab"
	setup := func() (telemetry.Conversations, *tracetest.SpanRecorder) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		return telemetry.Conversations{Tracer: provider.Tracer("test")}, recorder
	}

	t.Run("ALoopThatIsInNoTraceFindsTheStoryByItsID", func(t *testing.T) {
		t.Parallel()
		threads, recorder := setup()
		for range 2 {
			ctx, end := threads.Begin(t.Context(), "step", story)
			_, child := threads.Tracer.Start(ctx, "send")
			child.End()
			end()
		}
		ended := recorder.Ended()
		require.Len(t, ended, 4)
		for _, span := range ended {
			require.Equal(t, itsTrace, span.SpanContext().TraceID().String())
			require.True(t, span.SpanContext().IsSampled())
			require.Empty(t, span.Links())
		}
		require.False(t, ended[1].Parent().SpanID().IsValid(), "it is a root of its trace")
		require.Equal(t, ended[1].SpanContext().SpanID(), ended[0].Parent().SpanID())
	})

	t.Run("ACallerInAnotherTraceIsLinkedBothWays", func(t *testing.T) {
		t.Parallel()
		threads, recorder := setup()
		ctx, caller := threads.Tracer.Start(t.Context(), "reply")
		_, end := threads.Begin(ctx, "answer", story)
		end()
		caller.End()
		answer, reply := recorder.Ended()[0], recorder.Ended()[1]
		require.NotEqual(t, itsTrace, reply.SpanContext().TraceID().String())
		require.Equal(t, itsTrace, answer.SpanContext().TraceID().String())
		require.Equal(t, []trace.SpanContext{reply.SpanContext()}, linked(answer))
		require.Equal(t, []trace.SpanContext{answer.SpanContext()}, linked(reply))
	})

	t.Run("ACallerInTheStoryIsItsParent", func(t *testing.T) {
		t.Parallel()
		threads, recorder := setup()
		ctx, end := threads.Begin(t.Context(), "step", story)
		_, endInner := threads.Begin(ctx, "alarm", story)
		endInner()
		end()
		require.Equal(t, recorder.Ended()[1].SpanContext().SpanID(), recorder.Ended()[0].Parent().SpanID())
		require.Empty(t, recorder.Ended()[0].Links())
	})

	t.Run("WhatIsNoIDStaysInTheCallersTrace", func(t *testing.T) {
		t.Parallel()
		threads, recorder := setup()
		for _, id := range []string{"", "ana", "00000000-0000-0000-0000-000000000000"} {
			ctx, caller := threads.Tracer.Start(t.Context(), "caller")
			_, end := threads.Begin(ctx, "step", id)
			end()
			require.Equal(t, caller.SpanContext().SpanID(), recorder.Ended()[len(recorder.Ended())-1].Parent().SpanID())
		}
	})

	t.Run("TheZeroValueTracesNothing", func(t *testing.T) {
		t.Parallel()
		ctx, end := telemetry.Conversations{}.Begin(t.Context(), "step", story)
		end()
		require.Equal(t, t.Context(), ctx)
	})
}

func linked(span sdktrace.ReadOnlySpan) (to []trace.SpanContext) {
	for _, link := range span.Links() {
		to = append(to, link.SpanContext)
	}
	return to
}
