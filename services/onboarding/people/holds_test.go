package people_test

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
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// forwards is one pass of the loop that forwards holds.
func (b *bundle) forwards() {
	b.T.Helper()
	_, err := b.Current().Persons.ForwardHolds(b.T.Context())
	require.NoError(b.T, err)
}

func TestHold(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_16_KeepsTheBurstBackUntilItIsReleased", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Unmute()
		b.Hold(p)
		b.Hold(p)
		b.Pass(10 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		require.Equal(t, session.Active, b.Session(r.ID).Status, "a hold is no fault of the alarms")
		b.Release(p)
		b.Release(p)
		b.Completes(p)
		require.Equal(t, 2, b.Count(`select max(generation) from step_alarms where step_id = $1`, string(onboardingtest.Step(2))))
	})

	onboardingtest.Subtest(t, "SaysSinceWhenAndToOperatorsAloneWhy", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Activated()
		person := func(role rpc.Role, subject string) *onboardingv1.Profile {
			ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: subject, Role: role, OrgID: onboardingtest.OrgID})
			got, err := b.Current().Server.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: p.ID})
			require.NoError(t, err)
			return got.GetProfile()
		}
		state := func(role rpc.Role, subject string) *onboardingv1.ProfileState {
			return person(role, subject).GetState()
		}
		b.Exec(`update profiles set legal_hold_at = $1`, b.Clock.Now())
		require.Nil(t, person(rpc.RoleApp, "shop").GetLegalHoldAt())
		require.Nil(t, person(rpc.RoleUser, p.ID).GetLegalHoldAt())
		require.True(t, b.Clock.Now().Equal(person(rpc.RoleOperator, "operator-1").GetLegalHoldAt().AsTime()))
		b.Hold(p)
		since := b.Clock.Now()
		b.Clock.Advance(time.Hour)
		b.Hold(p) // which changes nothing
		for _, other := range []*onboardingv1.ProfileState{state(rpc.RoleApp, "shop"), state(rpc.RoleUser, p.ID)} {
			require.True(t, since.Equal(other.GetHeldSince().AsTime()))
			require.Empty(t, other.GetHoldReason())
		}
		require.Equal(t, "under review", state(rpc.RoleOperator, "operator-1").GetHoldReason())
		b.Release(p)
		require.Nil(t, state(rpc.RoleOperator, "operator-1").GetHeldSince())
		require.Empty(t, state(rpc.RoleOperator, "operator-1").GetHoldReason())
	})

	onboardingtest.Subtest(t, "ReplyIsAnsweredWhenItIsLifted", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Hold(p)
		b.Reply(p, "no")
		b.Clock.Advance(time.Second)
		b.Reply(p, "yes")
		b.Pass(5 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p), "the last one counts")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "S0_67_ReplyToAMessageThatWasInDoubtWhenItCameIsTheAnswerToIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.Reply(p, "Sure") // the explanation is taken, and the service does not know
		b.Clock.Advance(time.Second)
		b.Hold(p)
		b.Quiet()
		b.Clock.Advance(time.Second)
		b.Reply(p, "go ahead") // to the explanation, which they have read
		b.Quiet()
		b.Messaging.Settle()
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		b.Release(p)
		b.Quiet()
		require.NotEqual(t, session.AwaitingExplanationResponse, b.Session(r.ID).Token, "it was answered")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p)[:2])
	})
	onboardingtest.Subtest(t, "StopPassesIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Hold(p)
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "ReplyDecidedUnderAHoldThatIsLiftedMeanwhileIsNotStranded", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Hold(p)
		decided := b.Session(r.ID)
		b.Release(p)
		_, err := b.Store.Enqueue(t.Context(), queue.New{ID: onboardingtest.NewID(), OrgID: onboardingtest.OrgID, Key: "k", Extra: []string{conversation.SourceTwilio}, Payload: []byte(`{}`), At: b.Clock.Now(), DueAt: b.Clock.Now()})
		require.NoError(t, err)
		claimed, err := b.Store.Jobs().Claim(t.Context(), queue.Claim{Limit: 1, Now: b.Clock.Now(), Until: b.Clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		err = b.Store.DeferReply(t.Context(), decided, conversation.Cause{Job: claimed.Jobs[0]}, session.Entry{At: b.Clock.Now(), Kind: session.KindHeld})
		require.ErrorIs(t, err, people.ErrConflict)
		require.Zero(t, b.Count(`select count(*) from held_replies`))
	})

	onboardingtest.Subtest(t, "ReplyToTheLastStepIsKeptOverTheBurstAndTheHold", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(4)
		b.Clock.Advance(time.Second)
		b.Messaging.Gate(func(*messagingv1.SendRequest) { b.Hold(p) })
		b.Fails(r, messagingtest.AcceptLost)
		b.Messaging.Gate(nil)
		b.Clock.Advance(time.Second)
		b.Reply(p, "yes")
		b.Release(p)
		b.Hold(p)
		b.Exec(`update profiles set hold = false`)
		b.Executes(r)
		b.Exec(`update profiles set hold = true`)
		b.Quiet()
		b.At(r.ID, session.AwaitingInterviewStart, "")
		b.Release(p)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
	})
}

