package chaos

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Intake counts the webhooks that were accepted, and those that were lost, doubled or not completed once.
type Intake struct {
	Accepted      int `json:"accepted"`       // events that were answered with a 2xx
	NeverAccepted int `json:"never_accepted"` // events that were never answered with a 2xx, however often they were repeated
	Rows          int `json:"rows"`
	Lost          int `json:"lost"`          // accepted, and no row
	Doubled       int `json:"doubled"`       // two rows, or called new twice
	NotDoneOnce   int `json:"not_done_once"` // rows that were not completed, or more than once
}

// sqlRecordEnds writes down every time that a job becomes completed, by any statement, so that a second time would show.
const sqlRecordEnds = `
create table soak_ends (job_id uuid not null);
create index on soak_ends (job_id);
create function soak_record() returns trigger language plpgsql security definer as $$
begin
    insert into public.soak_ends
    select n.id from new_rows n join old_rows o on o.id = n.id where n.status = 'completed' and o.status <> 'completed';
    return null;
end $$;
create trigger soak_record after update on webhook_jobs referencing old table as old_rows new table as new_rows
    for each statement execute function soak_record();`

const sqlWebhookRows = `
select j.idempotency_key, j.status, (select count(*) from soak_ends e where e.job_id = j.id)
from webhook_jobs j where j.source = 'kapso'`

// examine compares what was accepted with what is in the table, and with how often each row was completed.
func (s *sender) examine(ctx context.Context, v *Verdict) error {
	v.Intake = &Intake{}
	for answer, times := range s.refusals {
		v.breakf(nil, "%d times the answer was: %s", times, answer)
	}
	times := make([]uint8, s.events)
	var key, status string
	var ends, strangers int
	err := each(ctx, s.c.onboardingDB, sqlWebhookRows, []any{&key, &status, &ends}, func() {
		v.Rows++
		n, posted := s.eventOf(key)
		if !posted {
			v.breakf(&strangers, "row %s: no event of Kapso's has this key", key)
			return
		}
		times[n]++
		if status != "completed" || ends != 1 {
			v.breakf(&v.NotDoneOnce, "event %d is %s, and was completed %d times", n, status, ends)
		}
	})
	if err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	for n, count := range times {
		s.compare(n, int(count), v)
	}
	return nil
}

// eventOf returns the number of the event that made the row with this key, if we posted it.
func (s *sender) eventOf(key string) (n int, posted bool) {
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, '.')+1:])
	return n, err == nil && n >= 0 && n < s.events && key == "kapso.survey.response:"+s.eventID(n)
}

// compare judges one event: how many rows it has and what its sender was told.
func (s *sender) compare(n, rows int, v *Verdict) {
	accepted, processed := s.accepted[n].Load(), s.processed[n].Load()
	if accepted > 0 {
		v.Accepted++
	}
	switch {
	case accepted > 0 && rows == 0:
		v.breakf(&v.Lost, "event %d was accepted %d times and is no row", n, accepted)
	case rows > 1:
		v.breakf(&v.Doubled, "event %d is %d rows", n, rows)
	case accepted == 0:
		v.breakf(&v.NeverAccepted, "event %d was never accepted", n)
	}
	if processed > 1 {
		v.breakf(&v.Doubled, "event %d was called new %d times", n, processed)
	}
}
