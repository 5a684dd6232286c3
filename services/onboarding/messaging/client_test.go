package messaging_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgID  = "00000000-0000-7000-8000-000000000001"
	ours   = "+14155550100"
	theirs = "+14155550123"
)

// received is the time when every message reaches us.
var received = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func setup(t *testing.T) (*messaging.Client, *messagingtest.Service) {
	t.Helper()
	service := messagingtest.New(orgID, ours, func() time.Time { return received })
	return messaging.New(service.Client(t), func() time.Time { return received }), service
}

// message returns one of our messages.
func message() conversation.Message {
	return conversation.Message{OrgID: orgID, ProfileID: "p", To: theirs, Body: "hello", Key: "k", CorrelationID: "c"}
}

func TestSend(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		script messagingtest.Outcome
		want   conversation.Outcome
		again  conversation.Outcome
	}{
		{name: "Accepted", script: messagingtest.Accept, want: conversation.Accepted, again: conversation.AlreadyAccepted},
		{name: "Throttled", script: messagingtest.Throttle, want: conversation.Throttled, again: conversation.Accepted},
		{name: "Unknown", script: messagingtest.UnknownForever, want: conversation.Unknown, again: conversation.Unknown},
		{name: "Undecided", script: messagingtest.ParkTaken, want: conversation.Undecided, again: conversation.Undecided},
		{name: "Rejected", script: messagingtest.Reject, want: conversation.Rejected, again: conversation.Rejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, service := setup(t)
			service.Script(messagingtest.First(tt.script))
			for _, want := range []conversation.Outcome{tt.want, tt.again} {
				sent, err := client.Send(t.Context(), message())
				require.NoError(t, err)
				require.Equal(t, want, sent.Outcome)
				switch want {
				case conversation.Accepted, conversation.AlreadyAccepted:
					require.NotEmpty(t, sent.MessageID)
					require.NotEmpty(t, sent.ProviderID)
					require.Equal(t, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), sent.AcceptedAt)
				case conversation.Rejected:
					require.Equal(t, messagingtest.RejectCode, sent.Code)
					require.NotEmpty(t, sent.Explanation)
				case conversation.Undecided:
					require.Contains(t, sent.Explanation, sent.MessageID)
				default:
					require.Equal(t, messagingtest.RetryAfter, sent.RetryAfter)
				}
			}
		})
	}

	t.Run("OptedOut", func(t *testing.T) {
		t.Parallel()
		client, _ := setup(t)
		recorded, err := client.Record(t.Context(), inbound.Message{SID: "SM1", From: theirs, To: ours, Body: "Stop"}, conversation.View{}, received)
		require.NoError(t, err)
		require.Equal(t, conversation.EffectOptOut, recorded.Effect)
		sent, err := client.Send(t.Context(), message())
		require.NoError(t, err)
		require.Equal(t, conversation.Sent{Outcome: conversation.OptedOut}, sent)
	})

	t.Run("KeyOfAnotherMessage", func(t *testing.T) {
		t.Parallel()
		client, _ := setup(t)
		_, err := client.Send(t.Context(), message())
		require.NoError(t, err)
		other := message()
		other.Body = "goodbye"
		sent, err := client.Send(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, conversation.KeyReused, sent.Outcome)
	})

	t.Run("GivenUp", func(t *testing.T) {
		t.Parallel()
		client, service := setup(t)
		service.Script(messagingtest.First(messagingtest.ParkMissed))
		_, err := client.Send(t.Context(), message())
		require.NoError(t, err)
		require.True(t, service.Resolve(message().Key, messagingv1.Resolution_RESOLUTION_GIVE_UP))
		sent, err := client.Send(t.Context(), message())
		require.NoError(t, err)
		require.Equal(t, conversation.GivenUp, sent.Outcome)
	})

	t.Run("PolicyOfUnknownSends", func(t *testing.T) {
		t.Parallel()
		client, service := setup(t)
		for policy, want := range map[session.UnknownSends]messagingv1.UnknownPolicy{
			session.ConfirmAbsentThenResend: messagingv1.UnknownPolicy_UNKNOWN_POLICY_CONFIRM_ABSENT_THEN_RESEND,
			session.NeverDuplicate:          messagingv1.UnknownPolicy_UNKNOWN_POLICY_NEVER_DUPLICATE,
		} {
			careful := message()
			careful.Key, careful.Unknown = string(policy), policy
			_, err := client.Send(t.Context(), careful)
			require.NoError(t, err)
			attempts := service.Attempts()
			require.Equal(t, want, attempts[len(attempts)-1].GetUnknownPolicy())
		}
	})

	t.Run("OutOfReach", func(t *testing.T) {
		t.Parallel()
		client, service := setup(t)
		service.SetDown(true)
		_, err := client.Send(t.Context(), message())
		require.ErrorIs(t, err, people.ErrUnavailable)
		_, err = client.Record(t.Context(), inbound.Message{SID: "SM1", From: theirs, To: ours}, conversation.View{}, received)
		require.ErrorIs(t, err, people.ErrUnavailable)
		_, err = client.CheckSender(t.Context(), orgID, theirs)
		require.ErrorIs(t, err, people.ErrUnavailable)
	})
}

