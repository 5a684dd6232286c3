package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// The tables that a step on River needs: what its documentation asks of a program that wants at most one text to a step.
const sqlRiverSteps = `
create table session (id integer primary key, token text not null, step integer not null, phone text not null,
    updated_at timestamptz not null);
create table message (id uuid primary key default gen_random_uuid(), key text not null unique, body text not null, status text not null,
    sid text unique, updated_at timestamptz not null);
insert into session select n, 'awaiting_burst', 1, '+1415' || (2000000 + n), now() from generate_series(1, $1) n`

const (
	sqlRiverLoad  = `select token, phone from session where id = $1 and step = $2`
	sqlRiverClaim = `
insert into message (key, body, status, updated_at) values ($1, $2, 'sending', now()) on conflict (key) do nothing returning id`
	sqlRiverSettle = `update message set status = 'queued', sid = $2, updated_at = now() where key = $1 and sid is null`
	sqlRiverMove   = `update session set step = step + 1, updated_at = now() where id = $1 and step = $2`
)

// riverStep is one step of a burst, as a job.
type riverStep struct {
	Session int `json:"session"`
	Step    int `json:"step"`
}

// Kind implements river's JobArgs.
func (riverStep) Kind() string { return "step" }

// riverSteps does steps on River, tuned as its documentation says: the job is the alarm, the next one is inserted, and this one completed,
// in the transaction that moves the session. It runs in this process, without a gateway, signatures or services of their own, so it has
// less to do than a step of the product.
func (s *server) riverSteps(ctx context.Context, stubs *stubs, callers, steps int, now func() time.Time) (rate float64, err error) {
	const name = "river_steps"
	if err := s.exec(ctx, "create database "+name); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.exec(ctx, "drop database "+name+" with (force)")) }()
	cfg, err := pgxpool.ParseConfig(s.urlOf(name, "postgres"))
	if err != nil {
		return 0, err
	}
	cfg.MaxConns = pgbenchClients
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := riverSchema().migrate(ctx, pool); err != nil {
		return 0, err
	}
	for statement := range strings.SplitSeq(strings.ReplaceAll(sqlRiverSteps, "$1", strconv.Itoa(steps)), ";\n") {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return 0, err
		}
	}
	stubs.reset()
	w := &riverWorker{pool: pool, twilio: stubs.twilio, now: now, left: make(chan struct{}), client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers},
	}}
	w.todo.Store(int64(steps))
	workers := riverqueue.NewWorkers()
	if err := riverqueue.AddWorkerSafely(workers, riverqueue.WorkFunc(w.work)); err != nil {
		return 0, err
	}
	client, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers, FetchCooldown: riverCooldown,
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: callers}},
	})
	if err != nil {
		return 0, err
	}
	jobs := make([]riverqueue.InsertManyParams, steps)
	for i := range jobs {
		jobs[i].Args = riverStep{Session: i + 1, Step: 1}
	}
	if _, err := client.InsertManyFast(ctx, jobs); err != nil {
		return 0, err
	}
	began := now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Stop(context.WithoutCancel(ctx))) }()
	select {
	case <-w.left:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	elapsed := now().Sub(began)
	var moved, accepted int
	const sql = `select (select count(*) from session where step = 2), (select count(sid) from message)`
	if err := pool.QueryRow(ctx, sql).Scan(&moved, &accepted); err != nil {
		return 0, err
	}
	if taken := int(stubs.taken.Load()); moved != steps || accepted != steps || taken != steps {
		return 0, fmt.Errorf("river: of %d steps %d moved, %d have a SID, and Twilio took %d", steps, moved, accepted, taken)
	}
	return float64(steps) / elapsed.Seconds(), nil
}

// riverWorker does steps.
type riverWorker struct {
	pool   *pgxpool.Pool
	twilio string
	now    func() time.Time
	client *http.Client
	todo   atomic.Int64
	left   chan struct{} // closed when none is
}

func (w *riverWorker) work(ctx context.Context, j *riverqueue.Job[riverStep]) error {
	var token, phone string
	if err := w.pool.QueryRow(ctx, sqlRiverLoad, j.Args.Session, j.Args.Step).Scan(&token, &phone); err != nil {
		return err
	}
	key, body := fmt.Sprintf("%d:%d", j.Args.Session, j.Args.Step), strings.Repeat("x", 120)
	tag, err := w.pool.Exec(ctx, sqlRiverClaim, key, body)
	if err != nil || tag.RowsAffected() == 0 {
		return errors.Join(err, errors.New("the key is taken"))
	}
	sid, err := w.send(ctx, phone, body)
	if err != nil {
		return err
	}
	if _, err := w.pool.Exec(ctx, sqlRiverSettle, key, sid); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRiverMove, j.Args.Session, j.Args.Step); err != nil {
			return err
		}
		client := riverqueue.ClientFromContext[pgx.Tx](ctx)
		if _, err := client.InsertTx(ctx, tx, riverStep{Session: j.Args.Session, Step: j.Args.Step + 1}, &riverqueue.InsertOpts{
			ScheduledAt: w.now().Add(time.Hour), // no second step is measured
		}); err != nil {
			return err
		}
		_, err := riverqueue.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j)
		return err
	})
	if err == nil && w.todo.Add(-1) == 0 {
		close(w.left)
	}
	return err
}

// send asks the stub of Twilio.
func (w *riverWorker) send(ctx context.Context, phone, body string) (sid string, err error) {
	form := url.Values{"To": {phone}, "Body": {body}, "From": {"+14155550100"}}
	target := w.twilio + "/2010-04-01/Accounts/AC0/Messages.json"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<12))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(said), `"sid":"`)
	sid, _, ended := strings.Cut(rest, `"`)
	if !found || !ended {
		return "", fmt.Errorf("twilio answered %d", response.StatusCode)
	}
	return sid, nil
}
