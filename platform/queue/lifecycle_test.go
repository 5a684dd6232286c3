package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
)

func TestLeases(t *testing.T) {
	t.Parallel()

	t.Run("S2_32_JobWhoseWorkersDiedFiveTimesIsGivenUp", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		for died := range 5 {
			require.Len(t, b.claim(9).Jobs, 1, died)
			require.Zero(t, b.row(id).Attempts, "a take-over uses up no attempt")
			b.clock.Advance(lease)
		}
		require.Empty(t, b.drain(), "it is not begun again")
		r := b.row(id)
		require.Equal(t, queue.StatusFailed, r.Status)
		require.Contains(t, r.ErrorMessage, "the lease of this job ran out too often")
		require.Equal(t, []string{id}, b.given)
	})

	t.Run("S2_32_MaxLostSaysAfterHowManyDeathsAJobIsGivenUp", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		b.change = func(c *queue.Config) { c.MaxLost = 6 }
		for range 5 {
			require.Len(t, b.claim(9).Jobs, 1)
			b.clock.Advance(lease)
		}
		require.Equal(t, []string{id}, b.drain())
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
	})

	t.Run("S2_32_JobThatEndedInOrderHasNoLostLeases", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		b.fails(&queue.Snooze{After: time.Second, Cause: errWork})
		for range 12 {
			require.Len(t, b.claim(9).Jobs, 1)
			b.clock.Advance(lease)
			require.Equal(t, []string{id}, b.drain())
			b.clock.Advance(time.Second)
		}
	})

	t.Run("S2_37_HeartbeatKeepsAJobLongerThanItsLease", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		b.change = func(c *queue.Config) { // one place, so that the jump of the clock below lets no worker here take it over
			c.Lease, c.Timeout, c.Workers = 4*time.Second, time.Minute, 1
		}
		begun, goOn := make(chan struct{}), make(chan struct{})
		b.handle = func(ctx context.Context, _ queue.Job) error {
			close(begun)
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ended := make(chan error, 1)
		runner := b.runner()
		go func() { _, err := runner.Drain(t.Context()); ended <- err }()
		<-begun
		b.clock.Advance(10 * time.Second) // its lease is over until the next beat
		require.Eventually(t, func() bool {
			var kept bool
			err := b.pool.QueryRow(t.Context(), `select lease_until > $2 from jobs where id = $1`, id, b.clock.Now()).Scan(&kept)
			return err == nil && kept
		}, time.Minute, 10*time.Millisecond)
		require.Empty(t, b.claim(9).Jobs)
		close(goOn)
		require.NoError(t, <-ended)
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
	})

	t.Run("S2_33_HandlerWhoseLeaseWasLostIsStopped", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		b.change = func(c *queue.Config) { // one place, so that the jump of the clock below lets no worker here take it over
			c.Lease, c.Timeout, c.Workers = 4*time.Second, time.Minute, 1
		}
		begun := make(chan struct{})
		var cause error
		b.handle = func(ctx context.Context, _ queue.Job) error {
			close(begun)
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}
		ended := make(chan error, 1)
		runner := b.runner()
		go func() { _, err := runner.Drain(t.Context()); ended <- err }()
		<-begun
		_, err := b.pool.Exec(t.Context(), `update jobs set lease_token = gen_random_uuid(), lease_until = lease_until + interval '1 hour'`)
		require.NoError(t, err)
		require.NoError(t, <-ended)
		require.ErrorIs(t, cause, queue.ErrFenced)
		require.Equal(t, queue.StatusProcessing, b.row(id).Status, "and it recorded nothing")
	})

	t.Run("S2_37_HandlerIsToldWhenItsTimeIsOver", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		b.change = func(c *queue.Config) { c.Timeout = 50 * time.Millisecond }
		b.handle = func(ctx context.Context, _ queue.Job) error { <-ctx.Done(); return ctx.Err() }
		b.drain()
		require.Equal(t, 1, b.row(id).Attempts)
	})
}