// TestHoldAtMessaging: what is sent outside the conversation is held where it is sent.
func TestHoldAtMessaging(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_08_MessagingKnowsTheHoldAndTheReleaseWhenTheVerbIsAnswered", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Hold(p)
		require.True(t, b.Messaging.Held(p.Phone))
		b.Release(p)
		require.False(t, b.Messaging.Held(p.Phone))
		b.Hold(p)
		require.True(t, b.Messaging.Held(p.Phone))
		require.Zero(t, b.Count(`select count(*) from profiles where hold_told <> hold_version`))
	})

	verbs := map[string]func(b *bundle, p people.Profile) error{
		"Hold": func(b *bundle, p people.Profile) error {
			_, err := b.Current().Persons.Hold(b.T.Context(), onboardingtest.OrgID, p.ID, "under review")
			return err
		},
		"Release": func(b *bundle, p people.Profile) error {
			_, err := b.Current().Persons.Release(b.T.Context(), onboardingtest.OrgID, p.ID)
			return err
		},
	}

	for verb, do := range verbs {
		// The calls are: change the profile, forward the hold, note that messaging has it.
		for at := 2; at <= 3; at++ {
			for _, m := range []onboardingtest.Mishap{onboardingtest.FailBefore, onboardingtest.FailAfter, onboardingtest.DieAfter} { // dieBefore leaves what failBefore leaves
				for _, finish := range []string{"ARepeat", "TheLoop"} {
					onboardingtest.Subtest(t, fmt.Sprintf("R_08_%sThat%sAtCall%dIsFinishedBy%s", verb, m, at, finish), setup, func(t *testing.T, b *bundle) {
						p := b.Person()
						if verb == "Release" {
							b.Hold(p)
						}
						ports := b.Healthy()
						ports.At, ports.Mishap = at, m
						b.Serve(b.Start(ports))
						require.Error(t, do(b, p))
						b.Serve(b.Start(b.Healthy()))
						now, err := b.Store.Profile(t.Context(), onboardingtest.OrgID, p.ID)
						require.NoError(t, err)
						require.Equal(t, verb == "Hold", now.Hold, "the conversation stands as asked")
						if finish == "ARepeat" {
							require.NoError(t, do(b, p))
						} else {
							b.forwards()
						}
						require.Equal(t, verb == "Hold", b.Messaging.Held(p.Phone))
						require.Zero(t, b.Count(`select count(*) from profiles where hold_told <> hold_version`))
					})
				}
			}
		}
		onboardingtest.Subtest(t, "R_08_"+verb+"IsNotAnsweredBeforeMessagingKnowsIt", setup, func(t *testing.T, b *bundle) {
			p := b.Person()
			if verb == "Release" {
				b.Hold(p)
			}
			b.Messaging.SetDown(true)
			require.ErrorIs(t, do(b, p), people.ErrHoldNotForwarded)
			_, err := b.Current().Persons.ForwardHolds(t.Context())
			require.ErrorIs(t, err, people.ErrUnavailable)
			b.Messaging.SetDown(false)
			require.NoError(t, do(b, p))
			require.Equal(t, verb == "Hold", b.Messaging.Held(p.Phone))
		})
	}

	onboardingtest.Subtest(t, "R_08_ReleaseDoesNotWaitUntilMessagingKnowsIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Hold(p)
		ports := b.Healthy()
		ports.At, ports.Mishap = 2, onboardingtest.DieBefore
		b.Serve(b.Start(ports))
		_, err := b.Current().Persons.Release(t.Context(), onboardingtest.OrgID, p.ID)
		require.Error(t, err)
		require.True(t, b.Messaging.Held(p.Phone))
		b.Serve(b.Start(b.Healthy()))
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
	})
}

