package process_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"paceline.internal/platform/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// diary lists events in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// component writes down its start, its stop and the end of its work.
func (d *diary) component(name string) process.Component {
	return process.Component{
		Name:  name,
		Start: func(context.Context) error { d.write(name + " starts"); return nil },
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			d.write(name + " ends")
			return ctx.Err()
		},
		Stop: func(context.Context) error { d.write(name + " stops"); return nil },
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("StartsInOrderAndStopsInReverse", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var d diary
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- process.Run(ctx, quiet(), d.component("pool"), d.component("server")) }()

			synctest.Wait()
			require.Equal(t, []string{"pool starts", "server starts"}, d.lines, "it runs until it is told to end")
			cancel()

			require.NoError(t, <-result)
			require.Equal(t, []string{
				"pool starts", "server starts",
				"server stops", "server ends", "pool stops", "pool ends",
			}, d.lines, "the pool's work goes on until the server has ended")
		})
	})

	t.Run("TheFirstFailureStopsAll", func(t *testing.T) {
		t.Parallel()
		var d diary
		broken := process.Component{Name: "worker", Run: func(context.Context) error { return errBroken }}

		err := process.Run(t.Context(), quiet(), d.component("pool"), broken)

		require.ErrorIs(t, err, errBroken)
		require.EqualError(t, err, "worker: broken")
		require.Equal(t, []string{"pool starts", "pool stops", "pool ends"}, d.lines)
	})

	t.Run("EndingByItselfIsAFailure", func(t *testing.T) {
		t.Parallel()
		err := process.Run(t.Context(), quiet(), process.Component{Name: "worker", Run: func(context.Context) error { return nil }})
		require.ErrorIs(t, err, process.ErrEnded)
		require.EqualError(t, err, "worker: ended by itself")
	})

	t.Run("AFailedStartStopsOnlyWhatWasStarted", func(t *testing.T) {
		t.Parallel()
		var d diary
		broken := d.component("server")
		broken.Start = func(context.Context) error { return errBroken }

		err := process.Run(t.Context(), quiet(), d.component("pool"), broken, d.component("worker"))

		require.EqualError(t, err, "server: start: broken")
		require.Equal(t, []string{"pool starts", "pool stops", "pool ends"}, d.lines)
	})

	t.Run("AFailureBreaksOffTheStartOfTheNext", func(t *testing.T) {
		t.Parallel()
		broken := process.Component{Name: "worker", Run: func(context.Context) error { return errBroken }}
		waits := process.Component{Name: "server", Start: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}

		require.EqualError(t, process.Run(t.Context(), quiet(), broken, waits), "worker: broken")
	})

	t.Run("ACancelledContextStartsNothing", func(t *testing.T) {
		t.Parallel()
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, process.Run(ctx, quiet(), d.component("pool")))
		require.Empty(t, d.lines)
	})
}

func TestStop(t *testing.T) {
	t.Parallel()

	t.Run("ErrorsOfStoppingAreJoinedAndNamed", func(t *testing.T) {
		t.Parallel()
		var d diary
		pool, server := d.component("pool"), d.component("server")
		pool.Stop = func(context.Context) error { return errBroken }
		server.Run = func(ctx context.Context) error { <-ctx.Done(); return errors.New("half written") }
		worker := process.Component{Name: "worker", Run: func(context.Context) error { return errors.New("first") }}

		err := process.Run(t.Context(), quiet(), pool, server, worker)

		require.EqualError(t, err, "worker: first\nserver: stop: half written\npool: stop: broken")
	})

	t.Run("AStopMayCloseByForceWhenItsTimeIsUp", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancelAfterStart := process.Component{Name: "ready", Start: func(context.Context) error { cancel(); return nil }}
			var d diary
			slow := d.component("server")
			slow.StopTimeout = 3 * time.Second
			slow.Stop = func(ctx context.Context) error { <-ctx.Done(); d.write("server by force"); return nil }
			now := time.Now // the bubble's
			begin := now()

			require.NoError(t, process.Run(ctx, quiet(), slow, cancelAfterStart))
			require.Equal(t, 3*time.Second, now().Sub(begin))
			require.Equal(t, []string{"server starts", "server by force", "server ends"}, d.lines)
		})
	})

	t.Run("WhatDoesNotStopIsAbandonedAndTheRestIsStopped", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var d diary
			release := make(chan struct{})
			defer close(release)
			deaf := process.Component{Name: "deaf", Run: func(context.Context) error { <-release; return nil }}
			deaf.StopTimeout = 2 * time.Second
			ctx, cancel := context.WithCancel(t.Context())
			last := process.Component{Name: "ready", Start: func(context.Context) error { cancel(); return nil }}
			now := time.Now // the bubble's
			begin := now()

			err := process.Run(ctx, quiet(), d.component("pool"), deaf, last)

			require.ErrorIs(t, err, process.ErrNotStopped)
			require.EqualError(t, err, "deaf: did not stop in time (2s)")
			require.Equal(t, 3*time.Second, now().Sub(begin), "the bound and the second for force")
			require.Equal(t, []string{"pool starts", "pool stops", "pool ends"}, d.lines)
		})
	})
}
