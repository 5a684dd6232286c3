package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/qstash"
)

// What lets $2 steps of the organisation $1 become due, in the tables of the services as they are called since the first release. A
// quarter of them is at each step of the flow.
const (
	sqlSeedSessions = `
with people as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    select gen_random_uuid(), $1::uuid, '+1415' || (2000000 + n), 'Ana', 'en', 'America/New_York', now(), now()
    from generate_series(1, $2::integer) n
    returning id, phone
)
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, next_step_id, status, copy_version, created_at, updated_at)
select gen_random_uuid(), $1::uuid, id, 'onboarding', 'onboarding:awaiting_burst',
       'onboarding_message_' || right(phone, 7)::integer % 4 + 1, 'active', '2026-11', now(), now()
from people`
	sqlSeedAlarms = `
insert into step_alarms (id, due_at, org_id, lease_until, session_id, published_at, profile_id, created_at, step_id, expected_state_token,
    generation, qstash_message_id)
select gen_random_uuid(), at, org_id, at, id, at, profile_id, at, next_step_id, state_token, 1, 'msg_seeded'
from conversation_sessions, now() at`
	sqlSeedConsents = `
insert into consents (org_id, phone, state, updated_at)
select $1::uuid, '+1415' || (2000000 + n), 'opted_in', now() from generate_series(1, $2::integer) n`
	sqlSeedConsentEvents = `
insert into consent_events (org_id, phone, at, state, source, words, sender)
select org_id, phone, now(), 'opted_in', 'first_send', 'seeded for a measurement', $1 from consents`
	sqlDueSteps = `
select s.profile_id::text as profile, s.id::text as session, s.next_step_id as step
from conversation_sessions s where s.next_step_id is not null and s.id in (` + sqlSeeded + `) order by s.id limit $1`
	sqlSeeded = `select session_id from step_alarms where qstash_message_id = 'msg_seeded'`
	// sqlDueNow and sqlRangNow have the steps due when a measurement begins, and not when their template was made: the sweeper would set
	// their alarms again.
	sqlDueNow   = `update conversation_sessions set step_due_at = now() where id in (` + sqlSeeded + `)`
	sqlRangNow  = `update step_alarms set due_at = now(), published_at = now() where qstash_message_id = 'msg_seeded'`
	sqlAccepted = `
select count(*), count(distinct idempotency_key), count(twilio_sid) from sms_messages where starts_with(idempotency_key, 'onboarding:')`
	sqlMoved = `
select count(*) from conversation_sessions s
where exists (select from step_alarms a where a.session_id = s.id and a.generation = 1 and a.qstash_message_id = 'msg_seeded'
    and a.step_id is distinct from s.next_step_id)`
)

// seedSteps lets n steps become due in the database of a service.
func seedSteps(ctx context.Context, database, service string, n int) (err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	statements := []struct {
		sql  string
		args []any
	}{{sqlSeedSessions, []any{stack.OrgID, n}}, {sqlSeedAlarms, nil}}
	if service == stack.Messaging {
		statements[0].sql, statements[1].sql, statements[1].args = sqlSeedConsents, sqlSeedConsentEvents, []any{stack.FromNumber}
	}
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	_, err = conn.Exec(ctx, "vacuum analyze")
	return err
}

// callback is a delivery of QStash, signed.
type callback struct {
	body          []byte
	signature, id string
}

type dueStep struct{ Profile, Session, Step string }

// callbacks are the signed alarms of n due steps.
func callbacks(ctx context.Context, database, target string, n int, now time.Time) (_ []callback, err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows, _ := conn.Query(ctx, sqlDueSteps, n) // Collect returns the error that rows carry
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[dueStep])
	if err != nil {
		return nil, err
	}
	if len(due) < n {
		return nil, fmt.Errorf("%d steps of %d are due", len(due), n)
	}
	all := make([]callback, n)
	for i, step := range due {
		body, err := json.Marshal(map[string]string{
			"profile_id": step.Profile, "session_id": step.Session, "step_id": step.Step, "expected_state_token": "onboarding:awaiting_burst",
			"idempotency_key": "onboarding:" + step.Profile + ":" + step.Session + ":" + step.Step,
		})
		if err != nil {
			return nil, err
		}
		signature, err := qstash.Sign(qstash.PublishedCurrentKey, target, body, now)
		if err != nil {
			return nil, err
		}
		all[i] = callback{body: body, signature: signature, id: "msg_" + strconv.Itoa(i)}
	}
	return all, nil
}

