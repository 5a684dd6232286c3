package backup_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/backup"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/engagement/rules"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// noon is the time at which every test begins.
var noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// later is the time at which the databases are settled.
var later = noon.Add(time.Hour)

// bundle has two databases that were restored. Of four people, each was sent something after the instant of the backup.
type bundle struct {
	*testing.T

	onboarding, messaging *pgxpool.Pool
	org                   uuid.UUID
	said                  bytes.Buffer
}

const (
	noted       = "+14155550101" // onboarding noted the send, messaging lost it, Twilio has it
	unknown     = "+14155550102" // nothing but Twilio knows of the send
	heldLater   = "+14155550103" // an operator held them later than onboarding has it
	lostSession = "+14155550104" // messaging sent it for a conversation that onboarding lost
)

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{T: t, onboarding: pgtest.New(t, onboarding.Migrations()), messaging: pgtest.New(t, messaging.Migrations()), org: uuid.New()}
	for _, phone := range []string{noted, unknown, heldLater, lostSession} {
		b.exec(b.onboarding, `insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
			values (gen_random_uuid(), @org, @phone, 'Ada', 'en', 'UTC', @at, @at)`, pgx.NamedArgs{"phone": phone})
	}
	b.exec(b.onboarding, `with s as (insert into conversation_sessions
			(id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
			select @session, org_id, id, 'onboarding', 'onboarding:awaiting_opening_response', 'active', 'v', @at, @at
			from profiles where phone = @phone)
		insert into session_transitions (session_id, at, kind, trigger, message_id)
		values (@session, @at, 'sent', 'activation', gen_random_uuid())`,
		pgx.NamedArgs{"phone": noted, "session": uuid.New()})
	b.exec(b.onboarding, `insert into inbound_sweeps (org_id, sender, swept_until, due_at) values (@org, 'x', @at, @at)`, nil)
	for phone, key := range map[string]string{
		noted: "readback:1", unknown: "readback:2", lostSession: "onboarding:" + uuid.NewString() + ":" + uuid.NewString() + ":opening",
	} {
		b.exec(b.messaging, `insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status,
				twilio_sid, segments, correlation_id, unknown_policy, attempts, attempt_token, attempted_at, lease_until, created_at, updated_at,
				accepted_at, unclaimed_until)
			values (gen_random_uuid(), @org, 'outbound', '+12025550180', @phone::text, 'Hi', sha256('Hi'), @key::text, 'accepted',
				'SM' || @phone::text, 1, '', 'never_duplicate', 1, gen_random_uuid(), @at, @at, @at, @at, @at::timestamptz,
				case when starts_with(@key::text, 'readback:') then @at::timestamptz + interval '15 minutes' end)`,
			pgx.NamedArgs{"phone": phone, "key": key})
	}
	b.exec(b.onboarding, `with p as (insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
			values (gen_random_uuid(), gen_random_uuid(), '+14155550105', 'Ada', 'en', 'UTC', @at, @at) returning org_id)
		insert into scheduling_pauses (org_id, reason, paused_at, paused_by)
		select org_id, 'the words are wrong', @at, '{"subject":"ada"}' from p`, nil)
	b.exec(b.messaging, `insert into holds (org_id, phone, held, version, updated_at) values (@org, @phone, true, 5, @at)`,
		pgx.NamedArgs{"phone": heldLater})
	return b
}

func (b *bundle) exec(db *pgxpool.Pool, sql string, args pgx.NamedArgs) {
	b.Helper()
	with := pgx.NamedArgs{"org": b.org, "at": noon}
	maps.Copy(with, args)
	_, err := db.Exec(b.Context(), sql, with)
	require.NoError(b, err)
}

func (b *bundle) count(db *pgxpool.Pool, sql string, args ...any) (n int) {
	b.Helper()
	require.NoError(b, db.QueryRow(b.Context(), sql, args...).Scan(&n))
	return n
}

// serve does what the services do, until ctx ends: they read back, deliver again and forward holds.
func (b *bundle) serve(ctx context.Context) {
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		_, read := b.messaging.Exec(ctx, `update readbacks set read_at = noticed_at, ended_at = case when not settling then noticed_at end
			where read_at is null and ended_at is null`)
		_, heard := b.onboarding.Exec(ctx, `update inbound_sweeps set again_until = null where again_until is not null`)
		_, told := b.onboarding.Exec(ctx, `update profiles set hold_told = hold_version where hold_told <> hold_version`)
		if err := errors.Join(read, heard, told); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}

// sends reports whether anything may be sent, and wholly whether all may be.
func (b *bundle) sends() (some, wholly bool) {
	open := b.count(b.messaging, `select count(*) from readbacks where ended_at is null`) > 0
	paused := b.count(b.onboarding, `select count(*) from scheduling_pauses where reason = $1`, backup.Reason) > 0
	return !open || !paused, !open && !paused
}

// compared reports whether it is known what no step may ask for, whom nothing may be sent to, and what a step that asks again gets as sent.
func (b *bundle) compared() bool {
	return b.count(b.messaging, `select count(*) from sms_messages where to_number = $1 and unclaimed_until is null`, noted) == 1 &&
		b.count(b.messaging, `select count(*) from sms_messages where to_number = $1 and unclaimed_until > $2`, unknown, later) == 1 &&
		b.count(b.onboarding, `select count(*) from profiles where hold and phone = any($1)`, []string{heldLater, lostSession}) == 2
}

func (b *bundle) settle(dies *death) error {
	s := backup.Settling{
		Onboarding: mortal{b.onboarding, dies}, Messaging: mortal{b.messaging, dies}, Calendar: rules.DefaultConfig().Calendar,
		Since: noon.Add(-time.Minute), Wait: time.Minute, Poll: time.Millisecond, Now: func() time.Time { return later }, Out: &b.said,
	}
	return s.Run(b.Context())
}

