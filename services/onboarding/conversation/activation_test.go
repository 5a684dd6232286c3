package conversation_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/roster"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestActivationIsRefused(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name string
		park func(b *bundle) (people.Profile, session.Record)
		why  string
	}{
		{"Stuck", func(b *bundle) (people.Profile, session.Record) {
			p, r, _ := b.ParkedAtStep(messagingtest.ParkMissed)
			return p, r
		}, ":resolve"},
		{"Undeliverable", func(b *bundle) (people.Profile, session.Record) {
			p := b.Person()
			b.Messaging.Script(messagingtest.First(messagingtest.Reject))
			return p, b.Activate(p)
		}, "this is no phone number"},
		{"WithWordsThatMayBeAnOptOut", func(b *bundle) (people.Profile, session.Record) {
			p, r := b.Activated()
			b.Reply(p, "leave me alone")
			return p, r
		}, "may want no more texts"},
	} {
		onboardingtest.Subtest(t, "R_06_WhileASessionIsParked"+tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := tt.park(b)
			heard, attempts := b.Sequence(p), len(b.Messaging.Attempts())
			_, err := b.Activates(p, nil)
			onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_PARKED)
			for _, part := range []string{r.ID, string(b.Session(r.ID).Status), ":resume", ":reset", ":resolve", tt.why} {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), p.Phone)
			b.Quiet()
			require.Equal(t, 1, b.Sessions())
			require.Equal(t, heard, b.Sequence(p))
			require.Len(t, b.Messaging.Attempts(), attempts)

			b.Resets(r)
			_, err = b.Current().Persons.Release(t.Context(), onboardingtest.OrgID, p.ID) // a reset judges no words
			require.NoError(t, err)
			b.Messaging.Script(nil)
			require.NotEqual(t, r.ID, b.Activate(p).ID)
			require.Equal(t, onboardingtest.Opening, b.Sequence(p)[len(b.Sequence(p))-1])
		})
	}

	onboardingtest.Subtest(t, "R_06_NotOnceTheParkedSessionWasResumed", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "leave me alone")
		b.Resumed(r)
		require.Equal(t, r.ID, b.Activate(p).ID)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	// The change is made, and not committed yet: the activation waits for it.
	for _, tt := range []struct {
		name, change string
		want         func(err error) bool
	}{
		{
			"SessionIsBeingParked", `update conversation_sessions set status = 'stuck' where profile_id = $1`,
			func(err error) bool { return errors.As(err, new(*conversation.SessionParked)) },
		},
		{
			"PersonIsBeingHeld", `update profiles set hold = true where id = $1`,
			func(err error) bool { return errors.Is(err, people.ErrOnHold) },
		},
	} {
		onboardingtest.Subtest(t, "R_06_WhileThe"+tt.name, setup, func(t *testing.T, b *bundle) {
			p, _ := b.Activated()
			tx, err := b.Pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			_, err = tx.Exec(t.Context(), tt.change, p.ID)
			require.NoError(t, err)
			answered := make(chan error, 1)
			go func() {
				_, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
				answered <- err
			}()
			require.Eventually(t, func() bool {
				return b.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 1
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, tx.Commit(t.Context()))
			err = <-answered
			require.Truef(t, tt.want(err), "%v", err)
			require.Equal(t, 1, b.Sessions())
			require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		})
	}

	onboardingtest.Subtest(t, "R_06_WithoutOpeningAnythingAfterSTOPAlsoInQuietHours", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reply(p, "STOP")
		for range 2 {
			_, err := b.Activates(p, nil)
			onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OPTED_OUT)
			require.ErrorContains(t, err, "START")
			b.SleepsAtNight()
			b.Turns(23, 0)
		}
		require.Zero(t, b.Sessions())
		b.Reply(p, "START")
		require.Equal(t, session.Active, b.Activate(p).Status)
	})

	onboardingtest.Subtest(t, "R_06_WhileWordsFromBeforeAnySessionWaitForAnOperator", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reply(p, "leave me alone")
		_, err := b.Activates(p, nil)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		require.ErrorContains(t, err, "/v1/webhook-jobs")
		require.Zero(t, b.Sessions())
		var job string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select id from webhook_jobs where status = 'failed'`).Scan(&job))
		require.NoError(t, b.Cancels(job))
		require.Equal(t, session.Active, b.Activate(p).Status)
	})
}

func TestActivation(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_60_S0_08_SendsTheOpeningAloneAndOnce", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		require.Empty(t, b.Messaging.Taken(p.Phone), "a person who is only enrolled gets nothing")
		r := b.Activate(p)
		require.Equal(t, session.AwaitingOpeningResponse, r.Token)
		require.Equal(t, r, b.Activate(p), "the second activation returns the session as it is")
		b.Pass(10 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.Zero(t, b.Count(`select count(*) from step_alarms`))
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent}, b.Story(r.ID))
	})

	onboardingtest.Subtest(t, "S0_61_NothingFollowsWithoutAReply", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Activated()
		b.Pass(20 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		b.Reply(p, "hi")
		b.Pass(20 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_60_ConcurrentActivationsOpenOneSession", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		var opened sync.Map
		require.NoError(t, onboardingtest.AtOnce(8, func() error {
			r, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
			opened.Store(r.ID, true)
			return err
		}))
		b.Quiet()
		require.Equal(t, 1, b.Sessions())
		opened.Range(func(id, _ any) bool {
			require.Equal(t, b.Newest(p).ID, id, "each caller gets the one that there is")
			return true
		})
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "OpeningThatCouldNotBeSentIsSentByTheLoop", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.Script(messagingtest.First(messagingtest.Unavailable, messagingtest.Throttle, messagingtest.UnknownMissed))
		r := b.Activate(p)
		require.Empty(t, b.Sequence(p))
		b.Pass(time.Minute)
		b.Messaging.Settle()
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent}, b.Story(r.ID))
	})

	onboardingtest.Subtest(t, "ReplyBeforeTheOpeningIsSettledWaitsForIt", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		r := b.Activate(p)
		b.Reply(p, "yes")
		b.Pass(20 * time.Second)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		b.Messaging.Settle()
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced}, b.Story(r.ID))
	})

	onboardingtest.Subtest(t, "S0_16_RefusesAPersonOnHoldUntilTheRelease", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Hold(p)
		_, err := b.Activates(p, nil)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SAFETY_HOLD)
		require.Zero(t, b.Sessions())
		b.Release(p)
		require.Empty(t, b.Sequence(p))
		b.Activate(p)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_69_RefusesWhoSaidSTOPBeforeTheyWereEnrolled", setup, func(t *testing.T, b *bundle) {
		p := people.Profile{Phone: "+5511987651234"}
		b.Reply(p, "STOP")
		p, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: p.Phone, FirstName: "Ana"})
		require.NoError(t, err)
		_, err = b.Activates(p, nil)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OPTED_OUT)
		b.Reply(p, "START")
		b.Activate(p)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "RefusesAnOrganisationWithoutASender", setup, func(t *testing.T, b *bundle) {
		other := onboardingtest.NewID()
		p, _, err := b.Current().Persons.Enrol(t.Context(), other, roster.Person{Phone: "+5511987651234", FirstName: "Bia"})
		require.NoError(t, err)
		operator := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "operator-2", Role: rpc.RoleOperator, OrgID: other})
		_, err = b.Current().Server.ActivateProfile(operator, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID})
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER)
		_, err = b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
		require.ErrorIs(t, err, people.ErrNoProfile, "another organisation's")
		require.Zero(t, b.Count(`select count(*) from conversation_sessions`))
	})

	onboardingtest.Subtest(t, "OpeningOfWhichNothingIsEverLearntIsVisiblyStuck", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownForever))
		r := b.Activate(p)
		b.Pass(10 * time.Minute)
		require.Equal(t, session.Active, b.Session(r.ID).Status, "a receipt may still come")
		b.Pass(25 * time.Minute)
		parked := b.Session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "nothing was heard")
		require.Equal(t, session.KindParked, b.Story(r.ID)[len(b.Story(r.ID))-1])
		require.Len(t, b.Messaging.Attempts(), 1)
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status <> 'completed'`), "or every later message would wait behind it")
	})
}

func TestReset(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_57_NextActivationIsAnEpisodeOfItsOwn", setup, func(t *testing.T, b *bundle) {
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.Quiet()
		closed := b.Resets(r)
		require.Equal(t, session.Closed, closed.Status)
		require.Equal(t, closed, b.Resets(r))
		require.Equal(t, session.KindClosed, b.Story(r.ID)[len(b.Story(r.ID))-1])

		b.Clock.Advance(time.Minute)
		next := b.Activate(p)
		require.NotEqual(t, r.ID, next.ID)
		b.Reply(p, "yes")
		b.Reply(p, "yes")
		b.Quiet()
		all := onboardingtest.Whole
		require.Equal(t, append(all, all...), b.Sequence(p))
		b.At(next.ID, session.AwaitingInterviewStart, "")
	})

	onboardingtest.Subtest(t, "DuringASendEndsTheSequence", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Messaging.Gate(func(*messagingv1.SendRequest) {
			b.Resets(r)
		})
		b.Executes(r)
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First, onboardingtest.Second}, b.Sequence(p))
	})
}
