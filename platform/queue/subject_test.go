package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
)

// gate, once in the database, holds back the claim of the job with the key slow for as long as a transaction has the advisory lock 42.
const gate = `
create function wait_at_gate() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(42); return new; end $$;
create trigger gate before update on jobs for each row
when (new.status = 'processing' and old.status = 'pending' and new.idempotency_key = 'slow') execute function wait_at_gate()`

// yielding has every claim give back what it found.
type yielding struct{ *queue.Queue }

func (yielding) Claim(context.Context, queue.Claim) (queue.Claimed, error) {
	return queue.Claimed{More: true}, nil
}

// TestSubjects is about jobs of one subject that are stored out of the order of their ids: by another machine with a slow clock, or by
// a transaction that took long.
func TestSubjects(t *testing.T) {
	t.Parallel()

	for name, claimOld := range map[string]func(*bundle, string) []queue.Job{
		"AsDue":   func(b *bundle, _ string) []queue.Job { return b.claim(9).Jobs },
		"ByItsID": func(b *bundle, id string) []queue.Job { return b.claimOne(id) },
	} {
		t.Run("S2_15_OlderOneThatIsStoredWhileANewerOneIsBeingClaimedDoesNotOverlapIt/"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, err := b.pool.Exec(t.Context(), gate)
			require.NoError(t, err)
			older, newer := b.job("a"), b.job("a")
			newer.Key = "slow"
			newer.DueAt = newer.DueAt.Add(-time.Minute)
			other := b.job("b")
			b.add(newer, other)
			keeper, err := b.pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = keeper.Exec(t.Context(), `select pg_advisory_xact_lock(42)`)
			require.NoError(t, err)
			second := make(chan queue.Claimed, 1)
			go func() { second <- b.claim(9) }()
			require.Eventually(t, func() bool {
				var waiting bool
				err := b.pool.QueryRow(t.Context(), `select exists (select 1 from pg_locks where locktype = 'advisory' and not granted
					and database = (select oid from pg_database where datname = current_database()))`).Scan(&waiting)
				return err == nil && waiting
			}, 20*time.Second, time.Millisecond)
			b.add(older)
			require.Equal(t, []string{older.ID}, ids(claimOld(b, older.ID)))
			require.NoError(t, keeper.Rollback(t.Context()))
			late := <-second
			require.Equal(t, []string{other.ID}, ids(late.Jobs), "both of the subject would run at once")
			require.True(t, late.More, "it is worth looking again")
			r := b.row(newer.ID)
			require.Equal(t, []any{queue.StatusPending, 0}, []any{r.Status, r.Attempts})
			require.True(t, newer.DueAt.Equal(*r.DueAt), "it keeps its place")
		})
	}

	t.Run("EndsOfSeveralSubjectsMakeTheNextOfEachDue", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		later := func(subject string) queue.New {
			j := b.job(subject)
			j.DueAt = j.DueAt.Add(time.Minute)
			return j
		}
		first := b.add(b.job("a"), b.job("b"), b.job("c"))
		next := b.add(later("a"), later("b"))
		done := b.claim(9).Jobs
		require.Equal(t, first, ids(done))
		for _, j := range done {
			_, err := b.queue.Finish(t.Context(), []queue.Finish{{Job: j, Status: queue.StatusCompleted, At: b.clock.Now()}})
			require.NoError(t, err)
		}
		waiting, err := b.queue.Expedite(t.Context(), done, b.clock.Now())
		require.NoError(t, err)
		require.True(t, waiting)
		require.Equal(t, next, ids(b.claim(9).Jobs))
	})

	t.Run("RequestThatGaveItsJobBackWakesTheLoopForIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.change = func(c *queue.Config) { c.Store = yielding{b.queue} }
		require.NoError(t, b.runner().Try(t.Context(), b.enqueue("a"), func(context.Context, queue.Job) error { return errWork }))
		require.Len(t, b.wake, 1)
	})

	t.Run("S2_15_NoTwoOfASubjectAreHeldAtOnceByManyClaimers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const claimers, subjects, each = 6, 2, 40
		jobs := make([]queue.New, claimers*each)
		for i := range jobs {
			jobs[i] = b.job(fmt.Sprint(i % subjects))
		}
		rand.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		var mu sync.Mutex
		held, done, overlaps := map[string]string{}, 0, []string(nil)
		begin := func(j queue.Job) {
			mu.Lock()
			defer mu.Unlock()
			if other := held[j.Subject]; other != "" {
				overlaps = append(overlaps, other+" and "+j.ID)
			}
			held[j.Subject] = j.ID
		}
		end := func(j queue.Job) {
			mu.Lock()
			defer mu.Unlock()
			held[j.Subject] = ""
			done++
		}
		var failures []error
		finish := func(j queue.Job) {
			_, err := b.queue.Finish(t.Context(), []queue.Finish{{Job: j, Status: queue.StatusCompleted, At: b.clock.Now()}})
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		}
		left := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return done < len(jobs)
		}
		work := func(j queue.Job) {
			begin(j)
			b.row(j.ID) // it takes a while
			end(j)
			finish(j)
		}
		intake := queue.NewIntake(b.queue)
		store := func(n queue.New) { // every second one is claimed as it is stored, if its subject is free
			if n.ID[len(n.ID)-1]%2 == 0 {
				n.Until = n.At.Add(lease)
			}
			stored, err := intake.Enqueue(postgres.AcrossOrganisations(t.Context()), n)
			if stored.Claimed != nil {
				work(*stored.Claimed)
			}
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		}
		var all sync.WaitGroup
		for i := range claimers {
			all.Go(func() {
				mine := jobs[i*each : (i+1)*each]
				for left() && t.Context().Err() == nil {
					if len(mine) > 0 {
						store(mine[0])
						mine = mine[1:]
					}
					for _, j := range b.claim(1).Jobs {
						work(j)
					}
				}
			})
		}
		all.Wait()
		require.NoError(t, errors.Join(failures...))
		require.Empty(t, overlaps)
	})
}
