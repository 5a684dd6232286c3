package onboarding

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/apikeys"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/tickets"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want codes.Code
	}{
		{name: "DatabaseShutsDown", err: &pgconn.PgError{Code: "57P01"}, want: codes.Unavailable},
		{name: "TooManyConnections", err: &pgconn.PgError{Code: "53300"}, want: codes.Unavailable},
		{name: "StandbyJustPromoted", err: &pgconn.PgError{Code: "25006"}, want: codes.Unavailable},
		{name: "ConnectionRefused", err: &net.OpError{Op: "dial", Err: errors.New("refused")}, want: codes.Unavailable},
		{name: "ConnectionCut", err: io.ErrUnexpectedEOF, want: codes.Unavailable},
		{name: "RulesOfALaterRelease", err: fmt.Errorf("%w: %w", people.ErrLaterRules, rules.ErrConfig), want: codes.Unavailable},
		{name: "BrokenStatement", err: &pgconn.PgError{Code: "42P01", Message: "relation does not exist"}, want: codes.Unknown},
		{name: "AnythingElse", err: errors.New("a defect"), want: codes.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Answer(fmt.Errorf("move session: %w", tt.err))
			refusal, ok := rpc.ErrorFrom(err)
			if tt.want == codes.Unknown {
				require.False(t, ok, "the chain hides it")
				require.ErrorIs(t, err, tt.err)
				return
			}
			require.True(t, ok)
			require.Equal(t, tt.want, refusal.Code)
			require.Equal(t, onboardingv1.Reason_REASON_UNAVAILABLE.String(), refusal.Reason)
			require.Positive(t, refusal.RetryAfter)
			require.NotContains(t, refusal.Message, "move session")
		})
	}

	t.Run("AnOfflineDeviceAsksForNoPauseOfItsOwn", func(t *testing.T) {
		t.Parallel()
		refusal, ok := rpc.ErrorFrom(Answer(errors.Join(nil, goals.ErrOffline)))
		require.True(t, ok)
		require.Equal(t, codes.Unavailable, refusal.Code)
		require.Equal(t, onboardingv1.Reason_REASON_DEVICE_OFFLINE.String(), refusal.Reason)
		require.Zero(t, refusal.RetryAfter, "QStash would take it instead of the backoff")
	})

	t.Run("AFullQuotaSaysWhetherTimeMakesRoom", func(t *testing.T) {
		t.Parallel()
		for err, again := range map[error]time.Duration{tickets.ErrManyAnswers: time.Minute, events.ErrFull: retrySoon, apikeys.ErrTooMany: 0} {
			refusal, ok := rpc.ErrorFrom(Answer(err))
			require.True(t, ok)
			require.Equal(t, codes.ResourceExhausted, refusal.Code)
			require.Equal(t, again, refusal.RetryAfter, err)
		}
	})
}
