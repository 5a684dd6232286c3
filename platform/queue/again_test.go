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