func TestForwardHolds(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_08_HoldsOfMoreThanOneBatchAreForwardedInOnePass", setup, func(t *testing.T, b *bundle) {
		const people = 101 // a batch, and one more
		before := b.Clock.Now().Add(-time.Hour)
		b.Exec(`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
			select gen_random_uuid(), $1, '+55119876' || lpad(n::text, 5, '0'), 'Ana', 'en', 'UTC', $2, $2 from generate_series(1, $3::int) n`, onboardingtest.OrgID, before, people)
		b.Exec(`update profiles set hold = true`)
		b.forwards()
		for n := 1; n <= people; n++ {
			require.True(t, b.Messaging.Held(fmt.Sprintf("+55119876%05d", n)), "%d", n)
		}
		require.Zero(t, b.Count(`select count(*) from profiles where hold_told <> hold_version`))
	})

	onboardingtest.Subtest(t, "R_08_HoldsOfTheReleaseBeforeAndOfPsqlAreForwarded", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		for _, held := range []bool{true, false, true} {
			b.Exec(`update profiles set hold = $2, updated_at = $3 where id = $1`, p.ID, held, b.Clock.Now().Add(-time.Hour))
			b.forwards()
			require.Equal(t, held, b.Messaging.Held(p.Phone))
		}
	})

	onboardingtest.Subtest(t, "R_08_MessagingOfTheReleaseBeforeKnowsTheHoldOnceItIsUpgraded", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.SetOlder(true)
		b.Hold(p)
		_, err := b.Current().Persons.ForwardHolds(t.Context())
		require.ErrorIs(t, err, people.ErrKeepsNoHolds)
		b.Messaging.SetOlder(false)
		b.forwards()
		require.True(t, b.Messaging.Held(p.Phone))
	})
}

func TestHoldDuringASend(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_08_StepOfAPersonWhoIsHeldMeanwhileIsSkippedAndGoesOnAfterTheRelease", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Current().Ports.Meanwhile = func() { b.Hold(p) } // between the read of the session and the send
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Equal(t, string(session.SkipSafetyHold), out.GetSkipReason())
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		b.Unmute()
		b.Release(p)
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "R_08_ReplyOfAPersonWhoIsHeldMeanwhileIsAnsweredAfterTheRelease", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Activated()
		b.Current().Ports.Meanwhile = func() { b.Hold(p) } // between the read of the session and the send
		b.Reply(p, "Sure")
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "R_08_OpeningOfAPersonWhoIsHeldMeanwhileIsSentAfterTheRelease", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Current().Ports.Meanwhile = func() { b.Hold(p) } // between the read of the session and the send
		require.Equal(t, session.Active, b.Activate(p).Status)
		b.Pass(time.Minute)
		require.Empty(t, b.Sequence(p))
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})
}
