package process_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/process"
)

func TestRepetition(t *testing.T) {
	t.Parallel()

	type run struct {
		at       []time.Duration // when Once was called
		failures []error
	}
	play := func(t *testing.T, wake <-chan struct{}, answers ...func() (bool, error)) run {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		began, seen := time.Now(), run{}
		repetition := process.Repetition{
			Once: func(context.Context) (bool, error) {
				seen.at = append(seen.at, time.Since(began))
				answer := answers[len(seen.at)-1]
				if len(seen.at) == len(answers) {
					cancel()
				}
				return answer()
			},
			Failed: func(_ context.Context, err error) { seen.failures = append(seen.failures, err) },
			Rest:   process.RestOnMachineClock, Every: time.Minute, Wake: wake,
		}
		require.NoError(t, repetition.Run(ctx))
		return seen
	}
	done := func() (bool, error) { return false, nil }
	more := func() (bool, error) { return true, nil }
	failing := errors.New("the database is down")
	fails := func() (bool, error) { return true, failing }

	t.Run("BeginsAtOnceAndThenRests", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, play(t, nil, done, done, done).at)
		})
	})
	t.Run("DoesNotRestWhileThereIsMore", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, []time.Duration{0, 0, 0, time.Minute}, play(t, nil, more, more, done, done).at)
		})
	})
	t.Run("IsWokenBeforeItsTime", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			wake := make(chan struct{}, 1)
			time.AfterFunc(time.Second, func() { wake <- struct{}{} })
			require.Equal(t, []time.Duration{0, time.Second, time.Minute + time.Second}, play(t, wake, done, done, done).at)
		})
	})
	t.Run("RestsAfterAFailureAndTellsOfIt", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			seen := play(t, nil, fails, done)
			require.Equal(t, []time.Duration{0, time.Minute}, seen.at)
			require.Equal(t, []error{failing}, seen.failures)
		})
	})
	t.Run("SaysNothingOfAFailureThatIsOnlyTheEnd", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			require.Empty(t, play(t, nil, fails).failures)
		})
	})
}
