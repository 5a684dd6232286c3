package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
)

// BenchmarkRun measures a run for many people, and in turn how late the steps of others are without it and from its beginning on.
func BenchmarkRun(b *testing.B) {
	s := newServer(b, false)
	n := numbers(b, *bursts)[0]
	s.seed(b, works["Steps"], n+warmBursts)
	s.crowd(b, *people)
	for b.Loop() {
		alone := s.pace(b, apart(), n, *over, nil)
		run := &crowdRun{}
		during := s.pace(b, apart(), n, *over, run)
		b.ReportMetric(run.filled.Seconds()*1000, "all-found-ms")
		b.ReportMetric(run.begun.Seconds()*1000, "first-text-ms")
		b.ReportMetric(run.paused.Seconds()*1000, "paused-ms")
		b.ReportMetric(float64(run.started), "started")
		b.ReportMetric(quantile(alone.late, 0.5), "alone-late-p50-ms")
		b.ReportMetric(quantile(alone.late, 0.99), "alone-late-p99-ms")
		b.ReportMetric(quantile(during.late, 0.5), "during-late-p50-ms")
		b.ReportMetric(quantile(during.late, 0.99), "during-late-p99-ms")
		b.ReportMetric(0, "ns/op") // a round is no operation
	}
}

// sqlCrowd has people of whom nobody has a session, and a flow of one text.
const sqlCrowd = `
insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
select gen_random_uuid(), '` + stack.OrgID + `', '+1212' || (2000000 + n), 'Ana', 'en', 'America/New_York', now(), now()
from generate_series(1, $n) n;
insert into flow_versions (org_id, flow, version, files, keywords, published_at)
values ('` + stack.OrgID + `', 'news', '0123456789abcdef', jsonb_build_object(
	'flow.yaml', E'flow: news\nlanguages: [en]\nstart: hello\nsteps:\n  hello: {send: HELLO, then: done}\n  done: {end: told}\n',
	'en.yaml', E'texts:\n  HELLO: We open at nine.\n'), '{}', now());
insert into flow_publications (org_id, flow, number, version, published_at) values ('` + stack.OrgID + `', 'news', 1, '0123456789abcdef', now());`

// crowd seeds people for a run.
func (s *server) crowd(tb testing.TB, n int) {
	tb.Helper()
	s.exec(tb, stack.Onboarding+"_seeded", fill(sqlCrowd, n, 0), "vacuum analyze profiles")
	*people = n
}

// crowdRun is a run for everybody of the crowd.
type crowdRun struct {
	filled, begun time.Duration // until everybody was found, and until the first was started
	paused        time.Duration // how long it still started people after its pause
	started       int
	watch         errgroup.Group
}

const (
	runID = "'01900000-0000-7000-8000-0000000000aa'"

	sqlBegin = `
insert into flow_runs (id, org_id, flow, flow_version, status, filter, filtering, request_hash, created_at, updated_at)
values (` + runID + `, '` + stack.OrgID + `', 'news', '0123456789abcdef', 'running', 'person.locale == "en"', true, '', now(), now());
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
values (gen_random_uuid(), '` + stack.OrgID + `', 'run:' || ` + runID + ` || ':1', 'internal', 'run.work', 'run:' || ` + runID + `,
	jsonb_build_object('org_id', '` + stack.OrgID + `', 'run_id', ` + runID + `, 'wakes', 1), 'pending', now(), now(), now());
select pg_notify('webhook_jobs', '')`
	sqlFar = `select not filtering, people::int, (select count(*)::int from conversation_sessions where flow = 'news')
from flow_runs where id = ` + runID
	sqlPauseRun  = `update flow_runs set status = 'paused', updated_at = now() where status = 'running' and id = ` + runID
	sqlLastBegun = `select coalesce(max(created_at), now()), count(*)::int from conversation_sessions where flow = 'news'`
)

// begin makes the run, and watches it.
func (r *crowdRun) begin(tb testing.TB, s *server, database string) {
	tb.Helper()
	began := now()
	s.exec(tb, database, sqlBegin)
	r.watch.Go(func() error { return r.starts(tb.Context(), s.private.URL(database, "postgres"), began) })
}

// starts waits until the run has found everybody and started the first person.
func (r *crowdRun) starts(ctx context.Context, url string, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }() // it has read
	for {
		var filled bool
		var found, started int
		if err := conn.QueryRow(ctx, sqlFar).Scan(&filled, &found, &started); err != nil {
			return err
		}
		if filled && r.filled == 0 {
			// Those of the bursts have sessions, and are left out when their turn comes.
			if r.filled = now().Sub(began); found < *people {
				return fmt.Errorf("everybody is found once, and not %d", found)
			}
		}
		if started > 0 && r.begun == 0 {
			r.begun = now().Sub(began)
		}
		if filled && started > 0 {
			return nil
		}
		process.RestOnMachineClock(ctx, 50*time.Millisecond, nil)
	}
}

// pause pauses the run, and finds out when the last person was started.
func (r *crowdRun) pause(tb testing.TB, s *server, database string) {
	tb.Helper()
	require.NoError(tb, r.watch.Wait())
	at := now()
	s.exec(tb, database, sqlPauseRun)
	process.RestOnMachineClock(tb.Context(), 3*time.Second, nil)
	var last time.Time
	var later int
	s.row(tb, database, sqlLastBegun, &last, &r.started)
	r.paused = max(last.Sub(at), 0)
	process.RestOnMachineClock(tb.Context(), 2*time.Second, nil)
	s.row(tb, database, sqlLastBegun, &last, &later)
	require.Equal(tb, r.started, later, "it goes on in its pause")
}
