package dedup_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/services/onboarding/inbound/dedup"
)

var errWork = errors.New("the work failed")

// journal is a store that notes what it is asked, and may be out of order.
type journal struct {
	store

	mu     sync.Mutex
	calls  []call
	broken func(verb, key string) bool
	mute   bool // a reservation is made, and its answer is lost
}

type call struct {
	verb  string
	claim dedup.Claim
}

var errDown = errors.New("connection refused")

func (j *journal) note(verb string, c dedup.Claim) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, call{verb, c})
	if j.broken != nil && j.broken(verb, c.Key) {
		return errDown
	}
	return nil
}

func (j *journal) Reserve(ctx context.Context, c dedup.Claim) (dedup.Value, error) {
	if err := j.note("reserve", c); err != nil {
		return dedup.Value{}, err
	}
	v, err := j.store.Reserve(ctx, c)
	if j.mute {
		return dedup.Value{}, errDown
	}
	return v, err
}

func (j *journal) Finish(ctx context.Context, c dedup.Claim, done bool) error {
	verb := "release"
	if done {
		verb = "complete"
	}
	if err := j.note(verb, c); err != nil {
		return err
	}
	return j.store.Finish(ctx, c, done)
}

// verbs are the calls so far, in short.
func (j *journal) verbs() (all []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.calls {
		all = append(all, c.verb+" "+c.claim.Key)
	}
	return all
}

// worksite is a guard, its store, and the work that was done.
type worksite struct {
	t     *testing.T
	clock *clock.Settable
	store *journal
	guard *dedup.Guard
	log   bytes.Buffer
	ran   int
}

func newSite(t *testing.T, s store) *worksite {
	t.Helper()
	w := &worksite{t: t, clock: clock.NewSettable(start), store: &journal{store: s}}
	w.guard = w.another(w.store, dedup.Lock)
	return w
}

// another is a guard of another process.
func (w *worksite) another(s store, lock time.Duration) *dedup.Guard {
	w.t.Helper()
	g, err := dedup.New(s, lock, slog.New(slog.NewTextHandler(&w.log, nil)), w.clock.Now)
	require.NoError(w.t, err)
	return g
}

func (w *worksite) work(context.Context) error { w.ran++; return nil }

func (w *worksite) fails(context.Context) error { w.ran++; return errWork }

// does expects a delivery to run the work.
func (w *worksite) does(d dedup.Delivery) {
	w.t.Helper()
	before := w.ran
	duplicate, err := w.guard.Do(w.t.Context(), d, w.work)
	require.NoError(w.t, err)
	require.False(w.t, duplicate)
	require.Equal(w.t, before+1, w.ran)
}

// knows expects a delivery to be a duplicate.
func (w *worksite) knows(d dedup.Delivery) {
	w.t.Helper()
	before := w.ran
	duplicate, err := w.guard.Do(w.t.Context(), d, w.work)
	require.NoError(w.t, err)
	require.True(w.t, duplicate)
	require.Equal(w.t, before, w.ran)
}

// waits expects a delivery to be in progress elsewhere for so long.
func (w *worksite) waits(d dedup.Delivery, wait time.Duration) {
	w.t.Helper()
	before := w.ran
	duplicate, err := w.guard.Do(w.t.Context(), d, w.work)
	var inProgress *dedup.InProgress
	require.ErrorAs(w.t, err, &inProgress)
	require.False(w.t, duplicate)
	require.Equal(w.t, wait, inProgress.RetryAfter)
	require.Equal(w.t, before, w.ran)
}

// busy has another process hold a delivery until the test says how its work ends, and returns the result.
func (w *worksite) busy(d dedup.Delivery) (end chan<- error, became <-chan error) {
	w.t.Helper()
	working, ending, ended := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	other := w.another(w.store, dedup.Lock)
	go func() {
		_, err := other.Do(w.t.Context(), d, func(context.Context) error {
			close(working)
			return <-ending
		})
		ended <- err
	}()
	<-working
	return ending, ended
}

