package events_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/events"
)

// stream is the server's side of a stream that is refused before anything is sent.
type stream struct {
	grpc.ServerStreamingServer[onboardingv1.StreamEventsResponse]

	ctx context.Context //nolint:containedctx // as grpc has it
}

func (s stream) Context() context.Context { return s.ctx }

func TestARefusalNamesItsField(t *testing.T) {
	t.Parallel()
	w := setup(t)
	server := &events.RPC{Store: w.store, Hub: events.NewHub(w.store.LastSeq, slog.New(slog.DiscardHandler))}
	ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Role: rpc.RoleOperator, OrgID: orgID})
	for _, tt := range []struct {
		name  string
		after int64
		types []string
		want  string
	}{
		{name: "BeyondTheEnd", after: 1, want: "after"},
		{name: "NoSeq", after: -1, want: "after"},
		{name: "NoType", types: []string{"session.none"}, want: "types"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, listed := server.ListEvents(ctx, &onboardingv1.ListEventsRequest{After: tt.after, Types: tt.types})
			streamed := server.StreamEvents(&onboardingv1.StreamEventsRequest{After: &tt.after, Types: tt.types}, stream{ctx: ctx})
			for _, err := range []error{listed, streamed} {
				refusal, ok := rpc.ErrorFrom(err)
				require.True(t, ok)
				require.Equal(t, codes.InvalidArgument, refusal.Code)
				require.Equal(t, "REASON_INVALID", refusal.Reason)
				require.Equal(t, map[string]string{"field": tt.want}, refusal.Meta)
			}
		})
	}
}
