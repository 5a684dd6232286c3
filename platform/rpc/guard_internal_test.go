package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	const byDefault = 10 * time.Second
	now := time.Now // the bubble's
	for _, tc := range []struct {
		name   string
		within time.Duration // the caller's deadline, none when 0
		want   time.Duration // what the handler gets, refused when 0
	}{
		{name: "NoDeadlineGetsTheDefault", want: byDefault},
		{name: "TheCallersIsKeptLessTheMargin", within: time.Second, want: time.Second - replyMargin},
		{name: "ALaterOneThanTheDefaultIsKept", within: time.Minute, want: time.Minute - replyMargin},
		{name: "AHopelessCallIsRefused", within: replyMargin - 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.within)
					defer cancel()
				}
				var got time.Duration
				err := deadline(byDefault, now)(ctx, "/method", func(ctx context.Context) error {
					end, _ := ctx.Deadline()
					got = end.Sub(now())
					return nil
				})
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.want == 0, status.Code(err) == codes.DeadlineExceeded)
			})
		})
	}

	t.Run("IsCheckedBeforeTheToken", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			chain := around([]layer{deadline(byDefault, now), authenticate(nil, nil)}, "/method", nil)
			require.Equal(t, codes.DeadlineExceeded, status.Code(chain(ctx)))
		})
	})
}

func TestSeal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone := func(ctx context.Context) error { return ctx.Err() }
	require.Equal(t, codes.Canceled, status.Code(seal(ctx, "/method", gone)))

	own := func(context.Context) error { return context.DeadlineExceeded } // of a call that the handler made
	require.Equal(t, codes.Internal, status.Code(seal(t.Context(), "/method", own)))
}