// drive has work done, some to warm up and then what is measured, and checks that each piece was done once.
func (s Steps) drive(
	ctx context.Context, server *server, p *place, stubs *stubs, urls map[string]string, callers int, warmed func() error,
) (run StepsRun, err error) {
	warm, load := s.warm(callers), s.load()
	all, err := load.requests(ctx, p, urls, warm+s.Steps, s.Now())
	if err != nil {
		return StepsRun{}, err
	}
	stubs.reset()
	if _, err := s.call(ctx, all[:warm], callers); err != nil {
		return StepsRun{}, fmt.Errorf("before the measurement: %w; %s", err, p.complaints())
	}
	if err := load.done(ctx, urls, warm); err != nil {
		return StepsRun{}, fmt.Errorf("before the measurement: %w; %s", err, p.complaints())
	}
	if err := warmed(); err != nil {
		return StepsRun{}, err
	}
	before, err := server.used(ctx, p, urls)
	if err != nil {
		return StepsRun{}, err
	}
	began := s.Now()
	took, err := s.call(ctx, all[warm:], callers)
	if err != nil {
		return StepsRun{}, fmt.Errorf("%w; %s", err, p.complaints())
	}
	answered := s.Now().Sub(began)
	if err := load.done(ctx, urls, len(all)); err != nil {
		return StepsRun{}, fmt.Errorf("%w; %s", err, p.complaints())
	}
	elapsed := s.Now().Sub(began)
	after, err := server.used(ctx, p, urls)
	if err != nil {
		return StepsRun{}, err
	}
	if err := load.examine(ctx, urls, stubs, len(all)); err != nil {
		return StepsRun{}, err
	}
	use := after.less(before, float64(s.Steps))
	return StepsRun{
		Rate: float64(s.Steps) / elapsed.Seconds(), Answered: float64(s.Steps) / answered.Seconds(),
		P50MS: quantile(took, 0.5), P99MS: quantile(took, 0.99), StepUse: use,
	}, nil
}

// call makes requests, so many at once, and returns how long each took in milliseconds.
func (s Steps) call(ctx context.Context, all []request, callers int) ([]float64, error) {
	took := make([]float64, len(all))
	var next atomic.Int64
	err := together(callers, func(int) error {
		for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
			began := s.Now()
			if err := all[i](ctx); err != nil {
				next.Store(int64(len(all)))
				return err
			}
			took[i] = float64(s.Now().Sub(began).Microseconds()) / 1000
		}
		return nil
	})
	return took, err
}

// dueSteps are alarms of QStash.
type dueSteps struct{}

func (dueSteps) seed(ctx context.Context, database, service string, n int) error {
	return seedSteps(ctx, database, service, n)
}

func (dueSteps) requests(ctx context.Context, p *place, urls map[string]string, n int, now time.Time) ([]request, error) {
	target := p.origin + "/api/onboarding/step"
	signed, err := callbacks(ctx, urls["onboarding"], target, n, now)
	all := make([]request, len(signed))
	for i, c := range signed {
		all[i] = func(ctx context.Context) error { return p.deliver(ctx, target, c) }
	}
	return all, err
}

// done is at once: a step is done when it is answered.
func (dueSteps) done(context.Context, map[string]string, int) error { return nil }

func (dueSteps) examine(ctx context.Context, urls map[string]string, stubs *stubs, n int) error {
	return examineSteps(ctx, urls, stubs, n)
}

// deliver makes one delivery, whose message must have been sent.
func (p *place) deliver(ctx context.Context, target string, c callback) error {
	said, err := p.post(ctx, target, string(c.body), map[string]string{
		"Content-Type": "application/json", qstash.HeaderSignature: c.signature, qstash.HeaderMessageID: c.id, qstash.HeaderRetried: "0",
	}, http.StatusOK)
	if err == nil && !bytes.Contains(said, []byte(`"outcome":"sent"`)) {
		err = fmt.Errorf("a step was answered: %s", said)
	}
	return err
}

// examineSteps is an error unless n steps were done exactly once.
func examineSteps(ctx context.Context, urls map[string]string, stubs *stubs, n int) error {
	var rows, keys, sids, moved int
	if err := queryRow(ctx, urls["messaging"], sqlAccepted, &rows, &keys, &sids); err != nil {
		return err
	}
	if err := queryRow(ctx, urls["onboarding"], sqlMoved, &moved); err != nil {
		return err
	}
	taken := int(stubs.taken.Load())
	if rows != n || keys != n || sids != n || moved != n || taken != n {
		return fmt.Errorf("of %d steps %d are stored, under %d keys, %d with a SID, Twilio took %d, and %d sessions moved",
			n, rows, keys, sids, taken, moved)
	}
	return nil
}

func queryRow(ctx context.Context, database, sql string, into ...any) (err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return conn.QueryRow(ctx, sql).Scan(into...)
}
