package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// slowly has Twilio answer 0.9 s after it was asked, and a person do something after half of that.
func (b *bundle) slowly(do func()) {
	done := false
	b.messaging.Gate(func(*messagingv1.SendRequest) {
		if done {
			return
		}
		done = true
		b.clock.Advance(450 * time.Millisecond)
		do()
		b.clock.Advance(450 * time.Millisecond)
	})
}

func TestReplyWhileTwilioIsSlow(t *testing.T) {
	t.Parallel()

	for _, skew := range []struct {
		name string
		by   time.Duration
	}{
		{name: "R_09_IsTheAnswerToTheLastText"},
		{name: "R_09_IsTheAnswerToTheLastTextWhenMessagingsClockIsAhead", by: 3 * time.Second},
		{name: "R_09_IsTheAnswerToTheLastTextWhenMessagingsClockIsBehind", by: -3 * time.Second},
	} {
		t.Run(skew.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.skew.Store(int64(skew.by))
			p, r := b.inBurst(4)
			b.clock.Advance(time.Second)
			b.slowly(func() { b.reply(p, "yes") })
			_, err := b.execute(payload(r))
			require.NoError(t, err)
			b.quiet()
			b.at(r.ID, session.InterviewActivity01, "")
			require.Equal(t, []string{opening, explanation, first, second, third, fourth}, b.sequence(p))
		})
	}

	t.Run("R_09_IsTheAnswerWhenTheAnswerOfMessagingWasLostToo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.slowly(func() { b.reply(p, "yes") })
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.clock.Advance(10 * time.Second)
		_, err = b.execute(payload(r))
		require.NoError(t, err)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	t.Run("R_09_IsTheAnswerWhenItsJobIsDoneAfterTheBurst", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.slowly(func() {
			b.messaging.SetDown(true) // so that it cannot be recorded, and stays a job
			_, err := b.current().server.ReceiveMessage(t.Context(), b.message(p, "yes"))
			require.Error(t, err)
			b.messaging.SetDown(false)
		})
		_, err := b.execute(payload(r))
		require.NoError(t, err)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})

	t.Run("R_09_OneFromBeforeTheAttemptThatTwilioTookAnswersNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.clock.Advance(time.Second)
		b.messaging.Script(messagingtest.First(messagingtest.Throttle, messagingtest.AcceptLost))
		_, err := b.execute(payload(r))
		require.Error(t, err, "Twilio did not process it")
		b.clock.Advance(time.Second)
		b.reply(p, "no") // to message 3
		b.clock.Advance(time.Second)
		_, err = b.execute(payload(r))
		require.Error(t, err)
		_, err = b.execute(payload(r))
		require.NoError(t, err)
		b.quiet()
		require.False(t, b.at(r.ID, session.AwaitingInterviewStart, "").Paused)
	})

	t.Run("R_09_IsTheAnswerToAnOpeningThatIsSlow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.slowly(func() { b.reply(p, "yes") })
		r := b.activate(p)
		b.quiet()
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})
}

func TestReplyThatTwilioDatesInWholeSeconds(t *testing.T) {
	t.Parallel()

	t.Run("R_09_InTheSecondOfTheSessionsCreationIsAnAnswer", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.clock.Advance(300 * time.Millisecond)
		r := b.activate(p)
		b.clock.Advance(500 * time.Millisecond)
		b.unheard(p, "yes")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		b.quiet()
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	t.Run("R_09_HeldInTheSecondOfTheLastTextIsTheAnswerToIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(4)
		b.clock.Advance(1300 * time.Millisecond)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.clock.Advance(500 * time.Millisecond)
		b.unheard(p, "yes")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		b.messaging.Settle()
		_, err = b.execute(payload(r))
		require.NoError(t, err)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
	})
}

func TestSpacingUnderClockSkew(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"Ahead": 3 * time.Second, "Behind": -3 * time.Second} {
		t.Run("R_13_GapsAreOfOurOwnClockWhenMessagingsIs"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.skew.Store(int64(skew))
			p, r := b.explained()
			b.reply(p, "ok")
			b.quiet()
			b.at(r.ID, session.AwaitingInterviewStart, "")
			taken := b.messaging.Taken(p.Phone)[2:]
			require.Equal(t, 8*time.Second, taken[1].At.Sub(taken[0].At))
			require.Equal(t, 8*time.Second, taken[2].At.Sub(taken[1].At))
		})
		t.Run("R_13_GapAfterATextThatIsFoundTakenIsOfOurOwnClockWhenMessagingsIs"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.skew.Store(int64(skew))
			_, r := b.inBurst(1)
			b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
			_, err := b.execute(payload(r))
			require.Error(t, err)
			b.clock.Advance(2 * time.Second)
			_, err = b.execute(payload(r))
			require.NoError(t, err)
			require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
				string(step(2)), b.clock.Now().Add(6*time.Second)))
		})
	}
}

