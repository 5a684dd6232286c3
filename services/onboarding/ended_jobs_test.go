package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// unsent is a person whose opening is a job that waits: for messaging, which is down.
func (b *bundle) unsent() (conversation.Profile, session.Record) {
	b.t.Helper()
	b.messaging.Script(func(int, *sendRequest) messagingtest.Outcome { return messagingtest.Unavailable })
	p, r := b.activated()
	require.Equal(b.t, 1, b.count(`select count(*) from webhook_jobs where status = 'pending' and event_type = $1`, conversation.EventOpening))
	return p, r
}

// asleep is a person whose opening is a job that waits for the end of quiet hours, under a subject of its own.
func (b *bundle) asleep() (conversation.Profile, session.Record) {
	b.t.Helper()
	b.sleepsAtNight()
	b.turns(22, 30)
	p := b.person()
	return p, b.activate(p)
}

// job is the id of the one job that is open.
func (b *bundle) job() (id string) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `select id::text from webhook_jobs where status in ('pending', 'processing')`).Scan(&id))
	return id
}

func (b *bundle) cancels(id string) error {
	row, err := b.current().service.Cancel(b.t.Context(), orgID, id)
	if err == nil {
		require.Equal(b.t, queue.StatusCancelled, row.Status)
	}
	return err
}

// requireParked holds a session to being found by an operator, with what to do.
func (b *bundle) requireParked(r session.Record, reason string) {
	b.t.Helper()
	parked := b.shown(r.ID)
	require.Equal(b.t, "stuck", parked.GetStatus())
	require.Contains(b.t, parked.GetReason(), reason)
	require.Contains(b.t, parked.GetReason(), "POST /v1/sessions/"+r.ID+":resume")
	require.Zero(b.t, b.count(`select count(*) from webhook_jobs where status in ('pending', 'processing')`))
}

func TestJobThatEndsUndone(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name   string
		waits  func(b *bundle) (conversation.Profile, session.Record)
		ends   func(b *bundle)
		reason string
	}{
		{
			name: "R_10_OpeningWhoseWorkersDieParksItsSession", reason: "failed for good",
			waits: (*bundle).unsent,
			ends:  func(b *bundle) { b.exec(`update webhook_jobs set lost_leases = 5`) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndWhoseWorkersDieParksItsSession", reason: "failed for good",
			waits: (*bundle).asleep,
			ends:  func(b *bundle) { b.exec(`update webhook_jobs set lost_leases = 5`) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndThatHasNoHandlerParksItsSession", reason: "no handler",
			waits: (*bundle).asleep,
			ends: func(b *bundle) {
				p := b.current()
				p.runner = queue.NewRunner(queue.Config{Name: conversation.JobsTable, Store: jobs{p.ports, p.ports.Store.Jobs()}, Log: p.service.Log, Now: b.clock.Now, GiveUp: p.service.GiveUp})
			},
		},
		{
			name: "R_10_OpeningThatAnOperatorCancelsParksItsSession", reason: "has cancelled job", waits: (*bundle).unsent,
			ends: func(b *bundle) { require.NoError(b.t, b.cancels(b.job())) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndThatAnOperatorCancelsParksItsSession", reason: "has cancelled job", waits: (*bundle).asleep,
			ends: func(b *bundle) { require.NoError(b.t, b.cancels(b.job())) },
		},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := tt.waits(b)
			tt.ends(b)
			b.clock.Advance(12 * time.Hour)
			b.work()
			b.requireParked(r, tt.reason)
			require.Empty(t, b.sequence(p))
			b.messaging.Script(nil)
			b.serve(b.start(b.healthy()))
			b.resumed(r)
			b.quiet()
			require.Equal(t, []string{opening}, b.sequence(p))
		})
	}

	subtest(t, "R_10_FailureThatCannotBeWrittenDownIsGivenUpLater", setup, func(t *testing.T, b *bundle) {
		_, r := b.asleep()
		b.exec(`update webhook_jobs set lost_leases = 5`)
		b.clock.Advance(12 * time.Hour)
		b.exec(`alter table session_transitions rename to lost`)
		_, err := b.current().runner.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.exec(`alter table lost rename to session_transitions`)
		b.exec(`update webhook_jobs set lost_leases = 5`)
		b.clock.Advance(10 * time.Minute)
		b.work()
		b.requireParked(r, "failed for good")
	})

	subtest(t, "R_10_ReplyThatAnOperatorCancelsParksItsSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.asking(messagingtest.Unavailable)
		require.NoError(t, b.cancels(b.job()))
		b.requireParked(r, "has cancelled job")
		require.Equal(t, session.TriggerOperator, b.entry(r.ID, session.KindParked).Trigger)
		b.messaging.Script(nil)
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	subtest(t, "R_10_HeldReplyThatAnOperatorCancelsParksItsSession", setup, func(t *testing.T, b *bundle) {
		p, r := b.finishedWithAnAnswerHeld()
		require.NoError(t, b.cancels(b.job()))
		b.requireParked(r, "has cancelled job")
		b.resumed(r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
		require.Len(t, b.sequence(p), 6)
	})
}

func TestCancelledJobThatParksNoSession(t *testing.T) {
	t.Parallel()

	subtest(t, "R_10_JobThatIsBeingDoneIsNotCancelledAndParksNoSession", setup, func(t *testing.T, b *bundle) {
		_, r := b.unsent()
		id := b.job()
		claimed, err := b.store.Jobs().Claim(t.Context(), queue.Claim{ID: id, Limit: 1, Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, claimed.Jobs, 1)
		var status *queue.StatusError
		require.ErrorAs(t, b.cancels(id), &status)
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	subtest(t, "R_10_JobThatIsTakenWhileItIsCancelledParksNoSession", setup, func(t *testing.T, b *bundle) {
		_, r := b.unsent()
		j := queue.Job{ID: b.job(), OrgID: orgID}
		_, err := b.store.Jobs().Claim(t.Context(), queue.Claim{ID: j.ID, Limit: 1, Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		parking := session.Park(r, b.clock.Now(), session.Stuck, session.TriggerOperator, "", "why")
		var status *queue.StatusError
		require.ErrorAs(t, b.store.Move(t.Context(), parking, &conversation.Cause{Job: j, Cancelled: true}), &status)
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	subtest(t, "R_10_JobThatNoSessionWaitsForParksNone", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		_, err := b.store.Enqueue(t.Context(), queue.New{
			ID: newID(), OrgID: orgID, Key: "k", Extra: []string{conversation.SourceInternal}, EventType: "internal.note", Subject: p.Phone,
			Payload: []byte(`{}`), At: b.clock.Now(), DueAt: b.clock.Now(),
		})
		require.NoError(t, err)
		require.NoError(t, b.cancels(b.job()))
		b.exec(`insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, processed_at, created_at, updated_at)
			values ($1, $2, 'f', 'twilio', $3, $4, '{}', 'failed', $5, $5, $5)`, newID(), orgID, conversation.EventMessage, p.Phone, b.clock.Now())
		var failed string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select id::text from webhook_jobs where status = 'failed'`).Scan(&failed))
		require.NoError(t, b.cancels(failed), "it parked whom it had to when it failed")
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})
}

// finishedWithAnAnswerHeld is a person whose answer to message 4 was held, and is a job of its own now that no process has begun.
func (b *bundle) finishedWithAnAnswerHeld() (conversation.Profile, session.Record) {
	b.t.Helper()
	p, r := b.inBurst(4)
	b.clock.Advance(time.Second)
	b.slowly(func() { b.reply(p, "yes") })
	b.executes(r)
	return p, b.at(r.ID, session.AwaitingInterviewStart, "")
}
