package process_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/platform/process"
)

const bound = 30 * time.Second

// play runs a loop of these passes under watch; the last one ends it. It returns what watches, what reads one of its metrics, and
// the errors of the passes.
func play(t *testing.T, atLeast time.Duration, passes ...func(ctx context.Context) (more bool, err error)) (
	loops *process.Loops, metric func(name string) int64, failures []error,
) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	loops, err := process.NewLoops(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), slog.New(slog.DiscardHandler), bound)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	repetition := process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			if n++; n == len(passes) {
				defer cancel()
			}
			return passes[n-1](ctx)
		},
		Failed: func(_ context.Context, err error) { failures = append(failures, err) },
		Rest:   process.RestOnMachineClock, Every: time.Hour, Bound: atLeast,
	}
	metric = func(name string) int64 {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		for _, m := range all.ScopeMetrics[0].Metrics {
			if m.Name != name {
				continue
			}
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				return points.DataPoints[0].Value
			case metricdata.Gauge[int64]:
				return points.DataPoints[0].Value
			}
		}
		return -1
	}
	require.NoError(t, loops.Loop("relay", repetition.Run).Run(ctx))
	return loops, metric, failures
}

func done(context.Context) (bool, error) { return false, nil }

func silent(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() }

func TestPass(t *testing.T) {
	t.Parallel()
	t.Run("R_01_ASilentPassIsEndedCountedAndFollowedByAnother", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			loops, metric, failures := play(t, 0, silent, func(context.Context) (bool, error) {
				require.Equal(t, bound, time.Since(began), "the next pass begins at once")
				return false, nil
			})
			require.Len(t, failures, 1)
			require.ErrorIs(t, failures[0], process.ErrSilent)
			require.EqualValues(t, 1, metric("paceline_loop_timeouts_total"))
			require.EqualValues(t, 0, metric("paceline_loop_stalled"))
			require.NoError(t, loops.Ready(), "a pass was finished since")
		})
	})
	t.Run("R_01_ALoopThatStandsStillIsNamedAndCountedForEachBound", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			loops, metric, failures := play(t, 0, done, func(context.Context) (bool, error) { // deaf to the end of its context
				timer := time.NewTimer(3*bound + time.Second)
				<-timer.C
				return false, nil
			})
			require.EqualError(t, loops.Ready(), "a loop has not finished a pass within its bound: relay")
			require.EqualValues(t, 3, metric("paceline_loop_timeouts_total"))
			require.EqualValues(t, 1, metric("paceline_loop_stalled"))
			require.Empty(t, failures, "the process was stopped meanwhile")
		})
	})
	t.Run("R_01_APassThatShowsProgressMayWorkForHours", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			_, metric, failures := play(t, 0, func(ctx context.Context) (bool, error) {
				for range 1000 {
					timer := time.NewTimer(bound - time.Second)
					<-timer.C
					process.Progress(ctx)
				}
				return false, ctx.Err()
			})
			require.Empty(t, failures)
			require.EqualValues(t, 0, metric("paceline_loop_timeouts_total"))
		})
	})
	t.Run("ALoopMayNeedMoreByRights", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, _, failures := play(t, 2*bound, silent, done)
			require.ErrorIs(t, failures[0], process.ErrSilent)
			require.Equal(t, 2*bound, time.Since(began))
		})
	})
	t.Run("AFailureIsNoSilence", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("the database is down")
			loops, metric, failures := play(t, 0, func(context.Context) (bool, error) { return true, broken }, done)
			require.Equal(t, []error{broken}, failures)
			require.EqualValues(t, 0, metric("paceline_loop_timeouts_total"))
			require.NoError(t, loops.Ready())
		})
	})
	t.Run("R_02_RowsThatWerePassedOverAreCounted", func(t *testing.T) {
		t.Parallel()
		_, metric, _ := play(t, 0, func(ctx context.Context) (bool, error) {
			process.PassedOver(ctx)
			process.PassedOver(ctx)
			return false, nil
		})
		require.EqualValues(t, 2, metric("paceline_loop_rows_lock_skipped_total"))
	})
	t.Run("APassNeedsNoWatch", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := process.Bounded(t.Context(), 0, func(ctx context.Context) error { <-ctx.Done(); return nil })
			require.ErrorIs(t, err, process.ErrSilent)
			require.Equal(t, process.PassBound, time.Since(began))
			process.Progress(t.Context())
			process.PassedOver(t.Context())
		})
	})
}