// byOperator is a call of ExecuteStep by an operator.
func (b *bundle) byOperator(in *onboardingv1.ExecuteStepRequest) (*onboardingv1.ExecuteStepResponse, error) {
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "ada", OrgID: orgID, Role: rpc.RoleOperator})
	return b.current().server.ExecuteStep(ctx, in)
}

func TestOperatorBeforeAStepIsDue(t *testing.T) {
	t.Parallel()
	// waiting is a person to whom message 2 is due in 7 s.
	waiting := func(b *bundle) (conversation.Profile, session.Record) {
		b.t.Helper()
		p, r := b.inBurst(1)
		_, err := b.execute(payload(r))
		require.NoError(b.t, err)
		b.clock.Advance(time.Second)
		return p, b.at(r.ID, session.AwaitingBurst, step(2))
	}

	t.Run("R_13_IsToldWhatIsLeftToWait", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := waiting(b)
		_, err := b.byOperator(payload(r))
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STEP_NOT_DUE)
		require.Equal(t, 7*time.Second, rpc.RetryAfter(err))
		require.ErrorContains(t, err, "due in 7s")
		require.ErrorContains(t, err, "before_due")
		require.Equal(t, r, b.session(r.ID))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.clock.Advance(7 * time.Second)
		out, err := b.byOperator(payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.NotContains(t, b.story(r.ID), session.KindReplayed)
	})

	t.Run("R_13_WhoMeansItIsRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := waiting(b)
		in := payload(r)
		in.BeforeDue = true
		out, err := b.byOperator(in)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.Equal(t, []string{opening, explanation, first, second}, b.sequence(p))
		told := b.entry(r.ID, session.KindReplayed)
		require.Equal(t, session.TriggerOperator, told.Trigger)
		require.Equal(t, "before_due: 7s before it was due", told.Detail)
		require.Equal(t, step(2), told.Step)
		out, err = b.byOperator(in)
		require.NoError(t, err)
		require.Equal(t, string(session.SkipStale), out.GetSkipReason(), "a second replay does nothing")
	})

	t.Run("R_13_AlarmThatRingsEarlyIsAsBefore", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, r := waiting(b)
		in := payload(r)
		in.BeforeDue = true // nobody but an operator may say so
		out, err := b.execute(in)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.NotContains(t, b.story(r.ID), session.KindReplayed)
	})

	t.Run("R_13_StepThatOnlyWaitsForAReceiptIsDue", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		b.exec(`insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, cause, due_at, lease_until, created_at)
			values ($1, $2, $3, $4, $5, 'onboarding:awaiting_burst', 2, 'delivery', $6, $6, $6)`,
			newID(), orgID, r.ID, p.ID, string(step(2)), b.clock.Now().Add(time.Hour))
		b.clock.Advance(8 * time.Second)
		_, err := b.byOperator(payload(r))
		require.NoError(t, err)
		b.at(r.ID, session.AwaitingBurst, step(3))
	})
}

