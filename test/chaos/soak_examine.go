package chaos

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sqlRecordEnds writes down every time that a job becomes completed, whoever does it, so that a second time would show.
const sqlRecordEnds = `
create table soak_ends (job_id uuid not null);
create function soak_record() returns trigger language plpgsql security definer as $$
begin
    insert into public.soak_ends
    select n.id from new_rows n join old_rows o on o.id = n.id where n.status = 'completed' and o.status <> 'completed';
    return null;
end $$;
create trigger soak_record after update on webhook_jobs referencing old table as old_rows new table as new_rows
    for each statement execute function soak_record();`

// backlog watches how much is waiting.
type backlog struct {
	audit *pgxpool.Pool
	now   func() time.Time
	began time.Time
	seen  []BacklogSample
}

// BacklogSample is how much was waiting at an instant of the run.
type BacklogSample struct {
	AtMS    int64 `json:"at_ms"`
	Waiting int   `json:"waiting"` // stored, and not begun
	Running int   `json:"running"`
}

func newBacklog(audit *pgxpool.Pool, now func() time.Time) *backlog {
	return &backlog{audit: audit, now: now, began: now()}
}

// sqlBacklog reads the indexes of what is open, which stay small.
const sqlBacklog = `
select (select count(*) from webhook_jobs where status = 'pending'), (select count(*) from webhook_jobs where status = 'processing')`

const backlogEvery = time.Second

func (b *backlog) watch(ctx context.Context) {
	for pause(ctx, backlogEvery) {
		if one, err := b.look(ctx); err == nil { // while Postgres is away there is nothing to be seen
			b.seen = append(b.seen, one)
		}
	}
}

func (b *backlog) look(ctx context.Context) (one BacklogSample, err error) {
	err = b.audit.QueryRow(ctx, sqlBacklog).Scan(&one.Waiting, &one.Running)
	one.AtMS = b.now().Sub(b.began).Milliseconds()
	return one, err
}

// drained waits until nothing is open, and reports whether that came.
func (b *backlog) drained(ctx context.Context, s *site) bool {
	for {
		one, err := b.look(ctx)
		if err == nil && one.Waiting+one.Running == 0 {
			return true
		}
		if !pause(ctx, lookAgain) {
			s.log.WarnContext(ctx, "soak.not_drained", "waiting", one.Waiting, "running", one.Running)
			return false
		}
	}
}

const sqlSoakRows = `
select j.idempotency_key, j.status, (select count(*) from soak_ends e where e.job_id = j.id)
from webhook_jobs j where j.source = 'kapso'`

// examine compares what was accepted with what is in the table.
func (r *SoakReport) examine(ctx context.Context, audit *pgxpool.Pool, s *sender) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if _, err := audit.Exec(ctx, "create index on soak_ends (job_id); analyze soak_ends"); err != nil {
		return err
	}
	rows, err := audit.Query(ctx, sqlSoakRows)
	if err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	times := make([]uint8, s.events)
	var key, status string
	var ends int
	if _, err := pgx.ForEachRow(rows, []any{&key, &status, &ends}, func() error {
		r.Rows++
		n, posted := s.eventOf(key)
		if !posted {
			r.breakf("row %s: nobody posted that", key)
			return nil
		}
		times[n]++
		if status != "completed" || ends != 1 {
			r.NotDoneOnce++
			r.breakf("event %d is %s, and was completed %d times", n, status, ends)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	for n, count := range times {
		r.compare(n, int(count), s)
	}
	return nil
}

// eventOf is the number of the event whose row has this key, if it is one of ours.
func (s *sender) eventOf(key string) (n int, posted bool) {
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, '.')+1:])
	return n, err == nil && n >= 0 && n < s.events && key == "kapso.survey.response:"+s.eventID(n)
}

// compare judges one event: how many rows it has and what its sender was told.
func (r *SoakReport) compare(n, rows int, s *sender) {
	accepted, processed := s.accepted[n].Load(), s.processed[n].Load()
	if accepted > 0 {
		r.Accepted++
	}
	switch {
	case accepted > 0 && rows == 0:
		r.Lost++
		r.breakf("event %d was accepted %d times and is no row", n, accepted)
	case rows > 1:
		r.Doubled++
		r.breakf("event %d is %d rows", n, rows)
	case accepted == 0:
		r.NeverAccepted++
		r.breakf("event %d was never accepted", n)
	}
	if processed > 1 {
		r.Doubled++
		r.breakf("event %d was called new %d times", n, processed)
	}
}
