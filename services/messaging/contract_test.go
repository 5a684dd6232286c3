package messaging

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// TestContract plays the same calls to the service and to its emulator, which onboarding's tests use: docs/adr/0004. An answer that differs
// would let onboarding be tested against promises that the service does not make.
func TestContract(t *testing.T) {
	t.Parallel()
	emulator := inProcess{}
	messagingv1.RegisterMessagingServiceServer(emulator, messagingtest.New(orgA, ours, func() time.Time { return noon }))
	for name, service := range map[string]messagingv1.MessagingServiceClient{
		"Service": setup(t), "Emulator": messagingv1.NewMessagingServiceClient(emulator),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := contract{t: t, s: service}
			c.messagesAreAnswered()
			c.lastWordCounts()
			c.badWishesAreRefused()
			c.keySendsOnce()
			c.stopHolds()
			c.laterHoldCounts()
		})
	}
}

type contract struct {
	t *testing.T
	s messagingv1.MessagingServiceClient
}

// hear records a message for a caller of this release, or of the one before.
func (c contract) hear(sid, body string, reads bool, after time.Duration) *messagingv1.RecordInboundResponse {
	c.t.Helper()
	answer, err := c.s.RecordInbound(as(c.t, rpc.RoleService, "", "onboarding"), &messagingv1.RecordInboundRequest{
		TwilioSid: sid, From: theirs, To: ours, Body: body, UnderstandsPreferences: reads, ReceivedAt: timestamppb.New(noon.Add(after - time.Hour)),
	})
	require.NoError(c.t, err)
	return answer
}

func (c contract) send(key, purpose string, understands ...messagingv1.Outcome) messagingv1.Outcome {
	c.t.Helper()
	answer, err := c.s.Send(as(c.t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{
		OrgId: orgA, To: theirs, Body: "hello", IdempotencyKey: key, Purpose: purpose, Understands: understands,
	})
	require.NoError(c.t, err)
	return answer.GetOutcome()
}

func (c contract) set(r *messagingv1.SetRemindersRequest) (*messagingv1.SetRemindersResponse, error) {
	c.t.Helper()
	return c.s.SetReminders(as(c.t, rpc.RoleService, "", "onboarding"), r)
}

const another, third = "+14155550189", "+14155550190"

// ask sends to a phone, for a caller that reads every outcome.
func (c contract) ask(to, key, body string) (*messagingv1.SendResponse, error) {
	c.t.Helper()
	return c.s.Send(as(c.t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{
		OrgId: orgA, To: to, Body: body, IdempotencyKey: key, Understands: []messagingv1.Outcome{messagingv1.Outcome_OUTCOME_HELD},
	})
}

func (c contract) outcome(to, key string) messagingv1.Outcome {
	c.t.Helper()
	answer, err := c.ask(to, key, "hello")
	require.NoError(c.t, err)
	return answer.GetOutcome()
}

// keySendsOnce: a repeat is answered with the first message, and a key names one message.
func (c contract) keySendsOnce() {
	c.t.Helper()
	first, err := c.ask(another, "once", "hello")
	require.NoError(c.t, err)
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_ACCEPTED, first.GetOutcome())
	repeat, err := c.ask(another, "once", "hello")
	require.NoError(c.t, err)
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED, repeat.GetOutcome())
	require.NotEmpty(c.t, first.GetMessage().GetTwilioSid())
	require.Equal(c.t, []string{first.GetMessage().GetMessageId(), first.GetMessage().GetTwilioSid()},
		[]string{repeat.GetMessage().GetMessageId(), repeat.GetMessage().GetTwilioSid()})
	_, err = c.ask(another, "once", "another text")
	requireRefused(c.t, err, codes.AlreadyExists, messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
	_, err = c.ask(third, "once", "hello")
	requireRefused(c.t, err, codes.AlreadyExists, messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
	_, err = c.ask(another, "empty", "")
	requireRefused(c.t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
}

// stopHolds: nothing new is sent after STOP, a repeat of what was sent is still answered, and an older STOP changes nothing.
func (c contract) stopHolds() {
	c.t.Helper()
	say := func(sid, body string, at time.Duration) *messagingv1.RecordInboundResponse {
		answer, err := c.s.RecordInbound(as(c.t, rpc.RoleService, "", "onboarding"), &messagingv1.RecordInboundRequest{
			TwilioSid: sid, From: another, To: ours, Body: body, ReceivedAt: timestamppb.New(noon.Add(at - time.Hour)),
		})
		require.NoError(c.t, err)
		return answer
	}
	require.Equal(c.t, messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT, say("SM11", "STOP", time.Minute).GetConsentEffect())
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_OPTED_OUT, c.outcome(another, "after stop"))
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED, c.outcome(another, "once"))
	require.Equal(c.t, messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_IN, say("SM12", "START", 2*time.Minute).GetConsentEffect())
	require.Equal(c.t, "opted_in", say("SM11", "STOP", time.Minute).GetConsentState(), "a repeat names the state that holds now")
	require.Equal(c.t, messagingv1.ConsentEffect_CONSENT_EFFECT_OVERTAKEN, say("SM13", "STOP", 90*time.Second).GetConsentEffect())
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_ACCEPTED, c.outcome(another, "after start"))
}

// laterHoldCounts: of two holds the higher version counts, whichever arrives last.
func (c contract) laterHoldCounts() {
	c.t.Helper()
	hold := func(held bool, version int64) error {
		_, err := c.s.SetHold(as(c.t, rpc.RoleService, "", "onboarding"), &messagingv1.SetHoldRequest{
			OrgId: orgA, Phone: third, Held: held, Version: version,
		})
		return err
	}
	require.NoError(c.t, hold(true, 3))
	require.NoError(c.t, hold(false, 2))
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_HELD, c.outcome(third, "held"))
	require.NoError(c.t, hold(false, 4))
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_ACCEPTED, c.outcome(third, "held"))
	requireRefused(c.t, hold(true, 0), codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
}
