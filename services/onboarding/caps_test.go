package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// TestCaps: whatever meets a cap of messaging's waits for as long as it takes, and is sent once.
func TestCaps(t *testing.T) {
	t.Parallel()

	subtest(t, "SequenceThatMeetsACapForHoursIsNotParkedAndGoesOn", setup, func(t *testing.T, b *bundle) {
		p, r := b.explained()
		b.reply(p, "yes")
		b.pass(4 * time.Second)
		b.messaging.SetFull(true)
		b.lasts(90 * time.Minute)
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.messaging.SetFull(false)
		b.until(func() bool { return b.session(r.ID).Token == session.AwaitingInterviewStart })
		require.Equal(t, whole, b.sequence(p))
	})

	subtest(t, "WhatAPersonWritesDoesNotWaitBehindAnOpening", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.SetFull(true)
		r := b.activate(p)
		require.Equal(t, session.Active, r.Status)
		b.work()
		require.Empty(t, b.messaging.Taken(p.Phone))
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.messaging.SetFull(false)
		b.pass(time.Minute)
		require.Empty(t, b.messaging.Taken(p.Phone))
	})

	subtest(t, "OpeningIsSentWhenThereIsRoom", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.SetFull(true)
		r := b.activate(p)
		b.lasts(2 * time.Hour)
		b.messaging.SetFull(false)
		b.until(func() bool { return len(b.messaging.Taken(p.Phone)) == 1 })
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})
}

func TestActivationsOfADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.current().service.ActivationsPerDay = 3
	p := b.person()
	for range 3 {
		b.resets(b.activate(p))
		b.clock.Advance(time.Hour)
	}
	_, err := b.activates(p, nil)
	refuses(t, err, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_ACTIVATIONS)
	refused, _ := rpc.ErrorFrom(err)
	require.Equal(t, 21*time.Hour, refused.RetryAfter)
	require.Equal(t, 3, b.sessions())
	b.activated() // another person
	b.clock.Advance(refused.RetryAfter)
	open := b.activate(p)
	_, err = b.activates(p, nil)
	require.NoError(t, err, "the session that is open is no other one")
	b.resets(open)
	_, err = b.activates(p, nil)
	refuses(t, err, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_ACTIVATIONS)
}

func TestNumbersThatAreNotTexted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	people := b.current().service
	_, _, err := people.Enrol(t.Context(), orgID, conversation.Person{Phone: "+1 900 234 5678", FirstName: "Ana"})
	require.ErrorIs(t, err, phone.ErrRefused)
	p := b.person()
	satellite := "+881612345678"
	_, err = people.ChangeProfile(t.Context(), orgID, p.ID, conversation.Change{Phone: &satellite})
	require.ErrorIs(t, err, phone.ErrRefused)
	people.Numbers = phone.Policy{Countries: phone.Countries{"US"}} // and theirs is Brazil's
	_, err = b.activates(p, nil)
	refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_NUMBER_REFUSED)
	require.Empty(t, b.messaging.Taken(p.Phone))
}