func TestFlow(t *testing.T) {
	t.Parallel()

	t.Run("SlowHandlerDelaysNoOtherJob", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.change = func(c *queue.Config) { c.Workers = 2 }
		slow := b.job("")
		slow.EventType = "work"
		slow.DueAt = slow.DueAt.Add(-time.Minute)
		b.add(slow)
		var rest atomic.Int32
		goOn := make(chan struct{})
		b.handle = func(_ context.Context, j queue.Job) error {
			if j.ID == slow.ID {
				<-goOn
				return nil
			}
			if rest.Add(1) == 20 {
				close(goOn)
			}
			return nil
		}
		for range 20 {
			b.enqueue("")
		}
		require.Len(t, b.drain(), 21)
	})

	t.Run("WakeUpBeginsAJobWhileAnotherRuns", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.enqueue("")
		first, second := make(chan struct{}), make(chan struct{})
		var n atomic.Int32
		b.handle = func(context.Context, queue.Job) error {
			if n.Add(1) == 1 {
				close(first)
				<-second
				return nil
			}
			close(second)
			return nil
		}
		ended := make(chan error, 1)
		runner := b.runner()
		go func() { _, err := runner.Drain(t.Context()); ended <- err }()
		<-first
		b.enqueue("")
		queue.Wake(b.wake)
		require.NoError(t, <-ended)
	})

	t.Run("WakeUpEndsTheWaitForAdmission", func(t *testing.T) { // it may be of somebody who need not wait
		t.Parallel()
		b := setup(t)
		first, release := b.enqueue(""), make(chan struct{})
		var asked atomic.Int64
		b.change = func(c *queue.Config) {
			c.Workers, c.Poll = 4, time.Hour
			c.Admit = func(context.Context, int) (int, time.Duration, error) {
				if asked.Add(1) == 2 { // as for a sender with a rate that is used up
					b.enqueue("")
					queue.Wake(b.wake)
					return 0, time.Hour, nil
				}
				return 1, 0, nil
			}
		}
		b.handle = func(_ context.Context, j queue.Job) error {
			if j.ID == first {
				<-release
			} else {
				close(release)
			}
			return nil
		}
		n, err := b.runner().Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n)
	})

	t.Run("AdmissionBoundsHowManyBegin", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 10 {
			b.enqueue("")
		}
		left, rests := 3, []time.Duration{}
		b.change = func(c *queue.Config) {
			c.Admit = func(_ context.Context, want int) (int, time.Duration, error) {
				n := min(left, want)
				left -= n
				return n, 700 * time.Millisecond, nil
			}
		}
		loop := b.runner().Loop(onceStarted(func(_ context.Context, d time.Duration, _ <-chan struct{}) bool {
			rests = append(rests, d)
			left = 3
			return len(rests) < 4
		}))
		require.NoError(t, loop.Run(t.Context()))
		require.Len(t, b.ran, 10)
		require.Equal(t, 700*time.Millisecond, rests[0], "it rests until it may go on")
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()

	t.Run("S2_22_ClaimedJobThatHasNotBegunIsReleasedAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		ctx, cancel := context.WithCancel(t.Context())
		b.change = func(c *queue.Config) { c.Store = stopping{Queue: b.queue, stop: cancel} }
		_, err := b.runner().Drain(ctx)
		require.NoError(t, err)
		require.Empty(t, b.ran)
		r := b.row(id)
		require.Equal(t, []any{queue.StatusPending, 0}, []any{r.Status, r.Attempts})
		b.change = nil
		require.Equal(t, []string{id}, b.drain())
	})

	t.Run("S2_22_ClaimThatIsOnItsWayWhenTheProcessIsStoppedIsNotLost", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		ctx, cancel := context.WithCancel(t.Context())
		b.change = func(c *queue.Config) { c.Store = cutting{Queue: b.queue, stop: cancel} }
		_, err := b.runner().Drain(ctx)
		require.NoError(t, err)
		require.Empty(t, b.ran)
		require.Equal(t, queue.StatusPending, b.row(id).Status)
	})

	t.Run("S2_35_FailureThatCannotBeRecordedDoesNotStrandTheJob", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		good, bad := b.enqueue(""), b.enqueue("")
		b.handle = func(_ context.Context, j queue.Job) error {
			if j.ID == bad {
				return errors.New("a text with a \x00 and a \xff in it")
			}
			return nil
		}
		b.drain()
		require.Equal(t, queue.StatusCompleted, b.row(good).Status)
		require.Equal(t, "a text with a ? and a ? in it", b.row(bad).ErrorMessage)
	})

	t.Run("S2_21_LoopCanBeRunAgainAfterItEnded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		runner := b.runner()
		for range 2 {
			id := b.enqueue("")
			ctx, cancel := context.WithCancel(t.Context())
			rest := onceStarted(func(context.Context, time.Duration, <-chan struct{}) bool { cancel(); return false })
			require.NoError(t, runner.Loop(rest).Run(ctx))
			require.Equal(t, queue.StatusCompleted, b.row(id).Status)
		}
	})
}

