package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// TestOpeningWhoseSessionIsParked: what waits for the morning is not sent to a session that was parked in the night, and not lost either.
func TestOpeningWhoseSessionIsParked(t *testing.T) {
	t.Parallel()
	for name, parkedAt := range map[string]time.Duration{"BeforeItIsDue": -time.Hour, "InTheTurnBeforeIt": 0} {
		subtest(t, "R_06_IsNotSentUntilItIsResumed_"+name, setup, func(t *testing.T, b *bundle) {
			b.sleepsAtNight()
			b.turns(23, 0)
			p, r := b.activated()
			b.clock.Advance(morning.Add(parkedAt).Sub(b.clock.Now()))
			if parkedAt == 0 {
				b.exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, subject = $2 where subject = $3`,
					b.clock.Now(), p.Phone, "opening:"+r.ID) // it has come back, and its turn has not
				b.exec(`update conversation_sessions set status = 'stuck', turn = turn + 1, detours = detours + 1 where id = $1`, r.ID)
			} else {
				b.reply(p, "leave me alone")
			}
			require.Equal(t, session.Stuck, b.session(r.ID).Status)
			b.clock.Advance(2 * time.Hour)
			b.work()
			b.pass(5 * time.Minute)
			require.Empty(t, b.sequence(p))
			b.reply(p, "hello?") // nothing of the person waits behind it
			require.Equal(t, session.KindHeld, b.story(r.ID)[len(b.story(r.ID))-1])
			b.exec(`delete from held_replies`)
			b.resumed(r)
			b.pass(time.Minute)
			require.Equal(t, []string{opening}, b.sequence(p))
			b.at(r.ID, session.AwaitingOpeningResponse, "")
		})
	}

	subtest(t, "R_06_IsNotSentOnceItWasReset", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		b.turns(23, 0)
		p, r := b.activated()
		b.reply(p, "leave me alone")
		b.resets(r)
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.quiet()
		require.Empty(t, b.sequence(p))
	})
}

func TestOpeningInQuietHours(t *testing.T) {
	t.Parallel()
	// asleep is a person who was activated at 23:00.
	asleep := func(t *testing.T) (*bundle, conversation.Profile, session.Record) {
		b := setup(t)
		b.sleepsAtNight()
		b.turns(23, 0)
		p, r := b.activated()
		require.Equal(t, session.AwaitingOpeningResponse, r.Token)
		require.Empty(t, b.sequence(p))
		return b, p, r
	}

	t.Run("IsSentInTheMorning", func(t *testing.T) {
		t.Parallel()
		b, p, r := asleep(t)
		require.Equal(t, r, b.activate(p), "the second activation opens nothing")
		b.pass(time.Minute)
		require.Equal(t, []session.Kind{session.KindActivated, session.KindWaiting}, b.story(r.ID))
		b.clock.Advance(morning.Add(-time.Second).Sub(b.clock.Now()))
		b.work()
		require.Empty(t, b.sequence(p))
		b.pass(time.Second)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, morning, b.messaging.Taken(p.Phone)[0].At)
		require.Equal(t, []session.Kind{session.KindActivated, session.KindWaiting, session.KindSent}, b.story(r.ID))
	})

	t.Run("PersonWhoWritesFirstIsAnsweredAndNeedsNone", func(t *testing.T) {
		t.Parallel()
		b, p, r := asleep(t)
		b.reply(p, "hi")
		require.Equal(t, []string{explanation}, b.sequence(p))
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.quiet()
		require.Equal(t, []string{explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	t.Run("StopCountsAtOnce", func(t *testing.T) {
		t.Parallel()
		b, p, r := asleep(t)
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.quiet()
		require.Empty(t, b.sequence(p))
	})

	t.Run("HoursThatWereMovedMeanwhileAreWaitedFor", func(t *testing.T) {
		t.Parallel()
		b, p, _ := asleep(t)
		_, err := b.settle(orgID, &onboardingv1.QuietHours{Enabled: true, Open: "10:00"})
		require.NoError(t, err)
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.work()
		require.Empty(t, b.sequence(p))
		b.clock.Advance(2 * time.Hour)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "OpeningThatIsResumedAtNightWaits", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		p := stuckOpening(b)
		r := b.newest(p)
		b.turns(23, 0)
		b.resumed(r)
		b.pass(time.Minute)
		require.Empty(t, b.sequence(p))
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
	})
}

func TestOpeningAfterAResume(t *testing.T) {
	t.Parallel()

	subtest(t, "R_10_SessionThatWasParkedBeforeItsOpeningIsSentItWhenItIsResumed", setup, func(t *testing.T, b *bundle) {
		p, r := b.asleep()
		b.reply(p, "leave me alone")
		b.work()
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		b.clock.Advance(12 * time.Hour)
		b.work()
		require.NoError(t, b.cancels(b.job()), "a parked session waits for no job")
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	subtest(t, "R_10_OpeningThatIsSentAgainCarriesTheConsentThatCameWithIt", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		b.turns(22, 30)
		p := b.person()
		consent := &onboardingv1.ConsentRecord{
			Source: "web form", WordsShown: "Text me", CollectedAt: timestamppb.New(b.clock.Now().Add(-time.Hour)),
		}
		s, err := b.activates(p, consent)
		require.NoError(t, err)
		b.reply(p, "leave me alone")
		b.work()
		require.NoError(t, b.cancels(b.job()))
		b.resumed(b.session(s.GetSessionId()))
		b.clock.Advance(12 * time.Hour)
		b.quiet()
		attempts := b.messaging.Attempts()
		require.Equal(t, "Text me", attempts[len(attempts)-1].GetConsent().GetWordsShown())
	})

	subtest(t, "R_10_OpeningThatStillWaitsIsNotSentByASecondJob", setup, func(t *testing.T, b *bundle) {
		p, r := b.asleep()
		b.reply(p, "leave me alone")
		b.work()
		b.resumed(r)
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status in ('pending', 'processing')`))
		b.clock.Advance(12 * time.Hour)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
	})
}