// TestSettleIsKilled is the crash matrix: a run dies at its first call of a database, the next one at its second, and so on, until all is
// released; then again until all is parked. Nothing is sent before the databases are compared, nothing is stopped again once all was
// released, and in the end all is as after one run.
func TestSettleIsKilled(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"BeforeTheCall": false, "AfterTheCall": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ctx, stop := context.WithCancel(t.Context())
			var services sync.WaitGroup
			defer services.Wait()
			defer stop()
			services.Go(func() { b.serve(ctx) })
			before := b.dies(after, func() bool { return b.count(b.onboarding, sqlReleased) == 1 })
			parking := b.dies(after, func() bool { return b.count(b.onboarding, sqlEnded) == 1 })
			require.Greater(t, before, 15)
			t.Logf("it died %d times before it released, and %d times after", before, parking)
			require.Greater(t, parking, 5)
			b.requireSettled()
		})
	}
}

// dies settles until something is so, and counts the runs: each dies one call later than the one before.
func (b *bundle) dies(after bool, until func() bool) (times int) {
	b.Helper()
	for ; !until(); times++ {
		if err := b.settle(&death{at: times + 1, after: after}); err != nil {
			require.ErrorIs(b, err, errDied)
		}
		require.Less(b, times, 100)
		stopped, released := bytes.Contains(b.said.Bytes(), []byte("1  stopped")), b.count(b.onboarding, sqlReleased) == 1
		some, wholly := b.sends()
		require.True(b, !stopped || !some || b.compared(), "run %d: %s", times, b.said.String())
		require.True(b, !released || wholly, "run %d: %s", times, b.said.String())
	}
	return times
}

const (
	sqlReleased = `select count(*) from restores where released_at is not null`
	sqlEnded    = `select count(*) from restores where ended_at is not null`
)

func (b *bundle) requireSettled() {
	b.Helper()
	for sql, want := range map[string]int{
		`select count(*) from restores`:                                                                                   1,
		`select count(*) from restores where ended_at is not null`:                                                        1,
		`select count(*) from scheduling_pauses`:                                                                          1,
		`select count(*) from scheduling_pauses where paused_by is not null and reason = 'the words are wrong'`:           1,
		`select count(*) from profiles where hold`:                                                                        3,
		`select count(*) from profiles where not hold and phone = '` + noted + `'`:                                        1,
		`select count(*) from profiles where hold_reason like '%no step knows of' and phone = '` + unknown + `'`:          1,
		`select count(*) from profiles where hold_reason like '%after the instant%' and phone = '` + heldLater + `'`:      1,
		`select count(*) from profiles where hold_reason like '%began after%' and phone = '` + lostSession + `'`:          1,
		`select count(*) from profiles where phone = '` + heldLater + `' and hold_version > 5`:                            1,
		`select count(*) from inbound_sweeps where again_until is null and swept_until = timestamptz '2026-11-20 11:59Z'`: 1,
	} {
		require.Equal(b, want, b.count(b.onboarding, sql), sql)
	}
	for sql, want := range map[string]int{
		`select count(*) from readbacks where ended_at is null`:                                                           0,
		`select count(*) from readbacks where settling`:                                                                   0,
		`select count(*) from sms_messages where unclaimed_until is null and to_number = '` + noted + `'`:                 1,
		`select count(*) from sms_messages where unclaimed_until = '2026-11-20 13:15Z' and to_number = '` + unknown + `'`: 1,
		`select count(*) from sms_messages`:                                                                               3,
	} {
		require.Equal(b, want, b.count(b.messaging, sql), sql)
	}
}

var errDied = errors.New("the process died here")

// death ends a process at a call of a database, with its effect or without.
type death struct {
	at    int
	after bool
	calls int
	dead  bool
}

func (d *death) call(do func() error) error {
	if d.dead {
		return errDied
	}
	if d.calls++; d.calls != d.at {
		return do()
	}
	d.dead = true
	if d.after {
		return errors.Join(do(), errDied)
	}
	return errDied
}

// mortal is a database of a process that dies.
type mortal struct {
	postgres.DB

	death *death
}

func (m mortal) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	if m.death.dead {
		return nil, errDied
	}
	if tx, err = m.DB.Begin(ctx); err == nil {
		tx = mortalTx{tx, m.death}
	}
	return tx, err
}

func (m mortal) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = m.death.call(func() (err error) {
		tag, err = m.DB.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

func (m mortal) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	err = m.death.call(func() (err error) {
		rows, err = m.DB.Query(ctx, sql, args...) //nolint:sqlclosecheck // the caller closes them
		return err
	})
	if err != nil {
		if rows != nil {
			rows.Close()
		}
		return noRows{}, err
	}
	return rows, nil
}

// noRows are the rows that pgx returns for a query that failed.
type noRows struct{ pgx.Rows }

func (noRows) Next() bool { return false }
func (noRows) Err() error { return errDied }
func (noRows) Close()     {}

func (m mortal) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return mortalRow(func(into ...any) error {
		return m.death.call(func() error { return m.DB.QueryRow(ctx, sql, args...).Scan(into...) })
	})
}

// mortalRow asks in Scan: a row that nobody scans keeps its connection.
type mortalRow func(into ...any) error

func (r mortalRow) Scan(into ...any) error { return r(into...) }

// mortalTx dies at its commit: what is within it has no effect before.
type mortalTx struct {
	pgx.Tx

	death *death
}

func (t mortalTx) Commit(ctx context.Context) error {
	err := t.death.call(func() error { return t.Tx.Commit(ctx) })
	if t.death.dead {
		_ = t.Rollback(ctx)
	}
	return err
}
