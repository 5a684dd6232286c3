package devices_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/schema"
)

func TestMain(m *testing.M) {
	if err := errors.Join(flag.Set("rapid.checks", "8"), flag.Set("rapid.steps", "15")); err != nil {
		panic(err)
	}
	pgtest.Run(m)
}

const (
	orgID    = "00000000-0000-7000-8000-000000000001"
	runLease = time.Minute
)

// bundle is the goals of one database, of which no alarm is published, on a clock that stands still.
type bundle struct {
	t       *testing.T
	pool    *pgxpool.Pool
	store   *goals.Store
	clock   *clock.Settable
	service *goals.Service
	owner   string

	beforeConnect func() // once, between a hello and that the device is given to its stream

	mu      sync.Mutex
	left    int  // calls of a hub until one fails; negative for none
	effects bool // it has its effect all the same
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{
		t: t, pool: pgtest.New(t, schema.Migrations()), clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), left: -1,
	}
	b.store = goals.NewStore(b.pool)
	b.service = goals.NewService(goals.Config{
		Store: b.store, Outbox: b.store.Alarms(), Reach: time.Hour, RunLease: runLease, RunLimit: time.Hour, Disabled: true,
		Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
	})
	b.owner = b.person()
	return b
}

func (b *bundle) registry() *goals.Devices { return &goals.Devices{Store: b.store, Now: b.clock.Now} }

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// person adds a new person.
func (b *bundle) person() string {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	b.exec(`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
values ($1, $2, '+1555' || lpad((random() * 9999999)::int::text, 7, '0'), 'Ana', 'en', 'America/New_York', $3, $3)`, id, orgID, b.clock.Now())
	return id
}

// creates has the owner create a goal; a zero time reads the words.
func (b *bundle) creates(device, said string, at time.Time) goals.Goal {
	b.t.Helper()
	g, _, err := b.service.Create(b.t.Context(), goals.New{
		OrgID: orgID, ProfileID: b.owner, DeviceID: device, Said: said, At: at, Source: goals.SourceREST, Key: uuid.NewString(),
		By: "user:" + b.owner,
	})
	require.NoError(b.t, err)
	return g
}

// says has the owner say a goal that is due in so long.
func (b *bundle) says(device string, in time.Duration) goals.Goal {
	b.t.Helper()
	return b.creates(device, "open the door", b.clock.Now().Add(in))
}

// is reads a goal, which has to have a status.
func (b *bundle) is(g goals.Goal, status goals.Status) goals.Situation {
	b.t.Helper()
	v, err := b.store.Goal(b.t.Context(), orgID, g.ID, b.clock.Now())
	require.NoError(b.t, err)
	require.Equal(b.t, status, v.Status)
	return v
}

// told are the events of a goal, in their order.
func (b *bundle) told(g goals.Goal) (types string) {
	b.t.Helper()
	const sql = `select string_agg(substr(type, 6), ' ' order by id) from event_outbox where data->>'goal_id' = $1`
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, g.ID).Scan(&types))
	return types
}

func (b *bundle) me() goals.Caller {
	return goals.Caller{OrgID: orgID, ProfileID: b.owner, Actor: "user:" + b.owner}
}

var errMishap = errors.New("the process died")

// mishap has the n-th call of a hub from now on fail, before or after its effect.
func (b *bundle) mishap(n int, effects bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.effects = n, effects
}

// met calls what a mishap may meet.
func met[R any](b *bundle, call func() (R, error)) (r R, err error) {
	b.mu.Lock()
	fails := b.left == 0
	if b.left >= 0 {
		b.left--
	}
	effects := !fails || b.effects
	b.mu.Unlock()
	if effects {
		r, err = call()
	}
	if fails {
		var none R
		return none, errMishap
	}
	return r, err
}

func meets(b *bundle, call func() error) error {
	_, err := met(b, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// hubStore is the store of a hub, and hubGoals the service, of which one call fails.
type (
	hubStore struct {
		*goals.Store

		b *bundle
	}
	hubGoals struct {
		*goals.Service

		b *bundle
	}
)

func (s hubStore) Connect(ctx context.Context, node string, hello goals.Hello, opened time.Time) (goals.Connection, error) {
	if before := s.b.beforeConnect; before != nil {
		s.b.beforeConnect = nil
		before()
	}
	return met(s.b, func() (goals.Connection, error) { return s.Store.Connect(ctx, node, hello, opened) })
}

func (s hubStore) Disconnect(ctx context.Context, node, device string, epoch int64, at time.Time) error {
	return meets(s.b, func() error { return s.Store.Disconnect(ctx, node, device, epoch, at) })
}

func (s hubStore) Renew(ctx context.Context, node string, until, now time.Time) error {
	return meets(s.b, func() error { return s.Store.Renew(ctx, node, until, now) })
}

func (s hubStore) Held(ctx context.Context, node string) (map[string]goals.HeldDevice, error) {
	return met(s.b, func() (map[string]goals.HeldDevice, error) { return s.Store.Held(ctx, node) })
}

func (s hubStore) Calls(ctx context.Context, node string, now time.Time) ([]goals.Call, error) {
	return met(s.b, func() ([]goals.Call, error) { return s.Store.Calls(ctx, node, now) })
}

func (s hubStore) Begin(ctx context.Context, node string, c goals.Call, run string, at time.Time) (goals.Offer, error) {
	return met(s.b, func() (goals.Offer, error) { return s.Store.Begin(ctx, node, c, run, at) })
}

func (s hubStore) OfferAgain(ctx context.Context, node string, c goals.Call, run string, at time.Time) (goals.Offer, error) {
	return met(s.b, func() (goals.Offer, error) { return s.Store.OfferAgain(ctx, node, c, run, at) })
}

func (s hubStore) Acknowledge(ctx context.Context, device, run string, at time.Time) (bool, error) {
	return met(s.b, func() (bool, error) { return s.Store.Acknowledge(ctx, device, run, at) })
}

func (s hubStore) Hear(ctx context.Context, device, run, progress string, at time.Time) (bool, error) {
	return met(s.b, func() (bool, error) { return s.Store.Hear(ctx, device, run, progress, at) })
}

func (s hubGoals) Create(ctx context.Context, n goals.New) (g goals.Goal, duplicate bool, err error) {
	g, err = met(s.b, func() (g goals.Goal, err error) {
		g, duplicate, err = s.Service.Create(ctx, n)
		return g, err
	})
	return g, duplicate, err
}

func (s hubGoals) End(ctx context.Context, kind goals.Kind, e goals.End) (bool, error) {
	return met(s.b, func() (bool, error) { return s.Service.End(ctx, kind, e) })
}