func TestLoop(t *testing.T) {
	t.Parallel()

	t.Run("S2_21_SecondStartOfALoopThatRunsDoesEachJobOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var told bytes.Buffer
		started, release := make(chan struct{}, 8), make(chan struct{})
		var ran atomic.Int32
		b.handle = func(context.Context, queue.Job) error {
			ran.Add(1)
			started <- struct{}{}
			<-release
			return nil
		}
		b.change = func(c *queue.Config) { c.Log = slog.New(slog.NewJSONHandler(&told, nil)) }
		ids := []string{b.enqueue(""), b.enqueue("")}
		runner := b.runner()
		loop := func() error {
			return runner.Loop(onceStarted(func(context.Context, time.Duration, <-chan struct{}) bool { return false })).Run(t.Context())
		}
		first := make(chan error, 1)
		go func() { first <- loop() }()
		<-started
		<-started // both jobs are at work
		require.NoError(t, loop(), "the second start finds nothing, and ends")
		close(release)
		require.NoError(t, <-first)
		require.EqualValues(t, 2, ran.Load())
		for _, id := range ids {
			require.Equal(t, queue.StatusCompleted, b.row(id).Status)
		}
		require.Equal(t, 1, strings.Count(told.String(), `"msg":"queue.started"`))
	})

	t.Run("R_16_ATypeWithoutAHandlerIsNoLabel", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		reader := sdkmetric.NewManualReader()
		metrics, err := queue.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"))
		require.NoError(t, err)
		b.change = func(c *queue.Config) { c.Metrics = metrics }
		b.enqueue("")
		for range 3 {
			bad := b.job("")
			bad.EventType = uuid.NewString()
			b.add(bad)
		}
		b.drain()
		var got metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &got))
		counted := map[string]int64{}
		for _, m := range got.ScopeMetrics[0].Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, point := range sum.DataPoints {
					eventType, _ := point.Attributes.Value(attribute.Key("event_type"))
					counted[eventType.AsString()] += point.Value
				}
			}
		}
		require.Equal(t, map[string]int64{"work": 1, "unhandled": 3}, counted)
	})

	t.Run("S2_23_LogTellsTheLifeOfALoopAndOfItsJobs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var told bytes.Buffer
		b.change = func(c *queue.Config) {
			c.Log = slog.New(slog.NewJSONHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		id := b.enqueue("")
		bad := b.job("")
		bad.EventType = "other"
		b.add(bad)
		rest := onceStarted(func(context.Context, time.Duration, <-chan struct{}) bool { return false })
		require.NoError(t, b.runner().Loop(rest).Run(t.Context()))
		for _, line := range []string{
			`"msg":"queue.started","queue":"jobs"`,
			`"msg":"queue.processing","queue":"jobs","job_id":"` + id + `","event_type":"work"`,
			`"msg":"queue.processing","queue":"jobs","job_id":"` + bad.ID + `","event_type":"other"`, `"job_id":"` + id + `","event_type":"work","status":"completed"`,
			`"event_type":"other","status":"failed","attempts":1,"error":"no handler for event type \"other\""`, `"msg":"queue.stopped"`,
		} {
			require.Contains(t, told.String(), line)
		}
	})

	t.Run("S2_30_AThousandJobsTakeFarLessThanAMinute", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.change = func(c *queue.Config) { c.Workers, c.Fetchers = 500, 2 }
		fill(t, b.pool, b.queue, []string{b.orgID}, 1000, false, b.clock.Now())
		began := time.Now()
		require.Len(t, b.drain(), 1000)
		require.Less(t, time.Since(began), time.Minute)
	})

	t.Run("S2_04_LoopLooksAtOnceAndThenEveryFiveSeconds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		var rested time.Duration
		require.NoError(t, b.runner().Loop(onceStarted(func(_ context.Context, d time.Duration, _ <-chan struct{}) bool {
			rested = d
			require.Equal(t, queue.StatusCompleted, b.row(id).Status)
			return false
		})).Run(t.Context()))
		require.Equal(t, 5*time.Second, rested)
	})
}

