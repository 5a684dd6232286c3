package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/roster"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// TestCaps: whatever meets a cap of messaging's waits for as long as it takes, and is sent once.
func TestCaps(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "SequenceThatMeetsACapForHoursIsNotParkedAndGoesOn", setup, func(t *testing.T, b *bundle) {
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.Pass(4 * time.Second)
		b.Messaging.SetFull(true)
		b.lasts(90 * time.Minute)
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		require.Zero(t, b.Count(`select count(*) from dead_letters`), "it has not failed")
		require.Equal(t, 1, b.Count(`select count(*) from session_transitions where session_id = $1 and kind = 'waiting' and detail like '%cap'`, r.ID))
		b.Messaging.SetFull(false)
		b.Until(func() bool { return b.Session(r.ID).Token == session.AwaitingInterviewStart })
		require.Equal(t, onboardingtest.Whole, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "WhatAPersonWritesDoesNotWaitBehindAnOpening", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.SetFull(true)
		r := b.Activate(p)
		require.Equal(t, session.Active, r.Status)
		b.Work()
		require.Empty(t, b.Messaging.Taken(p.Phone))
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Messaging.SetFull(false)
		b.Pass(time.Minute)
		require.Empty(t, b.Messaging.Taken(p.Phone))
	})

	// full returns a person who answered the opening while there was no room.
	full := func(b *bundle) (people.Profile, session.Record) {
		p, r := b.Activated()
		b.Messaging.SetFull(true)
		b.Reply(p, "sure")
		return p, r
	}

	onboardingtest.Subtest(t, "AnswerIsSentOnceWhenThereIsRoom", setup, func(t *testing.T, b *bundle) {
		p, r := full(b)
		b.Reply(p, "yes")
		b.lasts(45 * time.Minute)
		require.Equal(t, "capped", b.Entry(r.ID, session.KindHeld).Detail)
		require.Equal(t, 2, b.Count(`select count(*) from session_transitions where session_id = $1 and kind = 'held'`, r.ID))
		b.Messaging.SetFull(false)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, "overtaken", b.Entry(r.ID, session.KindReplied).Detail, "the second one")
	})

	onboardingtest.Subtest(t, "ReplyThatIsAnsweredFirstOvertakesIt", setup, func(t *testing.T, b *bundle) {
		p, r := full(b)
		b.Messaging.SetFull(false)
		b.Reply(p, "not now")
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Later}, b.Sequence(p))
		b.At(r.ID, session.AwaitingOpeningResponse, "")
	})

	onboardingtest.Subtest(t, "StopIsReadBehindAnAnswer", setup, func(t *testing.T, b *bundle) {
		p, r := full(b)
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Messaging.SetFull(false)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "DistressIsReadBehindAnAnswer", setup, func(t *testing.T, b *bundle) {
		p, _ := full(b)
		b.Reply(p, "I want to die")
		require.Equal(t, 1, b.Count(`select count(*) from profiles where id = $1 and hold`, p.ID))
		require.Equal(t, 1, b.Count(`select count(*) from tickets`))
		b.Messaging.SetFull(false)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p), "a person of the organisation has the conversation")
	})

	onboardingtest.Subtest(t, "CancelledReplyParksItsSession", setup, func(t *testing.T, b *bundle) {
		_, r := full(b)
		var job string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select id from webhook_jobs where subject like 'reply:%'`).Scan(&job))
		require.NoError(t, b.Cancels(job))
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "OpeningIsSentWhenThereIsRoom", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.SetFull(true)
		r := b.Activate(p)
		b.lasts(45 * time.Minute)
		b.Messaging.SetFull(false)
		b.Until(func() bool { return len(b.Messaging.Taken(p.Phone)) == 1 })
		require.Equal(t, session.Active, b.Session(r.ID).Status)
	})
}

func TestActivationsOfADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Current().Service.ActivationsPerDay = 3
	p := b.Person()
	for range 3 {
		b.Resets(b.Activate(p))
		b.Clock.Advance(time.Hour)
	}
	_, err := b.Activates(p, nil)
	onboardingtest.Refused(t, err, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_ACTIVATIONS)
	refused, _ := rpc.ErrorFrom(onboarding.Answer(err))
	require.Equal(t, 21*time.Hour, refused.RetryAfter)
	require.Equal(t, 3, b.Sessions())
	b.Activated() // another person
	b.Clock.Advance(refused.RetryAfter)
	open := b.Activate(p)
	_, err = b.Activates(p, nil)
	require.NoError(t, err, "the session that is open is no other one")
	b.Resets(open)
	_, err = b.Activates(p, nil)
	onboardingtest.Refused(t, err, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_ACTIVATIONS)
}

func TestNumbersThatAreNotTexted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	persons := b.Current().Persons
	_, _, err := persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: "+1 900 234 5678", FirstName: "Ana"})
	require.ErrorIs(t, err, phone.ErrRefused)
	p := b.Person()
	satellite := "+881612345678"
	_, err = persons.ChangeProfile(t.Context(), onboardingtest.OrgID, p.ID, people.Change{Phone: &satellite})
	require.ErrorIs(t, err, phone.ErrRefused)
	b.Current().Service.Numbers = phone.Policy{Countries: phone.Countries{"US"}} // and theirs is Brazil's
	_, err = b.Activates(p, nil)
	onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_NUMBER_REFUSED)
	require.Empty(t, b.Messaging.Taken(p.Phone))
}
