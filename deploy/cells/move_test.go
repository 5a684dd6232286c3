package cells_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/cells"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/onboarding"
)

// noon is the time at which every test begins.
var noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// bundle has two cells without services.
type bundle struct {
	t              *testing.T
	source, target map[string]string
	org, other     uuid.UUID
	steps          []string
	after          func(step string) // may be nil
}

// setup makes two servers with the databases of a cell each; the first one has two organisations.
func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, org: uuid.New(), other: uuid.New()}
	var both sync.WaitGroup
	both.Go(func() { b.source = cell(t) })
	both.Go(func() { b.target = cell(t) })
	both.Wait()
	require.False(t, t.Failed())
	for _, org := range []uuid.UUID{b.org, b.other} {
		b.furnish(org)
	}
	return b
}

// cell starts a server and returns the environment of a deployment on it.
func cell(t *testing.T) map[string]string {
	t.Helper()
	server, err := embeddedpg.Start(t.Context(), embeddedpg.Config{Throwaway: true})
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	keyset, err := senders.NextKeyset("")
	environ := map[string]string{
		"SENDER_KEYSET": keyset, "PSEUDONYM_KEY": "the same in both", "DEFAULT_ORG_ID": uuid.NewString(), "ADMIN": server.URL("postgres", "postgres"),
		"MESSAGING_ADMIN": server.URL("messaging", "postgres"),
	}
	for service, m := range map[string]postgres.Migrations{"ONBOARDING": onboarding.Migrations(), "MESSAGING": messaging.Migrations()} {
		if err == nil {
			err = server.EnsureService(t.Context(), m.Service)
		}
		environ[service+"_DATABASE_URL"] = server.URL(m.Service, embeddedpg.Serving(m.Service))
		environ[service+"_DATABASE_MIGRATE_URL"] = server.URL(m.Service, m.Service)
		if err == nil {
			err = m.Up(t.Context(), environ[service+"_DATABASE_MIGRATE_URL"])
		}
	}
	if err != nil {
		t.Error(err)
	}
	return environ
}

// exec runs a statement in a database.
func (b *bundle) exec(url, sql string, args pgx.NamedArgs) {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), url)
	require.NoError(b.t, err)
	_, err = conn.Exec(b.t.Context(), sql, args)
	require.NoError(b.t, err)
	require.NoError(b.t, conn.Close(b.t.Context()))
}

// one reads a number.
func (b *bundle) one(url, sql string, args ...any) (n int64) {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), url)
	require.NoError(b.t, err)
	require.NoError(b.t, conn.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	require.NoError(b.t, conn.Close(b.t.Context()))
	return n
}

// mayAct allows the target's logins to write as a replica.
func (b *bundle) mayAct() {
	b.t.Helper()
	b.exec(b.target["ADMIN"], "grant set on parameter session_replication_role to onboarding, messaging", nil)
}

// furnish makes an organisation with a person, a conversation and what was said in it.
func (b *bundle) furnish(org uuid.UUID) {
	b.t.Helper()
	args := pgx.NamedArgs{"org": org, "person": uuid.New(), "session": uuid.New(), "message": uuid.New(), "at": noon, "sid": "SM" + org.String()}
	b.exec(b.source["ONBOARDING_DATABASE_MIGRATE_URL"], `
with o as (insert into organisations (org_id, name, status, wanted, changed_at, created_at) values (@org, 'Acme', 'active', 'active', @at, @at)),
p as (insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
	values (@person::uuid, @org, '+14155550143', 'Ada', 'en', 'UTC', @at, @at)),
s as (insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
	values (@session, @org, @person, 'onboarding', 'onboarding:awaiting_opening_response', 'active', 'v', @at, @at)),
a as (insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_until, created_at, published_at, qstash_message_id)
	values (gen_random_uuid(), @org, @session, @person, 'x', 'onboarding:awaiting_opening_response', 1, @at, @at, @at, @at, 'msg_1')),
e as (insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
	select coalesce(max(seq), 0) + 1, @message, @org, 'engagement.state_changed', @person::uuid::text, @at, '', '{}', @at from events)
insert into session_transitions (session_id, at, kind, trigger) values (@session, @at, 'activated', 'activation'), (@session, @at, 'advanced', 'reply')`, args)
	b.exec(b.source["ONBOARDING_DATABASE_MIGRATE_URL"], `update event_feed set last_seq = (select max(seq) from events)`, nil)
	b.exec(b.source["MESSAGING_DATABASE_MIGRATE_URL"], `
with m as (insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
	segments, correlation_id, unknown_policy, attempts, attempt_token, attempted_at, lease_until, created_at, updated_at, accepted_at)
	values (@message::uuid, @org, @person, 'outbound', '+12025550180', '+14155550143', 'Hi', sha256('Hi'), @message::uuid::text, 'delivered', @sid, 1, '', 'never_duplicate', 1, @message, @at, @at, @at, @at, @at))
insert into event_outbox (event_id, org_id, type, phone, time, causation_id, data) values (@message, @org, 'message.sent', '+14155550143', @at, '', '{}')`, args)
	b.exec(b.source["MESSAGING_DATABASE_MIGRATE_URL"],
		`insert into readbacks (org_id, since, noticed_at, suspected) values (@org, @at, @at, true)`, args) // it had just started
	b.exec(b.source["MESSAGING_DATABASE_MIGRATE_URL"], `insert into sms_receipts (message_id, twilio_sid, status, error_code, raw, received_at)
		values (@message, @sid, 'sent', 0, '{}', @at), (@message, @sid, 'delivered', 0, '{}', @at)`, args)
}