// cutting asks the process to stop while a claim is on its way. The server makes the claim; its answer reaches only who still waits.
type cutting struct {
	*queue.Queue

	stop context.CancelFunc
}

func (c cutting) Claim(ctx context.Context, what queue.Claim) (queue.Claimed, error) {
	claimed, err := c.Queue.Claim(context.WithoutCancel(ctx), what)
	c.stop()
	if ctx.Err() != nil {
		return queue.Claimed{}, ctx.Err()
	}
	return claimed, err
}

// stopping is asked to stop while it claims.
type stopping struct {
	*queue.Queue

	stop context.CancelFunc
}

func (s stopping) Claim(ctx context.Context, c queue.Claim) (queue.Claimed, error) {
	claimed, err := s.Queue.Claim(context.WithoutCancel(ctx), c)
	s.stop()
	return claimed, err
}

// broken is a store with a call, number at, that goes wrong: it is not made, or its answer is lost.
type broken struct {
	*queue.Queue

	mu    sync.Mutex
	at    int
	calls int
	after bool
	dead  bool // from then on no call is made
	died  bool
}

var errMishap = errors.New("injected")

func brokenCall[T any](s *broken, do func() (T, error)) (T, error) {
	var none T
	s.mu.Lock()
	s.calls++
	hit, gone := s.calls == s.at, s.died
	s.died = s.died || hit && s.dead
	s.mu.Unlock()
	if gone || hit && !s.after {
		return none, errMishap
	}
	got, err := do()
	if hit {
		return none, errMishap
	}
	return got, err
}

func (s *broken) Claim(ctx context.Context, c queue.Claim) (queue.Claimed, error) {
	return brokenCall(s, func() (queue.Claimed, error) { return s.Queue.Claim(ctx, c) })
}

func (s *broken) Finish(ctx context.Context, ends []queue.Finish) ([]string, error) {
	return brokenCall(s, func() ([]string, error) { return s.Queue.Finish(ctx, ends) })
}

func (s *broken) Expedite(ctx context.Context, done []queue.Job, now time.Time) (bool, error) {
	return brokenCall(s, func() (bool, error) { return s.Queue.Expedite(ctx, done, now) })
}

// TestCrashMatrix lets every call of the store go wrong in every way. Whatever happens, every job comes to its end, in order, and its
// effect, which is in one transaction with its finish, is there once.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	t.Run("S2_15_32_35_39_EveryJobEndsOnceAndInOrder", crashMatrix)
}

