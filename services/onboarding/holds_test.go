package onboarding_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

func (b *bundle) hold(p conversation.Profile) {
	b.t.Helper()
	held, err := b.current().service.Hold(b.t.Context(), orgID, p.ID, "under review")
	require.NoError(b.t, err)
	require.True(b.t, held.Hold)
}

func (b *bundle) release(p conversation.Profile) {
	b.t.Helper()
	released, err := b.current().service.Release(b.t.Context(), orgID, p.ID)
	require.NoError(b.t, err)
	require.False(b.t, released.Hold)
}

// forwards is one pass of the loop that forwards holds.
func (b *bundle) forwards() {
	b.t.Helper()
	_, err := b.current().service.ForwardHolds(b.t.Context())
	require.NoError(b.t, err)
}

func TestHold(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_16_KeepsTheBurstBackUntilItIsReleased", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.unmute()
		b.hold(p)
		b.hold(p)
		b.pass(10 * time.Minute)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.Active, b.session(r.ID).Status, "a hold is no fault of the alarms")
		b.release(p)
		b.release(p)
		b.completes(p)
		require.Equal(t, 2, b.count(`select max(generation) from step_alarms where step_id = $1`, string(step(2))))
	})

	subtest(t, "SaysSinceWhenAndToOperatorsAloneWhy", setup, func(t *testing.T, b *bundle) {
		p, _ := b.activated()
		person := func(role rpc.Role, subject string) *onboardingv1.Profile {
			ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: subject, Role: role, OrgID: orgID})
			got, err := b.current().server.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: p.ID})
			require.NoError(t, err)
			return got.GetProfile()
		}
		state := func(role rpc.Role, subject string) *onboardingv1.ProfileState {
			return person(role, subject).GetState()
		}
		b.exec(`update profiles set legal_hold_at = $1`, b.clock.Now())
		require.Nil(t, person(rpc.RoleApp, "shop").GetLegalHoldAt())
		require.Nil(t, person(rpc.RoleUser, p.ID).GetLegalHoldAt())
		require.True(t, b.clock.Now().Equal(person(rpc.RoleOperator, "operator-1").GetLegalHoldAt().AsTime()))
		b.hold(p)
		since := b.clock.Now()
		b.clock.Advance(time.Hour)
		b.hold(p) // which changes nothing
		for _, other := range []*onboardingv1.ProfileState{state(rpc.RoleApp, "shop"), state(rpc.RoleUser, p.ID)} {
			require.True(t, since.Equal(other.GetHeldSince().AsTime()))
			require.Empty(t, other.GetHoldReason())
		}
		require.Equal(t, "under review", state(rpc.RoleOperator, "operator-1").GetHoldReason())
		b.release(p)
		require.Nil(t, state(rpc.RoleOperator, "operator-1").GetHeldSince())
		require.Empty(t, state(rpc.RoleOperator, "operator-1").GetHoldReason())
	})

	subtest(t, "ReplyIsAnsweredWhenItIsLifted", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
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

	subtest(t, "S0_67_ReplyToAMessageThatWasInDoubtWhenItCameIsTheAnswerToIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.reply(p, "Sure") // the explanation is taken, and the service does not know
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
	subtest(t, "StopPassesIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.hold(p)
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "ReplyDecidedUnderAHoldThatIsLiftedMeanwhileIsNotStranded", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.hold(p)
		decided := b.session(r.ID)
		b.release(p)
		_, err := b.store.Enqueue(t.Context(), queue.New{ID: newID(), OrgID: orgID, Key: "k", Extra: []string{conversation.SourceTwilio}, Payload: []byte(`{}`), At: b.clock.Now(), DueAt: b.clock.Now()})
		require.NoError(t, err)
		claimed, err := b.store.Jobs().Claim(t.Context(), queue.Claim{Limit: 1, Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		err = b.store.HoldReply(t.Context(), decided, conversation.Cause{Job: claimed.Jobs[0]}, session.Entry{At: b.clock.Now(), Kind: session.KindHeld})
		require.ErrorIs(t, err, conversation.ErrConflict)
		require.Zero(t, b.count(`select count(*) from held_replies`))
	})

	subtest(t, "ReplyToTheLastStepIsKeptOverTheBurstAndTheHold", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.messaging.Gate(func(*messagingv1.SendRequest) { b.hold(p) })
		b.fails(r, messagingtest.AcceptLost)
		b.messaging.Gate(nil)
		b.clock.Advance(time.Second)
		b.reply(p, "yes")
		b.release(p)
		b.hold(p)
		b.exec(`update profiles set hold = false`)
		b.executes(r)
		b.exec(`update profiles set hold = true`)
		b.quiet()
		b.at(r.ID, session.AwaitingInterviewStart, "")
		b.release(p)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})
}

// TestHoldAtMessaging: what is sent beside the conversation is held where it is sent.
func TestHoldAtMessaging(t *testing.T) {
	t.Parallel()

	subtest(t, "R_08_MessagingKnowsTheHoldAndTheReleaseWhenTheVerbIsAnswered", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.hold(p)
		require.True(t, b.messaging.Held(p.Phone))
		b.release(p)
		require.False(t, b.messaging.Held(p.Phone))
		b.hold(p)
		require.True(t, b.messaging.Held(p.Phone))
		require.Zero(t, b.count(`select count(*) from profiles where hold_told <> hold_version`))
	})

	verbs := map[string]func(b *bundle, p conversation.Profile) error{
		"Hold": func(b *bundle, p conversation.Profile) error {
			_, err := b.current().service.Hold(b.t.Context(), orgID, p.ID, "under review")
			return err
		},
		"Release": func(b *bundle, p conversation.Profile) error {
			_, err := b.current().service.Release(b.t.Context(), orgID, p.ID)
			return err
		},
	}

	for verb, do := range verbs {
		// The calls are: change the profile, forward the hold, note that messaging has it.
		for at := 2; at <= 3; at++ {
			for _, m := range []mishap{failBefore, failAfter, dieAfter} { // dieBefore leaves what failBefore leaves
				for _, finish := range []string{"ARepeat", "TheLoop"} {
					subtest(t, fmt.Sprintf("R_08_%sThat%sAtCall%dIsFinishedBy%s", verb, m, at, finish), setup, func(t *testing.T, b *bundle) {
						p := b.person()
						if verb == "Release" {
							b.hold(p)
						}
						ports := b.healthy()
						ports.at, ports.mishap = at, m
						b.serve(b.start(ports))
						require.Error(t, do(b, p))
						b.serve(b.start(b.healthy()))
						now, err := b.store.Profile(t.Context(), orgID, p.ID)
						require.NoError(t, err)
						require.Equal(t, verb == "Hold", now.Hold, "the conversation stands as asked")
						if finish == "ARepeat" {
							require.NoError(t, do(b, p))
						} else {
							b.forwards()
						}
						require.Equal(t, verb == "Hold", b.messaging.Held(p.Phone))
						require.Zero(t, b.count(`select count(*) from profiles where hold_told <> hold_version`))
					})
				}
			}
		}
		subtest(t, "R_08_"+verb+"IsNotAnsweredBeforeMessagingKnowsIt", setup, func(t *testing.T, b *bundle) {
			p := b.person()
			if verb == "Release" {
				b.hold(p)
			}
			b.messaging.SetDown(true)
			require.ErrorIs(t, do(b, p), conversation.ErrHoldNotForwarded)
			_, err := b.current().service.ForwardHolds(t.Context())
			require.ErrorIs(t, err, conversation.ErrUnavailable)
			b.messaging.SetDown(false)
			require.NoError(t, do(b, p))
			require.Equal(t, verb == "Hold", b.messaging.Held(p.Phone))
		})
	}

	subtest(t, "R_08_ReleaseDoesNotWaitUntilMessagingKnowsIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.hold(p)
		ports := b.healthy()
		ports.at, ports.mishap = 2, dieBefore
		b.serve(b.start(ports))
		_, err := b.current().service.Release(t.Context(), orgID, p.ID)
		require.Error(t, err)
		require.True(t, b.messaging.Held(p.Phone))
		b.serve(b.start(b.healthy()))
		out, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
	})
}