func (b *bundle) mover() *cells.Mover {
	b.steps = nil
	return &cells.Mover{
		Org: b.org, Source: b.source, Target: b.target, Settle: time.Millisecond, Now: func() time.Time { return noon.Add(time.Hour) }, Machine: time.Now,
		Say: func(step string) {
			b.steps = append(b.steps, step)
			if b.after != nil {
				b.after(step)
			}
		},
	}
}

// acts reports whether the services of a cell could send for the organisation: they see its people, and no status forbids it.
func (b *bundle) acts(environ map[string]string) bool {
	b.t.Helper()
	return b.one(environ["ONBOARDING_DATABASE_URL"], `select count(*) from profiles where org_id = $1`, b.org) > 0 &&
		b.one(environ["MESSAGING_DATABASE_URL"], `select count(*) from sms_messages where org_id = $1`, b.org) > 0 &&
		b.one(environ["MESSAGING_DATABASE_URL"], `select count(*) from organisations where org_id = $1 and status <> 'active'`, b.org) == 0
}

// TestMoveBehindPoolers moves an organisation between cells that reach their databases through PgBouncer.
func TestMoveBehindPoolers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mayAct()
	for _, environ := range []map[string]string{b.source, b.target} {
		for _, service := range []string{"ONBOARDING", "MESSAGING"} {
			environ[service+"_DATABASE_URL"] = pgtest.Pooler(t, environ[service+"_DATABASE_URL"]+"&password=any", 1) // its ini file wants one
		}
	}
	_, err := b.mover().Move(t.Context())
	require.NoError(t, err)
	_, err = b.mover().Move(t.Context())
	require.NoError(t, err, "a repeat looks again")
	b.source, b.target = b.target, b.source
	b.mayAct()
	_, err = b.mover().Move(t.Context())
	require.NoError(t, err)
}

// TestMoveIsBrokenOff: a run that ends at any step is repeated, and at no step do both cells act.
func TestMoveIsBrokenOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.mover().Move(t.Context())
	require.ErrorContains(t, err, "grant set on parameter session_replication_role to", "it says what is missing")
	b.mayAct()
	for stop := 1; ; stop++ {
		ctx, kill := context.WithCancel(t.Context())
		b.after = func(step string) {
			require.False(t, b.acts(b.source) && b.acts(b.target), step)
			if len(b.steps) == stop {
				kill()
			}
		}
		_, err := b.mover().Move(ctx)
		kill()
		if len(b.steps) < stop {
			require.NoError(t, err)
			break
		}
		require.Less(t, stop, 30)
	}
	require.False(t, b.acts(b.source))
	require.True(t, b.acts(b.target))
	b.requireArrived()
	b.requireRest()
	b.after = nil
	b.requireBack()
}

