package inbound_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// whatsApp is a message of a person as the gateway passes it on from Kapso.
func (b *bundle) whatsApp(p people.Profile, id, body string) *onboardingv1.ReceiveMessageRequest {
	return &onboardingv1.ReceiveMessageRequest{
		From: p.Phone, To: "whatsapp:123456789012345", Body: body,
		Whatsapp: &onboardingv1.WhatsAppMessage{MessageId: id, Type: "text", SentAt: timestamppb.New(b.Clock.Now())},
	}
}

func TestWhatsAppMessage(t *testing.T) {
	t.Parallel()

	t.Run("S2_28_IsAnsweredInTheCallAndOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		r := b.Activate(p)
		for i := range 3 {
			out, err := b.Current().Server.ReceiveMessage(t.Context(), b.whatsApp(p, "wamid.1", "yes"))
			require.NoError(t, err)
			require.Equal(t, i > 0, out.GetDuplicate())
			require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where id = $1 and status = 'completed' and source = 'kapso'
				and event_type = 'kapso.message.received' and idempotency_key = 'kapso.message.received:wamid.1'`, out.GetJobId()))
		}
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	t.Run("S2_28_IsTheOneThatTheGatewayOfTheReleaseBeforeHasStored", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		b.Activate(p)
		stored, err := b.Store.Enqueue(t.Context(), conversation.NewJob(onboardingtest.OrgID, conversation.SourceKapso, conversation.EventWhatsApp,
			"kapso.message.received:wamid.1", p.Phone, fmt.Appendf(nil, `{"twilio_sid":"wamid.1","from":%q,"to":"whatsapp:123456789012345",
			"messaging_service_sid":"","body":"yes","segments":0,"media":0,"opt_out_type":"","channel":"whatsapp","type":"text","sent_at":"%d"}`,
				p.Phone, b.Clock.Now().Unix()), b.Clock.Now()))
		require.NoError(t, err)
		out, err := b.Current().Server.ReceiveMessage(t.Context(), b.whatsApp(p, "wamid.1", "yes"))
		require.NoError(t, err)
		require.True(t, out.GetDuplicate())
		require.Equal(t, stored.ID, out.GetJobId())
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		_, err = b.Current().Server.ReceiveMessage(t.Context(), b.whatsApp(p, "wamid.1", "no"))
		onboardingtest.Refused(t, err, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
	})

	t.Run("S0_41_OneThatOthersFollowIsRecordedInTheCallAndAnsweredInItsTurn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		r := b.Activate(p)
		m := b.whatsApp(p, "wamid.1", "yes")
		m.Whatsapp.OfSeveral = true
		b.Receives(m)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.Equal(t, 1, b.Messaging.Recorded(), "its words about consent count already")
		_, err := b.Current().Server.ReceiveMessage(t.Context(), b.whatsApp(p, "wamid.2", "STOP"))
		require.NoError(t, err)
		b.Quiet()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p), "the STOP was there before the answer")
	})

	t.Run("S2_31_OneThatMessagingCannotReadFailsAsAJobAndIsNotRepeated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		b.Activate(p)
		m := b.whatsApp(p, "wamid.1", "yes")
		m.From = "unknown"
		out, err := b.Current().Server.ReceiveMessage(t.Context(), m)
		require.NoError(t, err)
		b.Quiet()
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where id = $1 and status = 'failed' and attempts = 1`, out.GetJobId()))
	})

	t.Run("S0_69_OneThatIsDeliveredLateCountsFromWhenItWasWritten", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		m, written := b.whatsApp(p, "wamid.1", "START"), b.Clock.Now()
		b.Clock.Advance(10 * time.Second)
		b.Receives(m)
		require.Equal(t, written, b.Messaging.Inbound("wamid.1").GetReceivedAt().AsTime(), "so it undoes no STOP that came in between")
	})

	t.Run("WithoutANumberIsKeptAndItsSTOPHoldsOnceTheNumberIsKnown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		r := b.Activate(p)
		nameless := b.whatsApp(p, "wamid.1", "STOP")
		nameless.From, nameless.Whatsapp.UserId = "whatsapp:US.13491208655302741918", "US.13491208655302741918"
		out, err := b.Current().Server.ReceiveMessage(t.Context(), nameless)
		require.NoError(t, err)
		b.Quiet()
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where id = $1 and status = 'failed' and attempts = 1
			and error_message like '%no phone number%'`, out.GetJobId()))
		require.Equal(t, session.Active, b.Session(r.ID).Status, "whose it is cannot be told")

		named := b.whatsApp(p, "wamid.2", "yes")
		named.Whatsapp.UserId = "US.13491208655302741918"
		b.Receives(named)
		b.Quiet()
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p), "the STOP counts before the answer to what came later")
		require.Equal(t, 2, b.Count(`select count(*) from webhook_jobs where source = 'kapso' and status = 'completed' and subject = $1`, p.Phone),
			"an erasure finds both, and they keep their order")
	})

	t.Run("WithoutANumberIsThePersonsWhoseIDIsKnown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		r := b.Activate(p)
		named := b.whatsApp(p, "wamid.1", "yes")
		named.Whatsapp.UserId = "US.1"
		b.Receives(named)
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		nameless := b.whatsApp(p, "wamid.2", "STOP")
		nameless.From, nameless.Whatsapp.UserId = "whatsapp:US.1", "US.1"
		b.Receives(nameless)
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Equal(t, 2, b.Count(`select count(*) from webhook_jobs where source = 'kapso' and subject = $1`, p.Phone), "in order with the person's other jobs")

		other := b.Person()
		moved := b.whatsApp(other, "wamid.3", "hi")
		moved.Whatsapp.UserId = "US.1"
		b.Receives(moved)
		require.Equal(t, 1, b.Count(`select count(*) from profiles where whatsapp_user_id = 'US.1' and phone = $1`, other.Phone), "they have another number now")
	})

	t.Run("WithoutAnIDIsRefusedAndNotStored", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.Current().Server.ReceiveMessage(t.Context(), b.whatsApp(people.Profile{Phone: "+5511900000000"}, "", "yes"))
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		require.Zero(t, b.Count(`select count(*) from webhook_jobs`))
	})
}
