package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func riverSchema() schema {
	return schema{
		table: "river_job", open: "finalized_at is null",
		migrate: func(ctx context.Context, pool *pgxpool.Pool) error {
			migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
			if err != nil {
				return err
			}
			_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
			return err
		},
		sqlFill: `
insert into river_job (state, attempt, attempted_at, max_attempts, finalized_at, args, kind)
select 'completed', 1, now(), 25, now(), $2::text::jsonb, 'work' from generate_series(1, $1::integer)`,
	}
}

// riverVersion is the release that this program was built with.
func riverVersion() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range build.Deps {
		if module.Path == "github.com/riverqueue/river" {
			return module.Version
		}
	}
	return "unknown" // a test's program does not say
}

// riverTask is the same task, as river wants it.
type riverTask struct{ task }

// Kind implements river's JobArgs.
func (riverTask) Kind() string { return "work" }

const (
	// riverWorkers and riverCooldown are its tuned form: its throughput is bounded by so many jobs to a fetch and one fetch to a
	// cooldown, by default 100 ms. More workers gained nothing.
	riverWorkers  = 1000
	riverCooldown = time.Millisecond
)

func openRiver(pool *pgxpool.Pool) (*contender, error) {
	// The inserting client notifies once to a cooldown of its own.
	client, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{
		Logger: slog.New(slog.DiscardHandler), FetchCooldown: riverCooldown,
	})
	if err != nil {
		return nil, err
	}
	return &contender{
		pool: pool,
		storeMany: func(ctx context.Context, first, n int) error {
			jobs := make([]riverqueue.InsertManyParams, n)
			for i := range jobs {
				jobs[i].Args = riverTask{task{N: first + i, Text: text}}
			}
			stored, err := client.InsertManyFast(ctx, jobs)
			if err == nil && stored != n {
				err = fmt.Errorf("%d jobs were to be stored, and %d were", n, stored)
			}
			return err
		},
		storeOne: func(ctx context.Context, n int) error {
			_, err := client.Insert(ctx, riverTask{task{N: n, Text: text}}, nil)
			return err
		},
		start: func(ctx context.Context, done func(n int)) (func() error, error) { return startRiver(ctx, pool, done) },
		busy: busyBy(pool, `
select exists (select from river_job where state = 'running') or exists (select from river_job where state = 'available')
    or exists (select from river_job where state = 'retryable')`),
		sqlCount: `select count(*) filter (where state = 'completed'), count(*) filter (where state <> 'completed') from river_job`,
	}, nil
}

func startRiver(ctx context.Context, pool *pgxpool.Pool, done func(n int)) (stop func() error, err error) {
	workers := riverqueue.NewWorkers()
	if err := riverqueue.AddWorkerSafely(workers, riverqueue.WorkFunc(func(_ context.Context, j *riverqueue.Job[riverTask]) error {
		done(j.Args.N)
		return nil
	})); err != nil {
		return nil, err
	}
	client, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers, FetchCooldown: riverCooldown,
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverWorkers}},
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return client.Stop(context.WithoutCancel(ctx)) }, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
