package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// unsent returns a person with an opening that is a waiting job: for messaging, which is down.
func (b *bundle) unsent() (people.Profile, session.Record) {
	b.T.Helper()
	b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.Unavailable })
	p, r := b.Activated()
	require.Equal(b.T, 1, b.Count(`select count(*) from webhook_jobs where status = 'pending' and event_type = $1`, conversation.EventOpening))
	return p, r
}

// asleep returns a person with an opening that is a job that waits for the end of quiet hours, under its own subject.
func (b *bundle) asleep() (people.Profile, session.Record) {
	b.T.Helper()
	b.SleepsAtNight()
	b.Turns(22, 30)
	p := b.Person()
	return p, b.Activate(p)
}

func TestJobThatEndsUndone(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name   string
		waits  func(b *bundle) (people.Profile, session.Record)
		ends   func(b *bundle)
		reason string
	}{
		{
			name: "R_10_OpeningWhoseWorkersDieParksItsSession", reason: "failed for good",
			waits: (*bundle).unsent,
			ends:  func(b *bundle) { b.Exec(`update webhook_jobs set lost_leases = 5`) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndWhoseWorkersDieParksItsSession", reason: "failed for good",
			waits: (*bundle).asleep,
			ends:  func(b *bundle) { b.Exec(`update webhook_jobs set lost_leases = 5`) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndThatHasNoHandlerParksItsSession", reason: "no handler",
			waits: (*bundle).asleep,
			ends: func(b *bundle) {
				p := b.Current()
				p.Runner = queue.NewRunner(queue.Config{Name: conversation.JobsTable, Store: onboardingtest.Jobs{Ports: p.Ports, Queue: p.Ports.Stores.Jobs()}, Log: p.Service.Log, Now: b.Clock.Now, GiveUp: p.Inbound.GiveUp})
			},
		},
		{
			name: "R_10_OpeningThatAnOperatorCancelsParksItsSession", reason: "has cancelled job", waits: (*bundle).unsent,
			ends: func(b *bundle) { require.NoError(b.T, b.Cancels(b.Job())) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndThatAnOperatorCancelsParksItsSession", reason: "has cancelled job", waits: (*bundle).asleep,
			ends: func(b *bundle) { require.NoError(b.T, b.Cancels(b.Job())) },
		},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := tt.waits(b)
			tt.ends(b)
			b.Clock.Advance(12 * time.Hour)
			b.Work()
			b.RequireParked(r, tt.reason)
			require.Empty(t, b.Sequence(p))
			b.Messaging.Script(nil)
			b.Serve(b.Start(b.Healthy()))
			b.Resumed(r)
			b.Quiet()
			require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		})
	}

	onboardingtest.Subtest(t, "R_10_FailureThatCannotBeWrittenDownIsGivenUpLater", setup, func(t *testing.T, b *bundle) {
		_, r := b.asleep()
		b.Exec(`update webhook_jobs set lost_leases = 5`)
		b.Clock.Advance(12 * time.Hour)
		b.Exec(`alter table session_transitions rename to lost`)
		_, err := b.Current().Runner.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Exec(`alter table lost rename to session_transitions`)
		b.Exec(`update webhook_jobs set lost_leases = 5`)
		b.Clock.Advance(10 * time.Minute)
		b.Work()
		b.RequireParked(r, "failed for good")
	})

	onboardingtest.Subtest(t, "R_10_ReplyThatAnOperatorCancelsParksItsSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.Asking(messagingtest.Unavailable)
		require.NoError(t, b.Cancels(b.Job()))
		b.RequireParked(r, "has cancelled job")
		require.Equal(t, session.TriggerOperator, b.Entry(r.ID, session.KindParked).Trigger)
		b.Messaging.Script(nil)
		b.Resumed(r)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "R_10_HeldReplyThatAnOperatorCancelsParksItsSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.finishedWithAnAnswerHeld()
		require.NoError(t, b.Cancels(b.Job()))
		b.RequireParked(r, "has cancelled job")
		b.Resumed(r)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
		require.Len(t, b.Sequence(p), 6)
	})
}

func TestCancelledJobThatParksNoSession(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_10_JobThatIsBeingDoneIsNotCancelledAndParksNoSession", setup, func(t *testing.T, b *bundle) {
		_, r := b.unsent()
		id := b.Job()
		claimed, err := b.Store.Jobs().Claim(t.Context(), queue.Claim{ID: id, Limit: 1, Now: b.Clock.Now(), Until: b.Clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, claimed.Jobs, 1)
		var status *queue.StatusError
		require.ErrorAs(t, b.Cancels(id), &status)
		require.Equal(t, session.Active, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "R_10_JobThatIsTakenWhileItIsCancelledParksNoSession", setup, func(t *testing.T, b *bundle) {
		_, r := b.unsent()
		j := queue.Job{ID: b.Job(), OrgID: onboardingtest.OrgID}
		_, err := b.Store.Jobs().Claim(t.Context(), queue.Claim{ID: j.ID, Limit: 1, Now: b.Clock.Now(), Until: b.Clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		parking := session.Park(r, b.Clock.Now(), session.Stuck, session.TriggerOperator, "", "why")
		var status *queue.StatusError
		require.ErrorAs(t, b.Store.Move(t.Context(), parking, &conversation.Cause{Job: j, Cancelled: true}), &status)
		require.Equal(t, session.Active, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "R_10_JobThatNoSessionWaitsForParksNone", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		_, err := b.Store.Enqueue(t.Context(), queue.New{
			ID: onboardingtest.NewID(), OrgID: onboardingtest.OrgID, Key: "k", Extra: []string{conversation.SourceInternal}, EventType: "internal.note", Subject: p.Phone,
			Payload: []byte(`{}`), At: b.Clock.Now(), DueAt: b.Clock.Now(),
		})
		require.NoError(t, err)
		require.NoError(t, b.Cancels(b.Job()))
		b.Exec(`insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, processed_at, created_at, updated_at)
			values ($1, $2, 'f', 'twilio', $3, $4, '{}', 'failed', $5, $5, $5)`, onboardingtest.NewID(), onboardingtest.OrgID, conversation.EventMessage, p.Phone, b.Clock.Now())
		var failed string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select id::text from webhook_jobs where status = 'failed'`).Scan(&failed))
		require.NoError(t, b.Cancels(failed), "it parked whom it had to when it failed")
		require.Equal(t, session.Active, b.Session(r.ID).Status)
	})
}

// finishedWithAnAnswerHeld returns a person with a held answer to message 4, which is a separate job now that no process has begun.
func (b *bundle) finishedWithAnAnswerHeld() (people.Profile, session.Record) {
	b.T.Helper()
	p, r := b.InBurst(4)
	b.Clock.Advance(time.Second)
	b.slowly(func() { b.Reply(p, "yes") })
	b.Executes(r)
	return p, b.At(r.ID, session.AwaitingInterviewStart, "")
}
