package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// TestOpeningWhoseSessionIsParked: what waits for the morning is not sent to a session that was parked in the night, and not lost either.
func TestOpeningWhoseSessionIsParked(t *testing.T) {
	t.Parallel()
	for name, parkedAt := range map[string]time.Duration{"BeforeItIsDue": -time.Hour, "InTheTurnBeforeIt": 0} {
		onboardingtest.Subtest(t, "R_06_IsNotSentUntilItIsResumed_"+name, setup, func(t *testing.T, b *bundle) {
			b.SleepsAtNight()
			b.Turns(23, 0)
			p, r := b.Activated()
			b.Clock.Advance(onboardingtest.Morning.Add(parkedAt).Sub(b.Clock.Now()))
			if parkedAt == 0 {
				b.Exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, subject = $2 where subject = $3`,
					b.Clock.Now(), p.Phone, "opening:"+r.ID) // it has come back, and its turn has not
				b.Exec(`update conversation_sessions set status = 'stuck', turn = turn + 1, detours = detours + 1 where id = $1`, r.ID)
			} else {
				b.Reply(p, "leave me alone")
			}
			require.Equal(t, session.Stuck, b.Session(r.ID).Status)
			b.Clock.Advance(2 * time.Hour)
			b.Work()
			b.Pass(5 * time.Minute)
			require.Empty(t, b.Sequence(p))
			b.Reply(p, "hello?") // nothing of the person waits behind it
			require.Equal(t, session.KindHeld, b.Story(r.ID)[len(b.Story(r.ID))-1])
			b.Exec(`delete from held_replies`)
			b.Resumed(r)
			b.Pass(time.Minute)
			require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
			b.At(r.ID, session.AwaitingOpeningResponse, "")
		})
	}

	onboardingtest.Subtest(t, "R_06_IsNotSentOnceItWasReset", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		b.Turns(23, 0)
		p, r := b.Activated()
		b.Reply(p, "leave me alone")
		b.Resets(r)
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Quiet()
		require.Empty(t, b.Sequence(p))
	})
}

func TestOpeningInQuietHours(t *testing.T) {
	t.Parallel()
	// asleep is a person who was activated at 23:00.
	asleep := func(t *testing.T) (*bundle, people.Profile, session.Record) {
		b := setup(t)
		b.SleepsAtNight()
		b.Turns(23, 0)
		p, r := b.Activated()
		require.Equal(t, session.AwaitingOpeningResponse, r.Token)
		require.Empty(t, b.Sequence(p))
		return b, p, r
	}

	t.Run("IsSentInTheMorning", func(t *testing.T) {
		t.Parallel()
		b, p, r := asleep(t)
		require.Equal(t, r, b.Activate(p), "the second activation opens nothing")
		b.Pass(time.Minute)
		require.Equal(t, []session.Kind{session.KindActivated, session.KindWaiting}, b.Story(r.ID))
		b.Clock.Advance(onboardingtest.Morning.Add(-time.Second).Sub(b.Clock.Now()))
		b.Work()
		require.Empty(t, b.Sequence(p))
		b.Pass(time.Second)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.Equal(t, onboardingtest.Morning, b.Messaging.Taken(p.Phone)[0].At)
		require.Equal(t, []session.Kind{session.KindActivated, session.KindWaiting, session.KindSent}, b.Story(r.ID))
	})

	t.Run("PersonWhoWritesFirstIsAnsweredAndNeedsNone", func(t *testing.T) {
		t.Parallel()
		b, p, r := asleep(t)
		b.Reply(p, "hi")
		require.Equal(t, []string{onboardingtest.Explanation}, b.Sequence(p))
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	t.Run("StopCountsAtOnce", func(t *testing.T) {
		t.Parallel()
		b, p, r := asleep(t)
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Quiet()
		require.Empty(t, b.Sequence(p))
	})

	t.Run("HoursThatWereMovedMeanwhileAreWaitedFor", func(t *testing.T) {
		t.Parallel()
		b, p, _ := asleep(t)
		_, err := b.Settle(onboardingtest.OrgID, &onboardingv1.QuietHours{Enabled: true, Open: "10:00"})
		require.NoError(t, err)
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Work()
		require.Empty(t, b.Sequence(p))
		b.Clock.Advance(2 * time.Hour)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "OpeningThatIsResumedAtNightWaits", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p := stuckOpening(b)
		r := b.Newest(p)
		b.Turns(23, 0)
		b.Resumed(r)
		b.Pass(time.Minute)
		require.Empty(t, b.Sequence(p))
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})
}

func TestOpeningAfterAResume(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_10_SessionThatWasParkedBeforeItsOpeningIsSentItWhenItIsResumed", setup, func(t *testing.T, b *bundle) {
		p, r := b.asleep()
		b.Reply(p, "leave me alone")
		b.Work()
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		b.Clock.Advance(12 * time.Hour)
		b.Work()
		require.NoError(t, b.Cancels(b.Job()), "a parked session waits for no job")
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		b.Resumed(r)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.Equal(t, session.Active, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "R_10_OpeningThatIsSentAgainCarriesTheConsentThatCameWithIt", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		b.Turns(22, 30)
		p := b.Person()
		consent := &onboardingv1.ConsentRecord{
			Source: "web form", WordsShown: "Text me", CollectedAt: timestamppb.New(b.Clock.Now().Add(-time.Hour)),
		}
		s, err := b.Activates(p, consent)
		require.NoError(t, err)
		b.Reply(p, "leave me alone")
		b.Work()
		require.NoError(t, b.Cancels(b.Job()))
		b.Resumed(b.Session(s.GetSessionId()))
		b.Clock.Advance(12 * time.Hour)
		b.Quiet()
		attempts := b.Messaging.Attempts()
		require.Equal(t, "Text me", attempts[len(attempts)-1].GetConsent().GetWordsShown())
	})

	onboardingtest.Subtest(t, "R_10_OpeningThatStillWaitsIsNotSentByASecondJob", setup, func(t *testing.T, b *bundle) {
		p, r := b.asleep()
		b.Reply(p, "leave me alone")
		b.Work()
		b.Resumed(r)
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status in ('pending', 'processing')`))
		b.Clock.Advance(12 * time.Hour)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})
}
