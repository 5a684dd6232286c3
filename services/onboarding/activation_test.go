package onboarding_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// activates is an operator's call.
func (b *bundle) activates(p conversation.Profile, consent *onboardingv1.ConsentRecord) (*onboardingv1.Session, error) {
	b.t.Helper()
	out, err := asks(b, b.current().server.ActivateProfile, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID, Consent: consent})
	return out.GetSession(), err
}

func (b *bundle) resets(r session.Record) session.Record {
	b.t.Helper()
	closed, err := b.current().service.Reset(b.t.Context(), orgID, r.ID)
	require.NoError(b.t, err)
	return closed
}

func (b *bundle) sessions() int {
	b.t.Helper()
	return b.count(`select count(*) from conversation_sessions`)
}

func TestActivationIsRefused(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name string
		park func(b *bundle) (conversation.Profile, session.Record)
		why  string
	}{
		{"Stuck", func(b *bundle) (conversation.Profile, session.Record) {
			p, r, _ := b.parkedAtStep(messagingtest.ParkMissed)
			return p, r
		}, ":resolve"},
		{"Undeliverable", func(b *bundle) (conversation.Profile, session.Record) {
			p := b.person()
			b.messaging.Script(messagingtest.First(messagingtest.Reject))
			return p, b.activate(p)
		}, "this is no phone number"},
		{"WithWordsThatMayBeAnOptOut", func(b *bundle) (conversation.Profile, session.Record) {
			p, r := b.activated()
			b.reply(p, "leave me alone")
			return p, r
		}, "may want no more texts"},
	} {
		subtest(t, "R_06_WhileASessionIsParked"+tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := tt.park(b)
			heard, attempts := b.sequence(p), len(b.messaging.Attempts())
			_, err := b.activates(p, nil)
			refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_PARKED)
			for _, part := range []string{r.ID, string(b.session(r.ID).Status), ":resume", ":reset", ":resolve", tt.why} {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), p.Phone)
			b.quiet()
			require.Equal(t, 1, b.sessions())
			require.Equal(t, heard, b.sequence(p))
			require.Len(t, b.messaging.Attempts(), attempts)

			b.resets(r)
			_, err = b.current().service.Release(t.Context(), orgID, p.ID) // a reset judges no words
			require.NoError(t, err)
			b.messaging.Script(nil)
			require.NotEqual(t, r.ID, b.activate(p).ID)
			require.Equal(t, opening, b.sequence(p)[len(b.sequence(p))-1])
		})
	}

	subtest(t, "R_06_NotOnceTheParkedSessionWasResumed", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "leave me alone")
		b.resumed(r)
		require.Equal(t, r.ID, b.activate(p).ID)
		require.Equal(t, []string{opening}, b.sequence(p))
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
			func(err error) bool { return errors.Is(err, conversation.ErrOnHold) },
		},
	} {
		subtest(t, "R_06_WhileThe"+tt.name, setup, func(t *testing.T, b *bundle) {
			p, _ := b.activated()
			tx, err := b.pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			_, err = tx.Exec(t.Context(), tt.change, p.ID)
			require.NoError(t, err)
			answered := make(chan error, 1)
			go func() {
				_, err := b.current().service.Activate(t.Context(), orgID, p.ID, nil)
				answered <- err
			}()
			require.Eventually(t, func() bool {
				return b.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 1
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, tx.Commit(t.Context()))
			err = <-answered
			require.Truef(t, tt.want(err), "%v", err)
			require.Equal(t, 1, b.sessions())
			require.Equal(t, []string{opening}, b.sequence(p))
		})
	}

	subtest(t, "R_06_WithoutOpeningAnythingAfterSTOPAlsoInQuietHours", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reply(p, "STOP")
		for range 2 {
			_, err := b.activates(p, nil)
			refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OPTED_OUT)
			require.ErrorContains(t, err, "START")
			b.sleepsAtNight()
			b.turns(23, 0)
		}
		require.Zero(t, b.sessions())
		b.reply(p, "START")
		require.Equal(t, session.Active, b.activate(p).Status)
	})

	subtest(t, "R_06_WhileWordsFromBeforeAnySessionWaitForAnOperator", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reply(p, "leave me alone")
		_, err := b.activates(p, nil)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		require.ErrorContains(t, err, "/v1/webhook-jobs")
		require.Zero(t, b.sessions())
		var job string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select id from webhook_jobs where status = 'failed'`).Scan(&job))
		require.NoError(t, b.cancels(job))
		require.Equal(t, session.Active, b.activate(p).Status)
	})
}

func TestActivation(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_60_S0_08_SendsTheOpeningAloneAndOnce", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		require.Empty(t, b.messaging.Taken(p.Phone), "a person who is only enrolled gets nothing")
		r := b.activate(p)
		require.Equal(t, session.AwaitingOpeningResponse, r.Token)
		require.Equal(t, r, b.activate(p), "the second activation returns the session as it is")
		b.pass(10 * time.Minute)
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Zero(t, b.count(`select count(*) from step_alarms`))
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent}, b.story(r.ID))
	})

	subtest(t, "S0_61_NothingFollowsWithoutAReply", setup, func(t *testing.T, b *bundle) {
		p, _ := b.activated()
		b.pass(20 * time.Minute)
		require.Equal(t, []string{opening}, b.sequence(p))
		b.reply(p, "hi")
		b.pass(20 * time.Minute)
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	subtest(t, "S0_60_ConcurrentActivationsOpenOneSession", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		var opened sync.Map
		require.NoError(t, atOnce(8, func() error {
			r, err := b.current().service.Activate(t.Context(), orgID, p.ID, nil)
			opened.Store(r.ID, true)
			return err
		}))
		b.quiet()
		require.Equal(t, 1, b.sessions())
		opened.Range(func(id, _ any) bool {
			require.Equal(t, b.newest(p).ID, id, "each caller gets the one that there is")
			return true
		})
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "OpeningThatCouldNotBeSentIsSentByTheLoop", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.Unavailable, messagingtest.Throttle, messagingtest.UnknownMissed))
		r := b.activate(p)
		require.Empty(t, b.sequence(p))
		b.pass(time.Minute)
		b.messaging.Settle()
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent}, b.story(r.ID))
	})

	subtest(t, "ReplyBeforeTheOpeningIsSettledWaitsForIt", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		r := b.activate(p)
		b.reply(p, "yes")
		b.pass(20 * time.Second)
		require.Equal(t, []string{opening}, b.sequence(p))
		b.messaging.Settle()
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced}, b.story(r.ID))
	})

	subtest(t, "S0_16_RefusesAPersonOnHoldUntilTheRelease", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.hold(p)
		_, err := b.activates(p, nil)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SAFETY_HOLD)
		require.Zero(t, b.sessions())
		b.release(p)
		require.Empty(t, b.sequence(p))
		b.activate(p)
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "S0_69_RefusesWhoSaidSTOPBeforeTheyWereEnrolled", setup, func(t *testing.T, b *bundle) {
		p := conversation.Profile{Phone: "+5511987651234"}
		b.reply(p, "STOP")
		p, _, err := b.current().service.Enrol(t.Context(), orgID, conversation.Person{Phone: p.Phone, FirstName: "Ana"})
		require.NoError(t, err)
		_, err = b.activates(p, nil)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OPTED_OUT)
		b.reply(p, "START")
		b.activate(p)
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "RefusesAnOrganisationWithoutASender", setup, func(t *testing.T, b *bundle) {
		other := newID()
		p, _, err := b.current().service.Enrol(t.Context(), other, conversation.Person{Phone: "+5511987651234", FirstName: "Bia"})
		require.NoError(t, err)
		operator := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "operator-2", Role: rpc.RoleOperator, OrgID: other})
		_, err = b.current().server.ActivateProfile(operator, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID})
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER)
		_, err = b.current().service.Activate(t.Context(), orgID, p.ID, nil)
		require.ErrorIs(t, err, conversation.ErrNoProfile, "another organisation's")
		require.Zero(t, b.count(`select count(*) from conversation_sessions`))
	})

	subtest(t, "OpeningOfWhichNothingIsEverLearntIsVisiblyStuck", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.UnknownForever))
		r := b.activate(p)
		b.pass(10 * time.Minute)
		require.Equal(t, session.Active, b.session(r.ID).Status, "a receipt may still come")
		b.pass(25 * time.Minute)
		parked := b.session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "nothing was heard")
		require.Equal(t, session.KindParked, b.story(r.ID)[len(b.story(r.ID))-1])
		require.Len(t, b.messaging.Attempts(), 1)
		require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`), "or every later message would wait behind it")
	})
}

func TestReset(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_57_NextActivationIsAnEpisodeOfItsOwn", setup, func(t *testing.T, b *bundle) {
		p, r := b.explained()
		b.reply(p, "yes")
		b.quiet()
		closed := b.resets(r)
		require.Equal(t, session.Closed, closed.Status)
		require.Equal(t, closed, b.resets(r))
		require.Equal(t, session.KindClosed, b.story(r.ID)[len(b.story(r.ID))-1])

		b.clock.Advance(time.Minute)
		next := b.activate(p)
		require.NotEqual(t, r.ID, next.ID)
		b.reply(p, "yes")
		b.reply(p, "yes")
		b.quiet()
		all := whole
		require.Equal(t, append(all, all...), b.sequence(p))
		b.at(next.ID, session.AwaitingInterviewStart, "")
	})

	subtest(t, "DuringASendEndsTheSequence", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.messaging.Gate(func(*messagingv1.SendRequest) {
			b.resets(r)
		})
		b.executes(r)
		require.Equal(t, session.Closed, b.session(r.ID).Status)
		b.quiet()
		require.Equal(t, []string{opening, explanation, first, second}, b.sequence(p))
	})
}