// requireBack moves it back, with a row that it has got in the meantime: the source still has what it had, under its old numbers.
func (b *bundle) requireBack() {
	t := b.t
	t.Helper()
	b.exec(b.target["ONBOARDING_DATABASE_MIGRATE_URL"],
		`insert into session_transitions (session_id, at, kind, trigger) select id, @at, 'paused', 'reply' from conversation_sessions`, pgx.NamedArgs{"at": noon})
	b.exec(b.source["ADMIN"], "grant set on parameter session_replication_role to onboarding, messaging", nil)
	b.source, b.target = b.target, b.source
	o, m := b.target["ONBOARDING_DATABASE_MIGRATE_URL"], b.target["MESSAGING_DATABASE_URL"]
	b.exec(o, `alter table organisations add constraint stays check (move is not null) not valid`, nil)
	suspended := b.mover()
	suspended.Suspended = true
	_, err := suspended.Move(t.Context())
	require.ErrorContains(t, err, "it has left the source and is not open yet: repeat the same command")
	b.exec(m, `insert into event_outbox (event_id, org_id, type, phone, time, causation_id, data) values (@id, @org, 'message.sent', '', @at, '', '{}')`,
		pgx.NamedArgs{"id": uuid.New(), "org": b.org, "at": noon})
	require.Zero(t, b.one(m, `select count(*) from event_outbox where org_id = $1`, b.org), "onboarding is fenced and would refuse it")
	b.exec(o, `alter table organisations drop constraint stays`, nil)
	_, err = b.mover().Move(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, b.one(m, `select count(*) from event_outbox where org_id = $1`, b.org))
	require.EqualValues(t, 1, b.one(o, `select count(*) from organisations where org_id = $1 and status = 'suspended' and move is null`, b.org),
		"the first run was told to leave it suspended")
	require.False(t, b.acts(b.source))
	require.EqualValues(t, 3, b.one(b.target["ONBOARDING_DATABASE_URL"],
		`select count(*) from session_transitions where session_id in (select id from conversation_sessions where org_id = $1)`, b.org))
	require.EqualValues(t, 2, b.one(b.target["MESSAGING_DATABASE_URL"],
		`select count(*) from sms_receipts where message_id in (select id from sms_messages where org_id = $1)`, b.org))
	require.EqualValues(t, 2, b.one(b.target["ONBOARDING_DATABASE_URL"], `select count(*) from profiles`), "and the other organisation")
}

// requireArrived holds the target to what was furnished: once, with numbers of its counters.
func (b *bundle) requireArrived() {
	t, o, m := b.t, b.target["ONBOARDING_DATABASE_URL"], b.target["MESSAGING_DATABASE_URL"]
	t.Helper()
	require.EqualValues(t, 1, b.one(o, `select count(*) from conversation_sessions`))
	require.EqualValues(t, 2, b.one(o, `select count(*) from session_transitions`))
	require.EqualValues(t, 1, b.one(o, `select count(*) from events`))
	require.EqualValues(t, 2, b.one(m, `select count(*) from sms_receipts`))
	require.EqualValues(t, 1, b.one(o, `select count(*) from step_alarms where published_at is null`), "it is published anew")
	require.EqualValues(t, 0, b.one(m, `select count(*) from event_outbox`), "onboarding has it in its log")
	require.EqualValues(t, 1, b.one(m, `select count(*) from readbacks where ended_at is null and not suspected`), "Twilio's record is read first")
	require.EqualValues(t, 1, b.one(o, `select count(*) from event_feed where last_seq > (select max(seq) from events)`))
	require.EqualValues(t, 1, b.one(b.target["ONBOARDING_DATABASE_MIGRATE_URL"],
		`select (nextval(pg_get_serial_sequence('session_transitions', 'id')) > (select max(id) from session_transitions))::int`))
}

// requireRest: the other organisation is as it was.
func (b *bundle) requireRest() {
	b.t.Helper()
	require.EqualValues(b.t, 1, b.one(b.source["ONBOARDING_DATABASE_URL"], `select count(*) from profiles`))
	require.EqualValues(b.t, 0, b.one(b.target["ONBOARDING_DATABASE_URL"], `select count(*) from profiles where org_id = $1`, b.other))
}

// requireBlockerNamed: an open transaction has the move be refused before anybody is turned away.
func (b *bundle) requireBlockerNamed() {
	t := b.t
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.source["MESSAGING_DATABASE_URL"])
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `begin; select from sms_messages`)
	require.NoError(t, err)
	_, err = b.mover().Move(t.Context())
	require.ErrorContains(t, err, fmt.Sprintf("in use by process %d since", conn.PgConn().PID()))
	require.Zero(t, b.one(b.source["ONBOARDING_DATABASE_URL"], `select count(*) from organisations where move is not null`))
	require.NoError(t, conn.Close(t.Context()))
}

