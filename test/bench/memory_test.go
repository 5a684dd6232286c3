package bench

import (
	"context"
	"testing"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
)

// BenchmarkMemory measures the resident memory of the services, in MB, as three processes and as one, while many conversations wait in their
// burst and steps of others are due at a constant rate. "ready" is the baseline: a process that has just started.
func BenchmarkMemory(b *testing.B) {
	s := newServer(b, false)
	s.seed(b, works["Steps"], int(lasts.Seconds()*float64(*rate)))
	for name, w := range map[string]wiring{"Apart": apart(), "Together": {processes: []string{together}, alarms: "qstash"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for unit, value := range s.memory(b, w, *waiting, *rate, *lasts) {
					b.ReportMetric(value, unit)
				}
				b.ReportMetric(0, "ns/op") // a round is no operation
			}
		})
	}
}

// sqlWaiting stores conversations with a next step that is due in an hour.
const sqlWaiting = `
insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
select gen_random_uuid(), '` + stack.OrgID + `', '+1530' || (1000000 + n), 'Ana', 'en', 'America/New_York', at, at
from generate_series(1, $n) n, now() at;
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, next_step_id, status, copy_version, created_at, updated_at)
select gen_random_uuid(), org_id, id, 'onboarding', 'onboarding:awaiting_burst', 'onboarding_message_2', 'active', '2026-11', at, at
from profiles, now() at where phone like '+1530%';
insert into step_alarms (id, due_at, org_id, lease_until, session_id, published_at, profile_id, created_at, step_id,
	expected_state_token, generation, qstash_message_id)
select gen_random_uuid(), at + interval '1 hour', org_id, at, id, at, profile_id, at, next_step_id, state_token, 1, 'msg_waits'
from conversation_sessions, now() at where id not in (` + sqlSeeded + `);`

// memoryCallers bounds the number of callbacks in flight: more than the rate needs.
const memoryCallers = 256

// memory returns figures by their units. It fails unless each due step was done exactly once.
func (s *server) memory(tb testing.TB, w wiring, waiting, rate int, lasts time.Duration) map[string]float64 {
	tb.Helper()
	work, n := works["Steps"], int(lasts.Seconds()*float64(rate))
	databases, drop := s.clone(tb, w)
	defer drop()
	s.exec(tb, databases[stack.Onboarding], fill(sqlWaiting, waiting, 0), "vacuum analyze")
	p := s.open(tb, databases, memoryCallers, w)
	defer p.close()
	s.stubs.asked.Store(0)
	memory := map[string]float64{}
	for _, service := range w.processes {
		memory[service+"-ready-MB"] = memoryOf(tb, p.pids[service], "VmRSS")
	}
	all := work.requests(tb, s, p, databases, n)
	began := now()
	for i, do := range all {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		all[i] = func(ctx context.Context) error {
			process.RestOnMachineClock(ctx, due.Sub(now()), nil) // a cancelled one fails at once
			return do(ctx)
		}
	}
	call(tb, all, memoryCallers)
	memory["steps/s"] = float64(n) / now().Sub(began).Seconds()
	s.await(tb, work, databases, n)
	for _, service := range w.processes {
		memory[service+"-peak-MB"] = memoryOf(tb, p.pids[service], "VmHWM")
		memory["all-peak-MB"] += memory[service+"-peak-MB"]
	}
	return memory
}
