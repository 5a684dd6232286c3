package stack_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/test/stack"
)

func TestOtherFlows(t *testing.T) {
	t.Parallel()

	t.Run("S0_07_ATextThatIsNotOnboardingNeitherWaitsForTheBurstNorMovesIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 3)
		before := p.session(t)
		conn, err := grpc.NewClient(b.services.Addresses.Messaging, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		reminder := &messagingv1.SendRequest{
			OrgId: stack.OrgID, ProfileId: p.id, To: p.phone, Body: "Your table is at eight.", IdempotencyKey: "reminder:1",
		}
		messages := messagingv1.NewMessagingServiceClient(conn)
		service := b.as(t, rpc.Principal{Subject: "reminders", OrgID: stack.OrgID, Role: rpc.RoleService})
		for _, want := range []messagingv1.Outcome{
			messagingv1.Outcome_OUTCOME_ACCEPTED, messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED,
		} {
			answer, err := messages.Send(service, reminder)
			require.NoError(t, err)
			require.Equal(t, want, answer.GetOutcome())
		}
		require.Len(t, p.heard(), 4)
		require.Equal(t, before, p.session(t))

		p.reaches(t, atInterview)
		p.says(t, p.ready)
		p.reaches(t, interviewing)
		p.requirePaced(t)
		require.Len(t, p.heard(), 7, "six of the conversation and the reminder")
	})
}
