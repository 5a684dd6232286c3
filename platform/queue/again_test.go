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

// script answers claims as it is told, and keeps nothing.
type script struct {
	claims  []func() []queue.Job
	claimed int
}

func (s *script) Claim(context.Context, queue.Claim) (queue.Claimed, error) {
	if s.claimed++; s.claimed > len(s.claims) {
		return queue.Claimed{}, nil
	}
	return queue.Claimed{Jobs: s.claims[s.claimed-1]()}, nil
}

func (*script) Finish(context.Context, []queue.Finish) ([]string, error) { return nil, nil }

func (*script) Extend(context.Context, []queue.Job, time.Time) ([]string, error) { return nil, nil }

// Expedite says that the end of each job has made another one due.
func (*script) Expedite(context.Context, []queue.Job, time.Time) (bool, error) { return true, nil }

// TestPassLooksAgain: while a claim is on its way a job ends, and makes the next one of its subject due. The claim has not seen that, and its
// empty answer must not keep the pass from looking again: no other reason would come before the next wake-up.
func TestPassLooksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var ran []string
		store := &script{claims: []func() []queue.Job{
			func() []queue.Job { return []queue.Job{{ID: "first", Subject: "a", EventType: "work"}} },
			func() []queue.Job {
				close(goOn)
				synctest.Wait() // the first has ended, its end is recorded, and the pass has heard of it
				return nil
			},
			func() []queue.Job { return []queue.Job{{ID: "second", Subject: "a", EventType: "work"}} },
		}}
		runner := queue.NewRunner(queue.Config{
			Name: "jobs", Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Handlers: map[string]queue.Handler{"work": func(_ context.Context, j queue.Job) error {
				<-goOn
				ran = append(ran, j.ID) // one at a time
				return nil
			}},
		})
		n, err := runner.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []string{"first", "second"}, ran)
	})
}

// TestPassRests counts the claims of a minute in which a handler is at work.
func TestPassRests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		poll    time.Duration
		claim   func() (queue.Claimed, error)
		atMost  int
		atLeast int
		err     error
	}{
		{
			name: "BetweenClaimsThatTakeLongerThanThePoll", poll: 5 * time.Second, atLeast: 5, atMost: 7,
			claim: func() (queue.Claimed, error) { time.Sleep(6 * time.Second); return queue.Claimed{}, nil }, //nolint:forbidigo // of the bubble's clock
		},
		{
			name: "AfterAFailureForASecondWhateverThePoll", poll: 250 * time.Millisecond, atLeast: 59, atMost: 62, err: errOutage,
			claim: func() (queue.Claimed, error) { return queue.Claimed{}, errOutage },
		},
		{
			name: "AWhileAfterAClaimThatFoundNothing", poll: 5 * time.Second, atLeast: 2990, atMost: 3010,
			claim: func() (queue.Claimed, error) { return queue.Claimed{Drained: true, Next: time.Now()}, nil },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &answering{claim: tt.claim}
				runner := queue.NewRunner(queue.Config{
					Name: "jobs", Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Poll: tt.poll, Timeout: time.Minute,
					Handlers: map[string]queue.Handler{"work": func(ctx context.Context, _ queue.Job) error { <-ctx.Done(); return nil }},
				})
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // for a pass that never ends
				defer cancel()
				_, err := runner.Drain(ctx)
				require.ErrorIs(t, err, tt.err)
				require.LessOrEqual(t, store.claimed, tt.atMost)
				require.GreaterOrEqual(t, store.claimed, tt.atLeast)
			})
		})
	}
}

// answering claims one job, and then as it is told.
type answering struct {
	script

	claim func() (queue.Claimed, error)
}

func (a *answering) Claim(context.Context, queue.Claim) (queue.Claimed, error) {
	if a.claimed++; a.claimed == 1 {
		return queue.Claimed{Jobs: []queue.Job{{ID: "a", EventType: "work"}}}, nil
	}
	return a.claim()
}