// TestMoveIsGivenUp: the source goes on, and the next try copies what has changed since.
func TestMoveIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	b.mayAct()
	b.requireBlockerNamed()
	ctx, kill := context.WithCancel(t.Context())
	b.after = func(step string) {
		if b.one(b.source["ONBOARDING_DATABASE_URL"], `select count(*) from profiles where org_id = $1`, b.org) == 0 {
			kill() // the source is fenced
		}
	}
	_, err := b.mover().Move(ctx)
	kill()
	require.Error(t, err)
	b.after = nil
	elsewhere := b.mover()
	elsewhere.Target = cell(t)
	_, err = elsewhere.Move(t.Context())
	require.ErrorContains(t, err, "another target")
	alone := b.mover()
	alone.Target = nil
	require.NoError(t, alone.Cancel(t.Context()))
	require.True(t, b.acts(b.source))
	require.NotZero(t, b.copied(), "the next try goes on with it")
	b.exec(b.source["ONBOARDING_DATABASE_MIGRATE_URL"], `update profiles set first_name = 'Eve' where org_id = @org`, pgx.NamedArgs{"org": b.org})
	b.exec(b.source["ONBOARDING_DATABASE_MIGRATE_URL"], `delete from step_alarms where org_id = @org`, pgx.NamedArgs{"org": b.org})
	b.after = func(step string) {
		if strings.HasPrefix(step, "pass 1") {
			b.exec(b.source["ONBOARDING_DATABASE_MIGRATE_URL"],
				`update organisations set status = 'suspended', wanted = 'suspended', version = version + 1 where org_id = @org`, pgx.NamedArgs{"org": b.org})
		}
	}
	_, err = b.mover().Move(t.Context())
	require.NoError(t, err)
	b.after = nil
	require.EqualValues(t, 1, b.one(b.target["ONBOARDING_DATABASE_URL"], `select count(*) from organisations where status = 'suspended' and move is null`),
		"it was suspended meanwhile")
	require.EqualValues(t, 1, b.one(b.target["ONBOARDING_DATABASE_URL"], `select count(*) from profiles where first_name = 'Eve'`))
	require.EqualValues(t, 0, b.one(b.target["ONBOARDING_DATABASE_URL"], `select count(*) from step_alarms`))
	require.ErrorContains(t, b.mover().Cancel(t.Context()), "no move to give up")

	b.exec(b.source["MESSAGING_ADMIN"], `
insert into senders (id, org_id, name, account_sid, api_key_sid, number, segments_per_second, countries, status, api_key_secret, auth_token, version, created_at, updated_at)
	values (@id, @org, 'x', 'AC' || repeat('0', 32), 'SK' || repeat('0', 32), '+12025550180', 1, '{US}', 'active', 'x', 'x', 1, @at, @at)`,
		pgx.NamedArgs{"id": uuid.New(), "org": b.org, "at": noon})
	require.NoError(t, b.mover().Release(t.Context()))
	require.EqualValues(t, 1, b.one(b.source["ONBOARDING_DATABASE_URL"], `select count(*) from profiles where org_id = $1`, b.org), "paceline org end erases them")
	require.EqualValues(t, 0, b.one(b.source["ONBOARDING_DATABASE_URL"], `select count(*) from step_alarms where org_id = $1`, b.org))
	require.EqualValues(t, 0, b.one(b.source["MESSAGING_DATABASE_URL"],
		`select count(*) from senders where org_id = $1 and deleted_at is null`, b.org), "it has nothing to send with")
	require.EqualValues(t, 1, b.one(b.source["MESSAGING_DATABASE_URL"], `select count(*) from senders where org_id = $1`, b.org))
	require.False(t, b.acts(b.source))
	conn, err := pgx.Connect(t.Context(), b.source["ONBOARDING_DATABASE_MIGRATE_URL"])
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `update organisations set wanted = 'active', status = 'active' where org_id = $1`, b.org)
	require.ErrorContains(t, err, "moved_is_not_active", "not even its owner takes it back")
	require.NoError(t, conn.Close(t.Context()))
}