func TestGuard(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range slices.Concat(deliveries, mishaps) {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, newSite(t, k.open(t)), dedup.Delivery{MessageID: newKey(), Key: "note:" + newKey()})
				})
			}
		})
	}
}

type guardCase struct {
	name string
	run  func(t *testing.T, w *worksite, d dedup.Delivery)
}

// deliveries are cases in which the store and the processes are well.
var deliveries = []guardCase{
	{name: "S1_04_S1_25_BothKeysAreReservedBeforeTheWorkForFourAndFiveMinutes", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		message, work := "message:"+d.MessageID, "work:"+d.Key
		_, err := w.guard.Do(t.Context(), d, func(context.Context) error {
			require.Equal(t, []string{"reserve " + message, "reserve " + work}, w.store.verbs())
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"reserve " + message, "reserve " + work, "complete " + work, "complete " + message}, w.store.verbs())
		var lasting []time.Duration
		for _, c := range w.store.calls {
			lasting = append(lasting, c.claim.Until.Sub(start))
		}
		require.Equal(t, []time.Duration{240 * time.Second, 300 * time.Second, 24 * time.Hour, 24 * time.Hour}, lasting)
	}},
	{name: "S1_25_JobMayHaveALockOfItsOwn", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.guard = w.another(w.store, 20*time.Second)
		_, ended := w.guard.Do(t.Context(), d, func(context.Context) error {
			w.waits(d, 20*time.Second)
			return errWork
		})
		require.ErrorIs(t, ended, errWork)
	}},
	{name: "S1_26_DeliveryInFlightRunsNothing", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		end, became := w.busy(d)
		w.clock.Advance(time.Minute)
		w.waits(d, 180*time.Second)
		close(end)
		require.NoError(t, <-became)
		w.knows(d)
	}},
	{name: "S1_05_WorkInFlightByAnotherMessageRunsNothingAndReservesNothing", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		end, became := w.busy(d)
		other := dedup.Delivery{MessageID: newKey(), Key: d.Key}
		w.waits(other, 300*time.Second)
		w.waits(other, 300*time.Second) // its own message would be the shorter wait
		end <- errWork
		require.ErrorIs(t, <-became, errWork)
		w.does(other)
	}},
	{name: "S1_27_LaterDeliveryIsADuplicateForADay", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.does(d)
		for range 23 {
			w.clock.Advance(time.Hour)
			w.knows(d)
		}
		w.clock.Advance(time.Hour)
		w.does(d)
	}},
	{name: "S1_05_S1_27_WorkThatAnotherMessageBroughtIsADuplicate", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.does(d)
		again := dedup.Delivery{MessageID: newKey(), Key: d.Key}
		w.knows(again)
		w.knows(dedup.Delivery{MessageID: again.MessageID, Key: newKey()}) // the message was dealt with as well
	}},
	{name: "S1_06_FailureFreesTheDeliveryAtOnce", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		_, err := w.guard.Do(t.Context(), d, w.fails)
		require.Equal(t, errWork, err)
		w.does(d)
		require.Equal(t, 2, w.ran)
		require.Empty(t, w.log.String())
	}},
	{name: "S1_06_PanicFreesTheDeliveryToo", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		require.Panics(t, func() { _, _ = w.guard.Do(t.Context(), d, func(context.Context) error { panic("a defect") }) })
		w.does(d)
	}},
	{name: "S1_06_CallerWhoHangsUpFreesTheDelivery", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.guard.Do(ctx, d, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		w.does(d)
	}},
	{name: "S1_27_CallerWhoHangsUpAfterTheWorkLosesNothing", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.guard.Do(ctx, d, func(context.Context) error {
			cancel()
			return nil
		})
		require.NoError(t, err)
		w.knows(d)
	}},
}

