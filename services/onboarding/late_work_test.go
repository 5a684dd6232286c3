package onboarding_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// leave stores what a person writes as a job that nobody works yet, with its words about consent applied, and says which it is.
func (b *bundle) leave(p conversation.Profile, body string) string {
	b.t.Helper()
	in := b.message(p, body)
	m := conversation.Inbound{SID: in.GetTwilioSid(), From: in.GetFrom(), To: in.GetTo(), Body: in.GetBody(), Segments: 1}
	payload, err := json.Marshal(m)
	require.NoError(b.t, err)
	job := conversation.NewJob(orgID, conversation.SourceTwilio, conversation.EventMessage, m.SID, m.From, payload, b.clock.Now())
	job.DueAt = job.At.Add(3 * time.Second)
	kept, err := b.store.Enqueue(b.t.Context(), job)
	require.NoError(b.t, err)
	_, err = b.carrier.Record(b.t.Context(), m, p.ID, b.clock.Now())
	require.NoError(b.t, err)
	b.clock.Advance(time.Second)
	return kept.ID
}

// TestWorkThatIsDoneLate: a word or a failure is about the session that there was when it came.
func TestWorkThatIsDoneLate(t *testing.T) {
	t.Parallel()

	// again closes a session and opens the next one, whose opening waits its turn behind what the person wrote.
	again := func(b *bundle, p conversation.Profile, r session.Record) session.Record {
		b.t.Helper()
		_, err := b.current().service.Reset(b.t.Context(), orgID, r.ID)
		require.NoError(b.t, err)
		b.clock.Advance(time.Second)
		opened := b.activate(p)
		require.NotEqual(b.t, r.ID, opened.ID)
		b.clock.Advance(10 * time.Second)
		return opened
	}

	t.Run("R_05_AnOldSTOPDoesNotEndANewSessionOfSomebodyWhoHasOptedInSince", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.leave(p, "STOP")
		b.leave(p, "START")
		opened := again(b, p, r)
		b.quiet()
		require.Equal(t, session.Active, b.session(opened.ID).Status)
		require.Equal(t, session.Closed, b.session(r.ID).Status)
		require.Equal(t, []string{opening, opening}, b.sequence(p))
	})

	t.Run("R_05_AnOldSTOPThatSTARTHasUndoneStillEndsTheSessionThatThereWas", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.leave(p, "STOP")
		b.leave(p, "START")
		b.clock.Advance(10 * time.Second)
		b.quiet()
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})

	t.Run("R_05_ASTOPInForceStopsAlsoASessionThatWasOpenedAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.leave(p, "STOP")
		b.messaging.SetOlder(true) // which does not say at an activation that somebody has opted out
		opened := again(b, p, r)
		b.messaging.SetOlder(false)
		b.quiet()
		require.Equal(t, session.Stopped, b.session(opened.ID).Status)
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	t.Run("R_05_OldWordsThatMayBeAnOptOutParkNoNewSessionAndAreLeftToAnOperator", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		job := b.leave(p, "leave me alone")
		opened := again(b, p, r)
		b.quiet()
		require.Equal(t, session.Active, b.session(opened.ID).Status)
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where id = $1 and status = 'failed' and error_message like 'needs an operator%'`, job))
	})

	t.Run("R_05_AFailingJobParksNoSessionThatWasOpenedAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		job := b.leave(p, "Sure")
		opened := again(b, p, r)
		now := b.clock.Now()
		claimed, err := b.store.Jobs().Claim(t.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, claimed.Jobs, 1)
		require.Equal(t, job, claimed.Jobs[0].ID)
		require.NoError(t, b.current().service.GiveUp(t.Context(), claimed.Jobs[0], errMishap))
		require.Equal(t, session.Active, b.session(opened.ID).Status)
		require.Equal(t, session.Closed, b.session(r.ID).Status)
	})
}
