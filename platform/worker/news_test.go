package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/worker"
)

// script answers claims as it is told, and keeps nothing.
type script struct {
	claims  []func() []worker.Job
	claimed int
}

func (s *script) Claim(context.Context, worker.Claim) (worker.Claimed, error) {
	if s.claimed++; s.claimed > len(s.claims) {
		return worker.Claimed{}, nil
	}
	return worker.Claimed{Jobs: s.claims[s.claimed-1]()}, nil
}

func (*script) Finish(context.Context, []worker.Finish) ([]string, error) { return nil, nil }

func (*script) Extend(context.Context, []worker.Job, time.Time) ([]string, error) { return nil, nil }

// Hurry says that the end of each job has made another one due.
func (*script) Hurry(context.Context, []worker.Job, time.Time) (bool, error) { return true, nil }

// TestNews: while a claim is on its way a job ends, and makes the next one of its subject due. The claim has not seen that, and its
// empty answer must not keep the pass from looking again: nobody else would before the next wake-up.
func TestNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var ran []string
		store := &script{claims: []func() []worker.Job{
			func() []worker.Job { return []worker.Job{{ID: "first", Subject: "a", EventType: "work"}} },
			func() []worker.Job {
				close(goOn)
				synctest.Wait() // the first has ended, its end is recorded, and the pass has heard of it
				return nil
			},
			func() []worker.Job { return []worker.Job{{ID: "second", Subject: "a", EventType: "work"}} },
		}}
		runner := worker.NewRunner(worker.Config{
			Name: "jobs", Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Handlers: map[string]worker.Handler{"work": func(_ context.Context, j worker.Job) error {
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