func TestTimesOfASend(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		older         bool // messaging does not say how long ago it was
		skew          time.Duration
		taken, asked  time.Duration // after the call began, by our own clock
		again, before time.Duration // the same of the next call, a second after the first one ended
	}{
		{name: "R_09_R_13_TimesAreOfOurOwnClock", taken: 900 * time.Millisecond, again: -time.Second, before: -1900 * time.Millisecond},
		{name: "R_09_R_13_TimesAreOfOurOwnClockWhenMessagingsIsAhead", skew: 3 * time.Second, taken: 900 * time.Millisecond, again: -time.Second, before: -1900 * time.Millisecond},
		{name: "R_09_R_13_TimesAreOfOurOwnClockWhenMessagingsIsBehind", skew: -3 * time.Second, taken: 900 * time.Millisecond, again: -time.Second, before: -1900 * time.Millisecond},
		{name: "R_09_R_13_OlderMessagingIsBelievedItsClock", older: true, skew: time.Second, taken: 1900 * time.Millisecond, before: -900 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64 // since received
			clock := func() time.Time { return received.Add(time.Duration(now.Load())) }
			service := messagingtest.New(orgID, ours, func() time.Time { return clock().Add(tt.skew) })
			service.SetOlder(tt.older)
			service.Gate(func(*messagingv1.SendRequest) { now.Add(int64(900 * time.Millisecond)) }) // Twilio is slow
			client := messaging.New(service.Client(t), clock)
			sent, err := client.Send(t.Context(), message())
			require.NoError(t, err)
			require.Equal(t, tt.taken, sent.AcceptedAt.Sub(received))
			require.Equal(t, tt.asked, sent.AskedAt.Sub(received))
			now.Add(int64(time.Second))
			began := clock()
			sent, err = client.Send(t.Context(), message())
			require.NoError(t, err)
			require.Equal(t, conversation.AlreadyAccepted, sent.Outcome)
			require.Equal(t, tt.again, sent.AcceptedAt.Sub(began))
			require.Equal(t, tt.before, sent.AskedAt.Sub(began))
		})
	}

	t.Run("R_13_NonsenseOfAClockThatJumpsIsCut", func(t *testing.T) {
		t.Parallel()
		var behind atomic.Int64
		service := messagingtest.New(orgID, ours, func() time.Time { return received.Add(time.Duration(behind.Load())) })
		client := messaging.New(service.Client(t), func() time.Time { return received })
		_, err := client.Send(t.Context(), message())
		require.NoError(t, err)
		behind.Store(int64(-time.Hour)) // so that it was taken in an hour
		sent, err := client.Send(t.Context(), message())
		require.NoError(t, err)
		require.Equal(t, received, sent.AcceptedAt)
		require.Equal(t, received, sent.AskedAt)
	})
}

func TestRecord(t *testing.T) {
	t.Parallel()
	client, _ := setup(t)
	_, err := client.Record(t.Context(), inbound.Message{SID: "SM1", From: theirs, To: "+14155550999"}, conversation.View{}, received)
	require.ErrorIs(t, err, inbound.ErrUnknownSender)
	_, err = client.Record(t.Context(), inbound.Message{SID: "SM2", From: "unknown", To: ours}, conversation.View{}, received)
	require.ErrorIs(t, err, inbound.ErrInvalidMessage)
	for body, want := range map[string]conversation.Effect{"hi": conversation.EffectNone, "START": conversation.EffectOptIn, "help": conversation.EffectHelp} {
		recorded, err := client.Record(t.Context(), inbound.Message{SID: "SM" + body, From: theirs, To: ours, Body: body}, conversation.View{}, received)
		require.NoError(t, err)
		require.Equal(t, want, recorded.Effect)
		require.Equal(t, orgID, recorded.OrgID)
		again, err := client.Record(t.Context(), inbound.Message{SID: "SM" + body, From: theirs, To: ours, Body: body}, conversation.View{}, received)
		require.NoError(t, err)
		require.Equal(t, recorded, again)
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	client, service := setup(t)
	_, err := client.Receipt(t.Context(), orgID, "k")
	require.ErrorIs(t, err, conversation.ErrMessageMissing)
	service.Script(messagingtest.First(messagingtest.UnknownMissed))
	_, err = client.Send(t.Context(), message())
	require.NoError(t, err)
	_, err = client.Receipt(t.Context(), orgID, "k")
	require.ErrorIs(t, err, conversation.ErrMessageMissing, "the carrier has not taken it")
	service.Settle()
	_, err = client.Send(t.Context(), message())
	require.NoError(t, err)
	for status, final := range map[string]bool{
		"accepted": false, "queued": false, "sending": false, "sent": false, "delivered": true, "undelivered": true, "failed": true,
	} {
		service.Report("k", status)
		receipt, err := client.Receipt(t.Context(), orgID, "k")
		require.NoError(t, err)
		require.Equal(t, conversation.Receipt{AcceptedAt: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Final: final}, receipt, status)
	}
	_, err = client.Receipt(t.Context(), "00000000-0000-7000-8000-000000000002", "k")
	require.ErrorIs(t, err, conversation.ErrMessageMissing, "another organisation's")
	service.SetDown(true)
	_, err = client.Receipt(t.Context(), orgID, "k")
	require.ErrorIs(t, err, people.ErrUnavailable)
}

func TestCheckSender(t *testing.T) {
	t.Parallel()
	client, _ := setup(t)
	unrecorded, err := client.CheckSender(t.Context(), orgID, theirs)
	require.NoError(t, err)
	require.True(t, unrecorded)
	_, err = client.CheckSender(t.Context(), "00000000-0000-7000-8000-000000000002", theirs)
	require.ErrorIs(t, err, people.ErrNoSender)
}