func crashMatrix(t *testing.T) {
	t.Parallel()
	for _, dead := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("Dead%vAfter%v", dead, after), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				_, err := b.pool.Exec(t.Context(), `create table effects (job_id uuid not null, n bigint generated always as identity)`)
				require.NoError(t, err)
				for at := 1; ; at++ {
					_, err := b.pool.Exec(t.Context(), `truncate jobs, effects`)
					require.NoError(t, err)
					jobs := b.add(b.job("a"), b.job("a"), b.job(""), b.job("b"))
					b.handle = func(ctx context.Context, j queue.Job) error {
						return postgres.InTx(ctx, b.pool, func(tx pgx.Tx) error {
							if _, err := tx.Exec(ctx, `insert into effects (job_id) values ($1)`, j.ID); err != nil {
								return err
							}
							if j.Subject == "b" { // its handler leaves the finish to the runner
								return nil
							}
							return b.queue.FinishIn(ctx, tx, queue.Finish{Job: j, Status: queue.StatusCompleted, At: b.clock.Now()})
						})
					}
					store := &broken{Queue: b.queue, at: at, after: after, dead: dead}
					b.change = func(c *queue.Config) { c.Store = store }
					_, _ = b.runner().Drain(t.Context())
					b.change = nil
					for range 3 {
						b.clock.Advance(lease)
						b.drain()
					}
					for _, id := range jobs {
						require.Equal(t, queue.StatusCompleted, b.row(id).Status, "call %d", at)
					}
					var once, inOrder bool
					require.NoError(t, b.pool.QueryRow(t.Context(), `select
						(select bool_and(c = 1) from (select count(*) as c from effects where job_id <> $3 group by job_id) x),
						(select min(n) from effects where job_id = $1) < (select min(n) from effects where job_id = $2)`,
						jobs[0], jobs[1], jobs[3]).Scan(&once, &inOrder))
					require.True(t, once, "call %d", at)
					require.True(t, inOrder, "call %d", at)
					if store.calls < at {
						break
					}
				}
			})
		}
	}
}

// TestRestart (S2_39, S2_32) drains a queue over a restart of Postgres.
func TestRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("/var/tmp", "worker*") //nolint:usetesting // the server's user must be able to enter it
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	start := func() *embeddedpg.Server {
		server, err := embeddedpg.Start(t.Context(), embeddedpg.Config{Dir: dir})
		require.NoError(t, err)
		return server
	}
	stop := func(s *embeddedpg.Server) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		require.NoError(t, s.Stop(ctx))
	}
	server := start()
	defer func() { stop(server) }()
	url := server.URL("postgres", "postgres")
	require.NoError(t, schema().Up(t.Context(), url))
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	defer pool.Close()
	jobs := queue.NewQueue(pool, queue.Table{Name: "jobs"})
	b := setup(t)
	b.pool, b.queue = pool, jobs
	b.change = func(c *queue.Config) {
		c.Transient, c.Poll, c.Workers = postgres.Outage, 20*time.Millisecond, 8
		c.Log = slog.New(slog.DiscardHandler)
	}
	var all []queue.New
	for range 300 {
		all = append(all, b.job(""))
	}
	b.add(all...)
	var ran atomic.Int32
	half, killed := make(chan struct{}), make(chan struct{})
	b.handle = func(ctx context.Context, _ queue.Job) error {
		if ran.Add(1) == 150 {
			close(half)
			<-killed
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.runner().Loop(process.RestOnMachineClock).Run(ctx) }()
	<-half
	stop(server)
	close(killed)
	server = start()
	require.Equal(t, url, server.URL("postgres", "postgres"))
	require.Eventually(t, func() bool {
		b.clock.Advance(time.Second)
		s, err := jobs.Gauges(t.Context(), b.clock.Now())
		return err == nil && s == queue.Gauges{}
	}, time.Minute, 20*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	var completed int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from jobs where status = 'completed' and attempts = 0`).Scan(&completed))
	require.Equal(t, 300, completed)
}

func TestNotifier(t *testing.T) {
	t.Parallel()
	b := setup(t)
	here, there := make(chan struct{}, 1), make(chan struct{}, 1)
	notifier := queue.NewNotifier(b.pool, "jobs", here, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	both.Go(func() { postgres.Listen(ctx, b.pool.Config().ConnConfig, "jobs", func() { queue.Wake(there) }) })
	both.Go(func() { _ = notifier.Run(ctx) })
	<-there // it has connected
	for range 100 {
		notifier.Notify()
	}
	<-here
	<-there
	cancel()
	both.Wait()
}
