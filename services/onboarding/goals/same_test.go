package goals_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/goals"
)

// repeats asserts that a request under a key that has a goal is answered with that goal.
func (b *bundle) repeats(n goals.New, why string) {
	b.t.Helper()
	_, duplicate, err := b.service.Create(b.t.Context(), n)
	require.NoError(b.t, err, why)
	require.True(b.t, duplicate, why)
}

// reuses asserts that it is another request.
func (b *bundle) reuses(n goals.New, why string) {
	b.t.Helper()
	_, _, err := b.service.Create(b.t.Context(), n)
	require.ErrorIs(b.t, err, goals.ErrKeyReused, why)
}

func (b *bundle) creates(n goals.New) goals.Goal {
	b.t.Helper()
	g, duplicate, err := b.service.Create(b.t.Context(), n)
	require.NoError(b.t, err)
	require.False(b.t, duplicate)
	return g
}

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	return zone
}

// TestRepeatedGoal: a key stands for one request.
func TestRepeatedGoal(t *testing.T) {
	t.Parallel()

	t.Run("WithAnotherInstantDeviceOrSourceIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.goal("", time.Hour)
		b.creates(n)
		later, device, voice, words := n, n, n, n
		later.At = n.At.Add(time.Second)
		device.DeviceID = b.device()
		voice.Source = goals.SourceVoice
		words.At = time.Time{}
		b.reuses(later, "another instant")
		b.reuses(device, "another device")
		b.reuses(voice, "another source")
		b.reuses(words, "no instant")
		b.clock.Advance(2 * time.Hour)
		b.repeats(n, "its time has passed")

		onDevice := b.goal(device.DeviceID, time.Hour)
		b.creates(onDevice)
		b.repeats(onDevice, "the same device")
		onDevice.DeviceID = ""
		b.reuses(onDevice, "no device is the phone")
	})

	t.Run("OfWordsIsTheSameWheneverItIsRepeated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.clock.Advance(900 * time.Millisecond)
		for _, said := range []string{"call John in 2 hours", "call John tomorrow at 9am"} {
			n := b.said(said)
			g := b.creates(n)
			b.clock.Advance(90 * time.Minute)
			b.repeats(n, said)
			b.exec(`update profiles set time_zone = 'Asia/Tokyo' where id = $1`, b.owner)
			b.repeats(n, "the person has moved")
			n.At = g.ScheduledFor
			b.reuses(n, "an instant instead of the words")
			b.exec(`update profiles set time_zone = 'America/New_York' where id = $1`, b.owner)
		}
		now := b.said("open the door")
		now.DeviceID = b.device()
		b.creates(now)
		b.clock.Advance(time.Minute)
		b.repeats(now, "without a time")
	})

	t.Run("InAnotherZoneIsRefusedWhereThatIsAnotherTime", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.clock.Advance(900 * time.Millisecond)
		clock, amount := b.said("call John tomorrow at 9am"), b.said("call John in 2 hours")
		clock.Zone, amount.Zone = zoneOf(t, "Europe/Paris"), zoneOf(t, "Europe/Paris")
		b.creates(clock)
		b.creates(amount)
		b.clock.Advance(13 * time.Hour) // it is another day there
		b.repeats(clock, "the same zone")
		b.repeats(amount, "the same zone")
		clock.Zone, amount.Zone = zoneOf(t, "Asia/Kathmandu"), zoneOf(t, "Asia/Kathmandu")
		b.reuses(clock, "nine there")
		b.repeats(amount, "two hours are the same anywhere")
	})

	t.Run("IsTheSameAfterTheGoalWasMoved", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		given, words := b.goal("", time.Hour), b.said("call John tomorrow at 9am")
		words.Zone = zoneOf(t, "Europe/Paris")
		for _, n := range []goals.New{given, words} {
			g := b.creates(n)
			_, err := b.service.Reschedule(t.Context(), b.me(), g.ID, goals.Moment{At: b.clock.Now().Add(3 * time.Hour)})
			require.NoError(t, err)
			b.repeats(n, n.Said)
			n.Said = "something else"
			b.reuses(n, "another goal")
		}
	})

	t.Run("OfATextAndOfAnUndoStaysTheSame", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		text := b.said("call John tomorrow at 9am")
		text.Source, text.Key, text.SaidAt = goals.SourceText, goals.MessageKey("SM1"), b.clock.Now()
		g := b.creates(text)
		b.clock.Advance(time.Hour)
		b.repeats(text, "the same text")
		_, err := b.service.Cancel(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		undo := b.said("")
		undo.UndoOf = g.ID
		b.creates(undo)
		b.repeats(undo, "what is undone")
	})
}

// TestNothingToDo: words of time alone ask for nothing.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	device := b.device()
	for _, said := range []string{
		"in 5 seconds", "remind me in 4 seconds", "please remind me in 4 seconds", "tomorrow at 9am", "in 2 hours, set a reminder", "in 5 seconds!",
	} {
		for _, on := range []string{"", device} {
			n := b.said(said)
			n.DeviceID = on
			_, _, err := b.service.Create(t.Context(), n)
			require.ErrorIs(t, err, goals.ErrInvalid, said)
			require.ErrorContains(t, err, "goal has a time and nothing to do", said)
		}
	}
	for said, goal := range map[string]string{
		"remind me to call John in 4 seconds": "remind me to call John", "wake me up in 2 hours": "wake me up", "in 5 minutes ☕": "☕",
	} {
		require.Equal(t, goal, b.creates(b.said(said)).Goal)
	}
}
