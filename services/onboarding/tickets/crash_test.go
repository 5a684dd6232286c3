package tickets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

// TestCrashes fails, and kills the process, at every call of a port while a ticket is opened, answered and closed. Whatever happens, each text is
// sent once, there is one ticket, and the conversation goes on.
func TestCrashes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.EveryMishap(12, func(ports *onboardingtest.Ports) {
		p, r := b.Explained()
		before := len(b.said(p))
		b.Serve(b.Start(ports))
		again := func(do func() error) { // as a caller repeats it
			for range 6 {
				if do() == nil {
					return
				}
				b.Clock.Advance(time.Minute)
				b.Work()
			}
			require.NoError(b.T, do())
		}
		m := b.Message(p, asking)
		again(func() error {
			_, err := b.Current().Server.ReceiveMessage(b.T.Context(), m)
			return err
		})
		b.Clock.Advance(time.Minute)
		b.Work()
		again(func() error {
			_, err := b.Current().Inbox.SendAnswer(b.as("ada"), &onboardingv1.SendAnswerRequest{
				ProfileId: p.ID, Body: "Hi, this is Ada.", IdempotencyKey: "a-" + p.ID,
			})
			return err
		})
		b.Clock.Advance(time.Minute)
		b.Work()
		id := b.ticket(p).GetTicketId()
		require.EqualValues(b.T, 1, b.ticket(p).GetTexts(), ports.Calls)
		require.EqualValues(b.T, 1, b.ticket(p).GetAnswers(), ports.Calls)
		again(func() error {
			_, err := b.Current().Inbox.CloseTicket(b.as("ada"), &onboardingv1.CloseTicketRequest{TicketId: id, Outcome: "restart"})
			return err
		})
		b.Clock.Advance(time.Minute)
		b.Work()
		b.Serve(b.Start(b.Healthy()))
		b.Clock.Advance(time.Minute)
		b.Work()
		require.Len(b.T, b.said(p), before+2, "the answer and the question once: %v", ports.Calls)
		require.Equal(b.T, session.Active, b.Session(r.ID).Status, ports.Calls)
		require.Equal(b.T, session.AwaitingExplanationResponse, b.Session(r.ID).Token)
		require.Empty(b.T, b.tickets(p))
	})
}