// unsent is a person whose opening is a job that waits: for messaging, which is down.
func (b *bundle) unsent() (conversation.Profile, session.Record) {
	b.t.Helper()
	b.messaging.Script(func(int, *sendRequest) messagingtest.Outcome { return messagingtest.Unavailable })
	p := b.person()
	r := b.activate(p)
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
func (b *bundle) requireParked(r session.Record, told string) {
	b.t.Helper()
	parked := b.shown(r.ID)
	require.Equal(b.t, "stuck", parked.GetStatus())
	require.Contains(b.t, parked.GetReason(), told)
	require.Contains(b.t, parked.GetReason(), "POST /v1/sessions/"+r.ID+":resume")
	require.Zero(b.t, b.count(`select count(*) from webhook_jobs where status in ('pending', 'processing')`))
}

func TestJobThatEndsUndone(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name  string
		waits func(b *bundle) (conversation.Profile, session.Record)
		ends  func(b *bundle)
		told  string
	}{
		{
			name: "R_10_OpeningWhoseWorkersDieParksItsSession", told: "failed for good",
			waits: (*bundle).unsent,
			ends:  func(b *bundle) { b.exec(`update webhook_jobs set lost_leases = 5`) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndWhoseWorkersDieParksItsSession", told: "failed for good",
			waits: (*bundle).asleep,
			ends:  func(b *bundle) { b.exec(`update webhook_jobs set lost_leases = 5`) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndThatNobodyHandlesParksItsSession", told: "no handler",
			waits: (*bundle).asleep,
			ends: func(b *bundle) {
				p := b.current()
				p.runner = queue.NewRunner(queue.Config{Name: conversation.JobsTable, Store: jobs{p.ports}, Log: p.service.Log, Now: b.clock.Now, GiveUp: p.service.GiveUp})
			},
		},
		{
			name: "R_10_OpeningThatAnOperatorCancelsParksItsSession", told: "has cancelled job", waits: (*bundle).unsent,
			ends: func(b *bundle) { require.NoError(b.t, b.cancels(b.job())) },
		},
		{
			name: "R_10_OpeningThatWaitsForTheMorningAndThatAnOperatorCancelsParksItsSession", told: "has cancelled job", waits: (*bundle).asleep,
			ends: func(b *bundle) { require.NoError(b.t, b.cancels(b.job())) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, r := tt.waits(b)
			tt.ends(b)
			b.clock.Advance(12 * time.Hour)
			b.work()
			b.requireParked(r, tt.told)
			require.Empty(t, b.sequence(p))
			b.messaging.Script(nil)
			b.serve(b.start(b.healthy()))
			b.resumed(r)
			b.quiet()
			require.Equal(t, []string{opening}, b.sequence(p))
		})
	}

	t.Run("R_10_FailureThatCannotBeWrittenDownIsGivenUpLater", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
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

	t.Run("R_10_ReplyThatAnOperatorCancelsParksItsSession", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.asking(messagingtest.Unavailable)
		require.NoError(t, b.cancels(b.job()))
		b.requireParked(r, "has cancelled job")
		require.Equal(t, session.TriggerOperator, b.entry(r.ID, session.KindParked).Trigger)
		b.messaging.Script(nil)
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	t.Run("R_10_HeldReplyThatAnOperatorCancelsParksItsSession", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.finishedWithAnAnswerHeld()
		require.NoError(t, b.cancels(b.job()))
		b.requireParked(r, "has cancelled job")
		b.resumed(r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
		require.Len(t, b.sequence(p), 6)
	})

	t.Run("R_10_JobThatIsBeingDoneIsNotCancelledAndParksNobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, r := b.unsent()
		id := b.job()
		claimed, err := b.store.Jobs().Claim(t.Context(), queue.Claim{ID: id, Limit: 1, Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, claimed.Jobs, 1)
		var status *queue.StatusError
		require.ErrorAs(t, b.cancels(id), &status)
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	t.Run("R_10_JobThatIsTakenWhileItIsCancelledParksNobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, r := b.unsent()
		j := queue.Job{ID: b.job(), OrgID: orgID}
		_, err := b.store.Jobs().Claim(t.Context(), queue.Claim{ID: j.ID, Limit: 1, Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute)})
		require.NoError(t, err)
		parking := session.Park(r, b.clock.Now(), session.Stuck, session.TriggerOperator, "", "why")
		var status *queue.StatusError
		require.ErrorAs(t, b.store.Move(t.Context(), parking, &conversation.Cause{Job: j, Cancelled: true}), &status)
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	t.Run("R_10_JobThatNobodyWaitsForParksNobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
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

	t.Run("R_10_SessionThatWasParkedBeforeItsOpeningIsSentItWhenItIsResumed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.asleep()
		b.reply(p, "leave me alone")
		b.work()
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		b.clock.Advance(12 * time.Hour)
		b.work()
		require.NoError(t, b.cancels(b.job()), "nobody waits for it while the session is parked")
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	t.Run("R_10_OpeningThatIsSentAgainCarriesTheConsentThatCameWithIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
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

	t.Run("R_10_OpeningThatStillWaitsIsNotSentByASecondJob", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
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

// finishedWithAnAnswerHeld is a person whose answer to message 4 was held, and is a job of its own now that nobody has begun.
func (b *bundle) finishedWithAnAnswerHeld() (conversation.Profile, session.Record) {
	b.t.Helper()
	p, r := b.inBurst(4)
	b.clock.Advance(time.Second)
	b.slowly(func() { b.reply(p, "yes") })
	_, err := b.execute(payload(r))
	require.NoError(b.t, err)
	return p, b.at(r.ID, session.AwaitingInterviewStart, "")
}
