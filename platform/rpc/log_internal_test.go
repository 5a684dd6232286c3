package rpc

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

func TestACallWhoseCallerHasLeftWarnsOfNothing(t *testing.T) {
	t.Parallel()
	left, leave := context.WithCancel(t.Context())
	leave()
	require.Equal(t, slog.LevelInfo, levelFor(left, "/a.B/C", codes.Unavailable))
	require.Equal(t, slog.LevelError, levelFor(left, "/a.B/C", codes.Internal), "a panic is one all the same")
	require.Equal(t, slog.LevelWarn, levelFor(t.Context(), "/a.B/C", codes.Unavailable))
}
