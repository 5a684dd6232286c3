package queue_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

// beats is a script that answers heartbeats as it is told.
type beats struct {
	script

	extend func(ctx context.Context, leased []queue.Job) ([]string, error)
}

func (b *beats) Extend(ctx context.Context, leased []queue.Job, _ time.Time) ([]string, error) {
	return b.extend(ctx, leased)
}

// TestClaimedAgain: the runner claims a job again after its lease was lost, while the first run is at it and a heartbeat for it is on its
// way. The first run is stopped; neither its end nor the answer to that heartbeat touches the second.
func TestClaimedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, kept := make(chan struct{}), make(chan struct{})
		store, beat := &beats{}, 0
		store.claims = []func() []queue.Job{
			func() []queue.Job { return []queue.Job{{ID: "a", LeaseToken: "first", EventType: "work"}} },
			func() []queue.Job {
				<-asked
				return []queue.Job{{ID: "a", LeaseToken: "second", EventType: "work"}}
			},
		}
		store.extend = func(_ context.Context, leased []queue.Job) ([]string, error) {
			require.Len(t, leased, 1)
			switch beat++; beat {
			case 1:
				require.Equal(t, "first", leased[0].LeaseToken)
				close(asked)
				synctest.Wait() // the second run has begun
				return []string{"a"}, nil
			case 2:
				require.Equal(t, "second", leased[0].LeaseToken)
				close(kept)
			}
			return nil, nil
		}
		causes := map[string]error{}
		runner := queue.NewRunner(queue.Config{
			Name: "jobs", Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Lease: 4 * time.Second, Timeout: time.Minute,
			Handlers: map[string]queue.Handler{"work": func(ctx context.Context, j queue.Job) error {
				if j.LeaseToken == "first" {
					<-ctx.Done()
					causes[j.LeaseToken] = context.Cause(ctx)
					return ctx.Err()
				}
				select {
				case <-kept:
				case <-ctx.Done():
					causes[j.LeaseToken] = context.Cause(ctx)
				}
				return nil
			}},
		})
		_, err := runner.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]error{"first": queue.ErrFenced}, causes)
	})
}

// TestBeatLastsAsLongAsTheLease: what is left of the lease since it was extended last is the time of a heartbeat.
func TestBeatLastsAsLongAsTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bounds []time.Duration
		done := make(chan struct{})
		store := &beats{script: script{claims: []func() []queue.Job{
			func() []queue.Job { return []queue.Job{{ID: "a", LeaseToken: "a", EventType: "work"}} },
		}}}
		store.extend = func(ctx context.Context, _ []queue.Job) ([]string, error) {
			until, _ := ctx.Deadline()
			bounds = append(bounds, time.Until(until))
			switch len(bounds) {
			case 5:
				return nil, nil
			case 6:
				close(done)
				return nil, nil
			default:
				return nil, errOutage
			}
		}
		runner := queue.NewRunner(queue.Config{
			Name: "jobs", Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Lease: 16 * time.Second, Timeout: time.Minute,
			Handlers: map[string]queue.Handler{"work": func(context.Context, queue.Job) error { <-done; return nil }},
		})
		_, err := runner.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, []time.Duration{
			12 * time.Second, 8 * time.Second, 4 * time.Second, time.Second, time.Second, 12 * time.Second,
		}, bounds)
	})
}