func TestForwardHolds(t *testing.T) {
	t.Parallel()

	subtest(t, "R_08_HoldsOfMoreThanOneBatchAreForwardedInOnePass", setup, func(t *testing.T, b *bundle) {
		const people = 101 // a batch, and one more
		before := b.clock.Now().Add(-time.Hour)
		b.exec(`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
			select gen_random_uuid(), $1, '+55119876' || lpad(n::text, 5, '0'), 'Ana', 'en', 'UTC', $2, $2 from generate_series(1, $3::int) n`, orgID, before, people)
		b.exec(`update profiles set hold = true`)
		b.forwards()
		for n := 1; n <= people; n++ {
			require.True(t, b.messaging.Held(fmt.Sprintf("+55119876%05d", n)), "%d", n)
		}
		require.Zero(t, b.count(`select count(*) from profiles where hold_told <> hold_version`))
	})

	subtest(t, "R_08_HoldsOfTheReleaseBeforeAndOfPsqlAreForwarded", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		for _, held := range []bool{true, false, true} {
			b.exec(`update profiles set hold = $2, updated_at = $3 where id = $1`, p.ID, held, b.clock.Now().Add(-time.Hour))
			b.forwards()
			require.Equal(t, held, b.messaging.Held(p.Phone))
		}
	})

	subtest(t, "R_08_MessagingOfTheReleaseBeforeKnowsTheHoldOnceItIsUpgraded", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.SetOlder(true)
		b.hold(p)
		_, err := b.current().service.ForwardHolds(t.Context())
		require.ErrorIs(t, err, conversation.ErrKeepsNoHolds)
		b.messaging.SetOlder(false)
		b.forwards()
		require.True(t, b.messaging.Held(p.Phone))
	})
}

func TestHoldDuringASend(t *testing.T) {
	t.Parallel()

	subtest(t, "R_08_StepOfAPersonWhoIsHeldMeanwhileIsSkippedAndGoesOnAfterTheRelease", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.current().ports.meanwhile = func() { b.hold(p) } // between the read of the session and the send
		out, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, string(session.SkipSafetyHold), out.GetSkipReason())
		require.Equal(t, session.Active, b.session(r.ID).Status)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.unmute()
		b.release(p)
		b.completes(p)
	})

	subtest(t, "R_08_ReplyOfAPersonWhoIsHeldMeanwhileIsAnsweredAfterTheRelease", setup, func(t *testing.T, b *bundle) {
		p, _ := b.activated()
		b.current().ports.meanwhile = func() { b.hold(p) } // between the read of the session and the send
		b.reply(p, "Sure")
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	subtest(t, "R_08_OpeningOfAPersonWhoIsHeldMeanwhileIsSentAfterTheRelease", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.current().ports.meanwhile = func() { b.hold(p) } // between the read of the session and the send
		require.Equal(t, session.Active, b.activate(p).Status)
		b.pass(time.Minute)
		require.Empty(t, b.sequence(p))
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
	})
}
