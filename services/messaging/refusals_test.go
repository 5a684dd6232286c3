package messaging

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// refused is the service on an emulator of Twilio that answers as a test chooses.
type refused struct {
	*sendtest.Bundle

	server clients
}

func setupRefused(t *testing.T) refused {
	t.Helper()
	b := sendtest.Setup(t)
	return refused{b, serve(t, rooms{
		stores: storesOf(b.Store), sending: b.Service(nil), intake: &outbound.Intake{Store: outbound.NewStore(b.Pool)},
	})}
}

// refuses makes Twilio answer with a code, 0 for none; a fate is that of what it takes.
func (r refused) refuses(code int, fate emulator.Fate) {
	r.Emulator.SetScript(emulator.Script{
		OnCreate: func(int, emulator.Message) emulator.CreateFault { return emulator.CreateFault{Refuse: code} },
		OnFate:   func(emulator.Message) emulator.Fate { return fate },
	})
}

// sends asks for a message, and lets its receipts come.
func (r refused) sends(t *testing.T, to, key string) *messagingv1.SendResponse {
	t.Helper()
	answer, err := r.server.Send(as(t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{
		OrgId: r.Config.Senders.Environment.OrgID.String(), To: to, Body: "hello", IdempotencyKey: key,
	})
	require.NoError(t, err)
	r.Pass(20 * time.Second)
	return answer
}

func (r refused) listed(t *testing.T) []*messagingv1.CarrierRefusal {
	t.Helper()
	got, err := r.server.GetMessagingOverview(
		as(t, rpc.RoleOperator, r.Config.Senders.Environment.OrgID.String(), "ada"), &messagingv1.GetMessagingOverviewRequest{})
	require.NoError(t, err)
	return got.GetRefusals()
}

func TestRefusalThatNoRetryMendsNeedsAPersonUntilMessagesPass(t *testing.T) {
	t.Parallel()
	const us, usToo, brazil = "+14155550123", "+14155550188", "+5511961234567"
	t.Run("AtOnceUntilTheMessagePasses", func(t *testing.T) {
		t.Parallel()
		r := setupRefused(t)
		r.refuses(30034, emulator.Fate{})
		at := r.Clock.Now()
		answer := r.sends(t, us, "1")
		require.Equal(t, messagingv1.Outcome_OUTCOME_THROTTLED, answer.GetOutcome(), "it is tried again all the same")
		require.True(t, answer.GetMessage().GetNeedsPerson())

		listed := r.listed(t)
		require.Len(t, listed, 1)
		require.Equal(t, int32(30034), listed[0].GetCode())
		require.Equal(t, int32(1), listed[0].GetMessages().GetCount())
		require.True(t, at.Equal(listed[0].GetSince().AsTime()))
		require.Equal(t, answer.GetMessage().GetMessageId(), listed[0].GetNewestMessageId())
		require.Equal(t, "the number is not registered for A2P 10DLC", listed[0].GetMeaning())
		require.Equal(t, "complete the sender's registration in the Twilio console", listed[0].GetRemedy())

		explained := func() *messagingv1.ExplainMessageResponse {
			out, err := r.server.ExplainMessage(as(t, rpc.RoleOperator, r.Config.Senders.Environment.OrgID.String(), "ada"),
				&messagingv1.ExplainMessageRequest{MessageId: answer.GetMessage().GetMessageId()})
			require.NoError(t, err)
			return out
		}
		e := explained().GetExplanation()
		require.True(t, e.GetNeedsPerson())
		require.Contains(t, e.GetAdvice(), "complete the sender's registration in the Twilio console")

		r.Pass(time.Minute)
		require.Equal(t, "complete the sender's registration in the Twilio console", explained().GetExplanation().GetAdvice(), "also once its wait is over")
		r.sends(t, brazil, "2")
		require.Len(t, r.listed(t), 1, "refused as well")
		r.refuses(0, emulator.Fate{})
		r.sends(t, brazil, "3")
		require.Len(t, r.listed(t), 1, "a message to another country shows nothing of this one")
		require.Equal(t, int32(1), r.listed(t)[0].GetMessages().GetCount())

		r.sends(t, us, "1")
		require.Empty(t, r.listed(t))
		require.False(t, explained().GetExplanation().GetNeedsPerson())
	})
	t.Run("AlsoWhenACarrierReportsIt", func(t *testing.T) {
		t.Parallel()
		r := setupRefused(t)
		r.refuses(0, emulator.Fate{Final: emulator.StatusUndelivered, Code: 30034})
		answer := r.sends(t, us, "1")
		require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, answer.GetOutcome())
		require.Len(t, r.listed(t), 1)
		r.refuses(0, emulator.Fate{})
		r.sends(t, usToo, "2")
		require.Empty(t, r.listed(t), "another number of the same country was reached")
	})
	t.Run("OfOneRecipientUntilTheyAreReached", func(t *testing.T) {
		t.Parallel()
		r := setupRefused(t)
		r.refuses(0, emulator.Fate{Final: emulator.StatusUndelivered, Code: 30007})
		r.sends(t, us, "1")
		r.refuses(0, emulator.Fate{})
		r.sends(t, usToo, "2")
		require.Len(t, r.listed(t), 1, "another number says nothing of what is filtered here")
		r.sends(t, us, "3")
		require.Empty(t, r.listed(t))
	})
	t.Run("WhatPassesByItselfStaysCalm", func(t *testing.T) {
		t.Parallel()
		r := setupRefused(t)
		for key, code := range map[string]int{"1": 21611, "2": 21211} {
			r.refuses(code, emulator.Fate{})
			require.False(t, r.sends(t, us, key).GetMessage().GetNeedsPerson())
		}
		require.Empty(t, r.listed(t))
	})
	t.Run("OfTheOrganisationAlone", func(t *testing.T) {
		t.Parallel()
		r := setupRefused(t)
		r.refuses(30034, emulator.Fate{})
		r.sends(t, us, "1")
		other, err := r.Store.Overview(t.Context(), send.OverviewQuery{
			OrgID: uuid.Must(uuid.NewV7()), Now: r.Clock.Now(), Minutes: 1, Most: 9, MostOfAMinute: 9, MostRefused: 9,
		})
		require.NoError(t, err)
		require.Empty(t, other.Refusals)
	})
}