// mishaps are cases in which the store or a process is not.
var mishaps = []guardCase{
	{name: "S1_30_StoreThatIsDownRunsNothing", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.store.broken = func(string, string) bool { return true }
		_, err := w.guard.Do(t.Context(), d, w.work)
		require.ErrorIs(t, err, dedup.ErrUnavailable)
		require.ErrorIs(t, err, errDown)
		require.Zero(t, w.ran)
		w.store.broken = nil
		w.does(d)
	}},
	{name: "S1_30_SecondReservationThatFailsRunsNothingAndFreesTheFirst", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.store.broken = func(verb, key string) bool { return verb == "reserve" && key == "work:"+d.Key }
		_, err := w.guard.Do(t.Context(), d, w.work)
		require.ErrorIs(t, err, dedup.ErrUnavailable)
		require.Zero(t, w.ran)
		w.store.broken = nil
		w.does(d)
	}},
	{name: "S1_38_ReservationWhoseAnswerIsLostKeepsNobodyWaiting", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.store.mute = true
		_, err := w.guard.Do(t.Context(), d, w.work)
		require.ErrorIs(t, err, dedup.ErrUnavailable)
		w.store.mute = false
		w.does(d)
	}},
	{name: "WorkWhoseSuccessCannotBeRecordedIsASuccessAndLogged", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.store.broken = func(verb, _ string) bool { return verb == "complete" }
		w.does(d)
		require.Contains(t, w.log.String(), "dedup.reservation_not_completed")
		w.store.broken = nil
		w.waits(d, 240*time.Second)
		w.clock.Advance(300 * time.Second)
		w.does(d) // again: the work bears it
	}},
	{name: "S1_35_StaleWorkerThatSucceedsDoesNotCompleteTheNextOnes", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		staleEnd, stale := w.busy(d)
		w.clock.Advance(300 * time.Second)
		end, became := w.busy(d)
		close(staleEnd)
		require.NoError(t, <-stale)
		w.waits(d, 240*time.Second)
		end <- errWork
		require.ErrorIs(t, <-became, errWork)
		w.does(d)
	}},
	{name: "S1_35_StaleWorkerThatFailsDoesNotReleaseTheNextOnes", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		staleEnd, stale := w.busy(d)
		w.clock.Advance(300 * time.Second)
		end, became := w.busy(d)
		staleEnd <- errWork
		require.ErrorIs(t, <-stale, errWork)
		w.waits(d, 240*time.Second)
		close(end)
		require.NoError(t, <-became)
		w.knows(d)
	}},
	{name: "S1_36_WorkOfADeadWorkerIsDoneAgainAndNeverADuplicate", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		dead := &journal{store: w.store.store, broken: func(verb, _ string) bool { return verb != "reserve" }}
		_, err := w.another(dead, dedup.Lock).Do(t.Context(), d, w.fails)
		require.ErrorIs(t, err, errWork)
		w.clock.Advance(150 * time.Second)
		w.waits(d, 90*time.Second)
		w.clock.Advance(90 * time.Second)
		w.waits(d, 60*time.Second) // the message is free, its work is not yet
		w.clock.Advance(60 * time.Second)
		w.does(d)
		w.knows(d)
	}},
	{name: "S1_37_NewVersionOfTheWorkIsNoDuplicate", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		w.does(d)
		w.does(dedup.Delivery{MessageID: newKey(), Key: d.Key + ":v2"})
	}},
	{name: "DeliveryWithoutAMessageOrAKeyIsRefused", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		for _, nameless := range []dedup.Delivery{{MessageID: d.MessageID}, {Key: d.Key}} {
			_, err := w.guard.Do(t.Context(), nameless, w.work)
			require.Error(t, err)
		}
		require.Empty(t, w.store.verbs())
	}},
	{name: "WorkHasNoMoreTimeThanItsLease", run: func(t *testing.T, w *worksite, d dedup.Delivery) {
		_, err := w.guard.Do(t.Context(), d, func(ctx context.Context) error {
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			return nil
		})
		require.NoError(t, err)
	}},
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lock time.Duration
		want string
	}{
		{name: "S1_38_LockOfFourMinutesFitsTheRetriesOfAnAlarm", lock: dedup.Lock},
		{name: "S1_38_LockAsLongAsTheRetries", lock: 310 * time.Second, want: "retry window"},
		{name: "NegativeLock", lock: -time.Second, want: "lock"},
		{name: "NoLock", want: "lock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := dedup.New(nil, tt.lock, nil, nil)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}
