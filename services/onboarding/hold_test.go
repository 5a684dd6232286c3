package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/platform/emulator/qstash"
	"paceline.internal/platform/worker"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/enrolment"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/messagingtest"
	"paceline.internal/services/onboarding/session"
)

func (b *bundle) hold(p enrolment.Profile) {
	b.t.Helper()
	held, err := b.current().desk.Hold(b.t.Context(), orgID, p.ID, "under review")
	require.NoError(b.t, err)
	require.True(b.t, held.Hold)
}

func (b *bundle) release(p enrolment.Profile) {
	b.t.Helper()
	released, err := b.current().desk.Release(b.t.Context(), orgID, p.ID)
	require.NoError(b.t, err)
	require.False(b.t, released.Hold)
}

func TestHold(t *testing.T) {
	t.Parallel()

	t.Run("S0_16_KeepsTheBurstBackUntilItIsReleased", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		b.qstash.SetFaults(emulator.Script{})
		b.hold(p)
		b.hold(p)
		b.pass(10 * time.Minute)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.Active, b.session(r.ID).Status, "a hold is no fault of the alarms")
		b.release(p)
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation, first, second, third, fourth}, b.sequence(p))
		require.Equal(t, 2, b.count(`select max(generation) from step_alarms where step_id = $1`, string(step(2))))
	})

	t.Run("ReplyIsAnsweredWhenItIsLifted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.hold(p)
		b.reply(p, "no")
		b.clock.Advance(time.Second)
		b.reply(p, "yes")
		b.pass(5 * time.Minute)
		require.Equal(t, []string{opening}, b.sequence(p))
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p), "the last one counts")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	t.Run("S0_67_ReplyToATextThatWasInDoubtWhenItCameIsTheAnswerToIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.reply(p, "Sure") // the explanation is taken, and nobody here knows
		b.clock.Advance(time.Second)
		b.hold(p)
		b.quiet()
		b.clock.Advance(time.Second)
		b.reply(p, "go ahead") // to the explanation, which they have read
		b.quiet()
		b.messaging.Settle()
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		b.release(p)
		b.quiet()
		require.NotEqual(t, session.AwaitingExplanationResponse, b.session(r.ID).Token, "it was answered")
		require.Equal(t, []string{opening, explanation}, b.sequence(p)[:2])
	})
	t.Run("StopPassesIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.hold(p)
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	t.Run("ReplyDecidedUnderAHoldThatIsLiftedMeanwhileIsNotStranded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.hold(p)
		decided := b.session(r.ID)
		b.release(p)
		_, err := b.store.Enqueue(t.Context(), jobs.New{ID: newID(), OrgID: orgID, Key: "k", Source: jobs.SourceTwilio, Payload: []byte(`{}`), At: b.clock.Now(), DueAt: b.clock.Now()})
		require.NoError(t, err)
		claimed, err := b.store.Jobs().Claim(t.Context(), worker.Claim{Limit: 1, Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		err = b.store.Hold(t.Context(), decided, dispatch.Cause{Job: claimed.Jobs[0]}, session.Entry{At: b.clock.Now(), Kind: session.KindHeld})
		require.ErrorIs(t, err, dispatch.ErrConflict)
		require.Zero(t, b.count(`select count(*) from held_replies`))
	})

	t.Run("ReplyToTheLastStepIsKeptOverTheBurstAndTheHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.messaging.Gate(func(*messagingv1.SendRequest) { b.hold(p) })
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.messaging.Gate(nil)
		b.clock.Advance(time.Second)
		b.reply(p, "yes")
		b.release(p)
		b.hold(p)
		b.exec(`update profiles set hold = false`)
		_, err = b.execute(payload(r))
		require.NoError(t, err)
		b.exec(`update profiles set hold = true`)
		b.quiet()
		b.at(r.ID, session.AwaitingInterviewStart, "")
		b.release(p)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	t.Run("OfAnotherOrganisationIsNotFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		_, err := b.current().desk.Hold(t.Context(), newID(), p.ID, "")
		require.ErrorIs(t, err, enrolment.ErrNoProfile)
		_, err = b.current().desk.Release(t.Context(), newID(), p.ID)
		require.ErrorIs(t, err, enrolment.ErrNoProfile)
	})
}
