// Package history notices that a database went back in time: that it is another one than the process has seen commit, because a standby
// without the last commits was promoted, or a backup was restored.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

// Every is the pause between two beats. A database that went back lost what came after the last beat that it still has.
const Every = time.Second

// alone is the time without any beat after which a process that starts takes the database for one that may have gone back: a copy of a data
// folder has the name of its history, and no process is left that knows a later count. A restart is quicker.
const alone = 30 * time.Second

// Loss describes a database that has lost its last commits, or may have.
type Loss struct {
	Since time.Time // of the last beat that the database has
	// Suspected reports a possible loss: by this database no process was up before. It may be an older copy of one that a process used
	// until a moment ago.
	Suspected bool
}

// Config configures a Keeper. The tables histories and beats, and the function current_history(), are part of the service's schema.
type Config struct {
	DB  postgres.DB
	Now func() time.Time
	Log *slog.Logger
	// Back is called in the transaction that notes a new history, a lost count or that nobody was up, once for each.
	Back func(ctx context.Context, tx pgx.Tx, lost Loss) error
	// Noted is called behind that transaction.
	Noted func()
}

// Keeper beats: it counts in the database, in a row for each process, and remembers the count. It is safe for concurrent use.
type Keeper struct {
	Config

	process uuid.UUID
	noticed metric.Int64Counter

	mu   sync.Mutex
	n    int64  // the furthest count that is known to be committed; 0 before the first beat
	name string // of the history that it was committed in
}

// New makes a Keeper of a process.
func New(cfg Config, meter metric.Meter) (*Keeper, error) {
	noticed, err := meter.Int64Counter("paceline_database_histories_total",
		metric.WithDescription("How often this process noted that its database has another history: a failover or a restore."))
	if err != nil {
		return nil, err
	}
	noticed.Add(context.Background(), 0)
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Keeper{Config: cfg, process: id, noticed: noticed}, nil
}

// ErrRestarts is a database that does not say which server and timeline it is of.
var ErrRestarts = errors.New("the service may not ask which server and timeline its database is of, so every restart counts as a " +
	"failover and stops sending for a minute; grant its owner execute on pg_control_system() before it is migrated first")

// Named returns ErrRestarts where a history is named by the server's start.
func Named(ctx context.Context, db postgres.DB) error {
	var restarts bool
	if err := db.QueryRow(ctx, `select current_history() like 'started/%'`).Scan(&restarts); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if restarts {
		return ErrRestarts
	}
	return nil
}

// Current returns the name of a database's history.
func Current(ctx context.Context, db postgres.DB) (name string, err error) {
	if err := db.QueryRow(ctx, `select current_history()`).Scan(&name); err != nil {
		return "", fmt.Errorf("history: %w", err)
	}
	return name, nil
}

// Point is the place of a database in its history.
type Point struct {
	// Last is the time of the last beat that the database has, as the process that made it had it. What was lost came after it.
	Last time.Time
	// Noted says that a process has noted the name of this history: it is no new one.
	Noted bool
	// Written is the time of the newest beat by the database's clock; zero without any. It moves while a process runs on the database.
	Written time.Time
}

const sqlPoint = `
select coalesce((` + sqlLast + `), (select max(noticed_at) from histories), @now),
	exists (select from histories where name = current_history()), (select max(written) from beats)`

// At returns the place of a database in its history.
func At(ctx context.Context, db postgres.DB, now time.Time) (p Point, err error) {
	var written *time.Time
	if err := db.QueryRow(ctx, sqlPoint, postgres.Args{"now": now}).Scan(&p.Last, &p.Noted, &written); err != nil {
		return Point{}, fmt.Errorf("history: %w", err)
	}
	if written != nil {
		p.Written = *written
	}
	if p.Last.After(now) {
		p.Last = now
	}
	return p, nil
}

// Last returns the process and the furthest count that it has seen committed. A database without that count went back. The count is 0
// before the first beat.
func (k *Keeper) Last() (beater uuid.UUID, n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process, k.n
}

// Loop beats. It rests on the machine's clock: what it watches happens by that clock.
func (k *Keeper) Loop() process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) { return false, k.Beat(ctx) },
		Failed: func(ctx context.Context, err error) {
			if !postgres.Outage(err) { // /readyz says so, and a line a second would say no more
				k.Log.WarnContext(ctx, "history.beat", "error", err)
			}
		},
		Rest: process.RestOnMachineClock, Every: Every,
	}
}

// sqlBeat counts, unless the database is another one than the last count was committed in.
const sqlBeat = `
update beats set n = n + 1, at = @now, written = default
where process = @process and n = @n and (select current_history()) = @name and exists (select from histories where name = @name)`

