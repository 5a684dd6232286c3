package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

func open(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, talk)
	require.NoError(t, err)
	return s
}

func says(s grpc.ClientStream, text string) (string, error) {
	if err := s.SendMsg(wrapperspb.String(text)); err != nil && !errors.Is(err, io.EOF) { // of a stream that has ended RecvMsg says why
		return "", err
	}
	answer := new(wrapperspb.StringValue)
	err := s.RecvMsg(answer)
	return answer.GetValue(), err
}

func TestStreams(t *testing.T) {
	t.Parallel()

	t.Run("AStreamIsOneWideLineWithTheRequestOfItsCaller", func(t *testing.T) {
		t.Parallel()
		b := setup(t, repeat)
		s := open(telemetry.WithRequestID(t.Context(), "r-1"), t, b.dial())
		for _, text := range []string{"one", "two"} {
			answer, err := says(s, text)
			require.NoError(t, err)
			require.Equal(t, text, answer)
		}
		require.NoError(t, s.CloseSend())
		require.Error(t, s.RecvMsg(new(wrapperspb.StringValue)), "its end")
		line := b.line()
		require.Equal(t, "rpc.handled", line["msg"])
		require.Equal(t, talk, line["method"])
		require.Equal(t, "OK", line["code"])
		require.Equal(t, "r-1", line["request_id"])
		require.Equal(t, "service", line["caller_role"])
	})

	t.Run("APanicEndsTheStreamAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(_ context.Context, text string) (string, error) {
			if text == "panic" {
				panic("hunter2")
			}
			return text, nil
		})
		conn := b.dial()
		other := open(t.Context(), t, conn)
		_, err := says(other, "hi")
		require.NoError(t, err)
		_, err = says(open(t.Context(), t, conn), "panic")
		require.Equal(t, status.Error(codes.Internal, "internal error").Error(), err.Error())
		_, err = says(other, "still here")
		require.NoError(t, err)
	})

	t.Run("AStreamWithoutATokenIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := says(open(t.Context(), t, setup(t, repeat).plain()), "hi")
		require.Equal(t, codes.Unauthenticated, status.Code(err))
	})

	t.Run("AKnownCallerMayBeSilentOnceItHasSpoken", func(t *testing.T) {
		t.Parallel()
		b := setup(t, repeat)
		spoke, silent := open(t.Context(), t, b.dial()), open(t.Context(), t, b.dial())
		_, err := says(spoke, "hi")
		require.NoError(t, err)
		require.Equal(t, codes.Canceled, status.Code(silent.RecvMsg(new(wrapperspb.StringValue))), "the first message has to come in time")
		_, err = says(spoke, "as long as the other was waited for")
		require.NoError(t, err)
	})

	t.Run("ACallerThatDoesNotReadLosesItsStream", func(t *testing.T) {
		t.Parallel()
		ended := make(chan struct{})
		b := setup(t, func(ctx context.Context, _ string) (string, error) {
			context.AfterFunc(ctx, func() { close(ended) })
			return strings.Repeat("x", 60<<10), nil
		})
		s := open(t.Context(), t, b.dial())
		require.NoError(t, s.SendMsg(wrapperspb.String("much")))
		<-ended
	})

	t.Run("AStreamEndsWithItsToken", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(ctx context.Context, text string) (string, error) {
			if text == "heed" {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return text, nil
		})
		token, err := b.tokens.Mint(service(), 2*time.Second)
		require.NoError(t, err)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		heeding, waiting := open(ctx, t, b.plain()), open(ctx, t, b.plain())
		_, err = says(waiting, "hi")
		require.NoError(t, err)
		_, err = says(heeding, "heed")
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
		err = waiting.RecvMsg(new(wrapperspb.StringValue))
		require.Equal(t, codes.Canceled, status.Code(err), "a handler that only waits for its caller is cut off: %v", err)
	})

	t.Run("TheClientOpensStreamsWithATokenOfTheirLife", func(t *testing.T) {
		t.Parallel()
		left := make(chan time.Duration, 1)
		b := setup(t, func(ctx context.Context, text string) (string, error) {
			end, _ := ctx.Deadline()
			left <- time.Until(end)
			return text, nil
		})
		_, err := says(open(t.Context(), t, b.dial()), "hi")
		require.NoError(t, err)
		require.InDelta(t, rpc.StreamLife.Seconds(), (<-left).Seconds(), 10)
	})
}