// copied counts the rows of the organisation at the target, behind every fence.
func (b *bundle) copied() (rows int64) {
	b.t.Helper()
	for service, tables := range map[string][]cells.Table{"ONBOARDING": cells.Onboarding(), "MESSAGING": cells.Messaging()} {
		conn, err := pgx.Connect(b.t.Context(), b.target[service+"_DATABASE_MIGRATE_URL"])
		require.NoError(b.t, err)
		_, err = conn.Exec(b.t.Context(), `select set_config('app.moving', $1, false)`, b.org.String())
		require.NoError(b.t, err)
		for _, table := range append(tables, cells.Table{Name: "organisations"}) {
			of, n := table.Of, int64(0)
			if of == "" {
				of = "org_id = ORG"
			}
			sql := "select count(*) from " + table.Name + " where " + strings.ReplaceAll(of, "ORG", "'"+b.org.String()+"'")
			require.NoError(b.t, conn.QueryRow(b.t.Context(), sql).Scan(&n))
			rows += n
		}
		require.NoError(b.t, conn.Close(b.t.Context()))
	}
	return rows
}

// TestCopyIsErased gives moves up at different points, and goes on with that where it was broken off.
func TestCopyIsErased(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	b.mayAct()
	b.exec(b.source["MESSAGING_ADMIN"], `
insert into senders (id, org_id, name, account_sid, api_key_sid, number, segments_per_second, countries, status, version, created_at, updated_at)
	values (@id, @org, 'x', 'AC' || repeat('1', 32), 'SK' || repeat('0', 32), '+12025550190', 1, '{US}', 'disabled', 1, @at, @at)`,
		pgx.NamedArgs{"id": uuid.New(), "org": b.org, "at": noon})
	for _, dies := range []string{"pass 1", "the source turns", "it is suspended", "the source is fenced"} {
		ctx, kill := context.WithCancel(t.Context())
		b.after = func(step string) {
			if strings.HasPrefix(step, dies) {
				kill()
			}
		}
		_, err := b.mover().Move(ctx)
		require.Error(t, err, dies)
		require.NotZero(t, b.copied(), dies)
		const sqlMoving = `select count(*) from organisations where org_id = $1 and move is not null`
		moving := b.one(b.source["ONBOARDING_DATABASE_URL"], sqlMoving, b.org)

		b.exec(b.target["MESSAGING_DATABASE_MIGRATE_URL"], `insert into goose_db_version (version_id, is_applied) values (9999, true)`, nil)
		require.ErrorContains(t, b.mover().Cancel(t.Context()), "run the same release in both cells")
		b.exec(b.target["MESSAGING_DATABASE_MIGRATE_URL"], `delete from goose_db_version where version_id = 9999`, nil)
		require.Equal(t, moving, b.one(b.source["ONBOARDING_DATABASE_URL"], sqlMoving, b.org), "the source waits as before")

		broken, kill := context.WithCancel(t.Context())
		m := b.mover()
		m.Say = func(string) { kill() } // the rows of one database are gone, and its fence stands
		require.Error(t, m.Cancel(broken))
		b.after = nil
		require.NoError(t, b.mover().Cancel(t.Context()), dies)
		require.Zero(t, b.copied(), dies)
		require.True(t, b.acts(b.source), dies)
		require.NoError(t, b.mover().Cancel(t.Context()), "a repeat changes nothing")
		for _, service := range []string{"ONBOARDING", "MESSAGING"} {
			require.Zero(t, b.one(b.target[service+"_DATABASE_URL"], `select count(*) from pg_policies where policyname like 'moving%'`))
		}
	}
	m := b.mover()
	_, err := m.Move(t.Context())
	require.NoError(t, err)
	require.Equal(t, []cells.Sender{{Account: "AC" + strings.Repeat("1", 32), Number: "+12025550190"}}, m.Senders)
	require.ErrorContains(t, b.mover().Cancel(t.Context()), "no move to give up")
	require.True(t, b.acts(b.target))

	b.org = b.other // one that lives at the target, too, is left alone
	b.exec(b.target["ONBOARDING_DATABASE_MIGRATE_URL"],
		`insert into organisations (org_id, name, status, wanted, changed_at, created_at) values (@org, 'Acme', 'active', 'active', @at, @at)`,
		pgx.NamedArgs{"org": b.org, "at": noon})
	require.ErrorContains(t, b.mover().Cancel(t.Context()), "not on its way there")
}
