package outbound_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/senders"
)

// outreach returns the outreach of a separate process, with the bundle's sender and rate.
func (b *bundle) outreach() *outbound.Outreach {
	return &outbound.Outreach{
		Store: b.store, Senders: b.atRate(), Tally: b.tally, Interval: 500 * time.Millisecond,
	}
}

// turn returns how long a message waits.
func (b *bundle) turn(o *outbound.Outreach) time.Duration {
	b.T.Helper()
	wait, err := o.Reserve(b.T.Context(), o.Senders.Environment, 1, b.Clock.Now())
	require.NoError(b.T, err)
	return wait
}

func TestTurnsOfOutreach(t *testing.T) {
	t.Parallel()

	t.Run("S4_61_ProcessesShareOneTurnInAnInterval", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 4 {
			var both errgroup.Group
			taken := make(chan bool, 8)
			for range 8 {
				o := b.outreach()
				both.Go(func() error {
					wait, err := o.Reserve(t.Context(), o.Senders.Environment, 1, b.Clock.Now())
					taken <- wait == 0
					return err
				})
			}
			require.NoError(t, both.Wait())
			close(taken)
			count := 0
			for ok := range taken {
				if ok {
					count++
				}
			}
			require.Equal(t, 1, count)
			b.Clock.Advance(500 * time.Millisecond)
		}
	})

	t.Run("ConversationsThatUseTheRateUpComeFirst", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		b.tally.Add(b.sender.OrgID, uuid.Nil, 4)
		require.Equal(t, 4*time.Second, b.turn(b.outreach()))
		b.Clock.Advance(4 * time.Second)
		b.tally.Add(b.sender.OrgID, uuid.Nil, 1)
		require.Equal(t, time.Second, b.turn(b.outreach()))
		b.Clock.Advance(time.Second)
		require.Zero(t, b.turn(b.outreach()))
	})

	t.Run("OutreachPaysTheSenderAsTheQueueDoes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		require.Zero(t, b.turn(b.outreach()))
		b.enqueue(nil)
		b.drain()
		require.Empty(t, b.sent())
		b.pass(time.Second, 500*time.Millisecond)
		require.Len(t, b.sent(), 1)
		require.Equal(t, time.Second, b.turn(b.outreach()))
	})

	t.Run("OrganisationWithoutASenderHasNoTurn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, _, err := b.outreach().ReserveSends(t.Context(), uuid.Must(uuid.NewV7()), []int{1}, b.Clock.Now())
		require.ErrorIs(t, err, senders.ErrNoSender)
	})
}

// TestReserveSends is about the turns of a run for many people: the whole rate, and what conversations leave of it.
func TestReserveSends(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rate = 2
	reserve := func(segments ...int) (int, time.Duration) {
		n, wait, err := b.outreach().ReserveSends(t.Context(), b.sender.OrgID, segments, b.Clock.Now())
		require.NoError(t, err)
		return n, wait
	}
	n, wait := reserve(1, 1, 1, 1)
	require.Equal(t, []any{2, 500 * time.Millisecond}, []any{n, wait}, "what one second allows, and no interval between them")
	b.Clock.Advance(time.Second)
	b.tally.Add(b.sender.OrgID, uuid.Nil, 4)
	n, wait = reserve(1)
	require.Equal(t, []any{0, 1500 * time.Millisecond}, []any{n, wait}, "conversations are charged first")
	b.Clock.Advance(wait)
	n, wait = reserve(2, 1)
	require.Equal(t, []any{1, time.Second}, []any{n, wait}, "a text of two segments pays for both")
	_, _, err := b.outreach().ReserveSends(t.Context(), uuid.Must(uuid.NewV7()), []int{1}, b.Clock.Now())
	require.ErrorIs(t, err, senders.ErrNoSender)
}

// TestQueueKeepsReminders: the purposes of the queue that are reminders fail for a person who wants none, and say so.
func TestQueueKeepsReminders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.say("stop reminders")
	var refused []outbound.Queued
	for _, p := range outbound.Purposes() {
		m := b.enqueue(func(r *outbound.Request) { r.Purpose = p })
		if p == outbound.Reminder || p == outbound.Invite || p == outbound.PostEvent {
			refused = append(refused, m)
		}
	}
	b.drain()
	require.Len(t, b.sent(), 2)
	for _, m := range refused {
		now := b.queued(m.ID)
		require.Equal(t, outbound.Failed, now.Status)
		require.Equal(t, outbound.RemindersOff, now.Failure, "they are subscribed")
		require.Contains(t, now.Explanation, "start reminders")
	}
}