// Beat counts, and notes a new history.
func (k *Keeper) Beat(ctx context.Context) error {
	k.mu.Lock()
	n, name := k.n, k.name
	k.mu.Unlock()
	if n > 0 {
		tag, err := k.DB.Exec(ctx, sqlBeat, postgres.Args{"process": k.process, "n": n, "name": name, "now": k.Now()})
		if err != nil {
			return fmt.Errorf("history: beat: %w", err)
		}
		if tag.RowsAffected() == 1 {
			k.remember(n+1, name)
			return nil
		}
	}
	return k.begin(ctx, n, name)
}

func (k *Keeper) remember(n int64, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n, k.name = n, name
}

// found holds what the database says of itself.
type found struct {
	Name  string    // of its history
	Known bool      // that history was noted
	Any   bool      // any history was
	N     int64     // the count of this process; 0 without a row
	Last  time.Time // the last beat of any process
	Own   time.Time // the last beat of this one; without one, since when the history had lost something
	Alone bool      // there are beats, and the newest one is old
}

// wentBack decides whether the database is behind what a process saw committed last, or may be behind what others saw. A new name says that
// a standby was promoted or a backup restored: what was lost only the others' record can tell. Else only the count tells, also where
// another process has noted the name: this one may have gone on at the old server. A count that is one ahead was committed, and its answer
// was lost.
func (f found) wentBack(n int64) bool { return f.Any && !f.Known || f.N < n }

// suspected decides whether the database may be a copy of earlier: only a process that remembers no count cannot tell.
func (f found) suspected(n int64) bool { return n == 0 && f.Alone && !f.wentBack(n) }

// since returns the time of the last commit that is known to be there. What a process alone has seen is lost since its own last beat.
func (f found) since(n int64, now time.Time) time.Time {
	since := f.Last
	if f.N < n && f.Own.Before(since) {
		since = f.Own
	}
	if since.After(now) {
		since = now
	}
	return since
}

// sqlLock lets one process at a time look and note.
const sqlLock = `select pg_advisory_xact_lock(7223372036854776)`

// sqlLast is the earliest of the last beats of the processes that were alive: the clock of one may be ahead.
const sqlLast = `select min(at) from beats where written > (select max(written) from beats) - interval '5 seconds'`

const sqlFound = `
select current_history(), exists (select from histories where name = current_history()), exists (select from histories),
	coalesce((select n from beats where process = @process), 0),
	coalesce((` + sqlLast + `), (select max(noticed_at) from histories), @now),
	coalesce((select at from beats where process = @process), (select since from histories where name = current_history()), @now),
	coalesce((select max(written) < clock_timestamp() - make_interval(secs => @alone) from beats), false)`

const sqlNote = `insert into histories (name, since, noticed_at) values (@name, @since, @now) on conflict (name) do nothing`

const sqlFirstBeat = `
insert into beats (process, n, at) values (@process, @n, @now)
on conflict (process) do update set n = excluded.n, at = excluded.at, written = default`

// sqlForget forgets processes that are gone.
const sqlForget = `delete from beats where written < (select max(written) from beats) - interval '30 days'`

// begin makes the first beat of a process, or of a history.
func (k *Keeper) begin(ctx context.Context, n int64, name string) error {
	var f found
	var lost Loss
	var back bool
	now := k.Now()
	err := postgres.InTx(ctx, k.DB, func(tx pgx.Tx) error {
		args := postgres.Args{"process": k.process, "now": now, "alone": alone.Seconds()}
		if _, err := tx.Exec(ctx, sqlLock); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, sqlFound, args).Scan(&f.Name, &f.Known, &f.Any, &f.N, &f.Last, &f.Own, &f.Alone); err != nil {
			return err
		}
		back, lost = f.wentBack(n), Loss{Since: f.since(n, now), Suspected: f.suspected(n)}
		args["name"], args["since"], args["n"] = f.Name, lost.Since, max(n, f.N)+1
		if !f.Known {
			if _, err := tx.Exec(ctx, sqlNote, args); err != nil {
				return err
			}
		}
		if back || lost.Suspected {
			if err := k.Back(ctx, tx, lost); err != nil {
				return err
			}
		}
		_, beatErr := tx.Exec(ctx, sqlFirstBeat, args)
		_, forgetErr := tx.Exec(ctx, sqlForget, args)
		return errors.Join(beatErr, forgetErr)
	})
	if err != nil {
		return fmt.Errorf("history: begin: %w", err)
	}
	k.remember(max(n, f.N)+1, f.Name)
	switch {
	case back:
		k.noticed.Add(ctx, 1)
		k.Log.ErrorContext(ctx, "history.database_went_back", "history", f.Name, "before", name, "last_beat", lost.Since)
		k.Noted()
	case lost.Suspected:
		k.Log.InfoContext(ctx, "history.nobody_was_up", "last_beat", lost.Since)
		k.Noted()
	}
	return nil
}
