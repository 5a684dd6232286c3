package goals_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/emulators/subscriber"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/schema"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "8"); err != nil { // each has another database
		panic(err)
	}
	if err := flag.Set("rapid.steps", "15"); err != nil {
		panic(err)
	}
	pgtest.Run(m)
}

const (
	orgID       = "00000000-0000-7000-8000-000000000001"
	otherOrgID  = "00000000-0000-7000-8000-000000000002"
	maxDelay    = 7 * 24 * time.Hour
	runLease    = time.Minute
	runLimit    = time.Hour
	grace       = 10 * time.Minute
	generations = 3
)

// bundle is the goals of one database, between the emulator of QStash and devices that the test plays, on one clock that stands still.
type bundle struct {
	t       *testing.T
	pool    *pgxpool.Pool
	store   *goals.Store
	clock   *clock.Settable
	qstash  *emulator.Emulator
	client  *qstash.Client
	service *goals.Service
	phone   *handset
	owner   string

	undeletable bool   // QStash refuses to delete
	beforeBusy  func() // once, between what an alarm has read and that it notes that the device is busy

	mu      sync.Mutex
	left    int      // calls of the store until one fails; negative for none
	effects bool     // it has its effect all the same
	bodies  []string // of every callback
}

// handset is the person's phone, as messaging answers for it.
type handset struct {
	mu    sync.Mutex
	wait  bool
	fails error
	end   goals.End
	texts map[string]int // by goal
}

func (h *handset) set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = err
}

func (h *handset) Wait(context.Context, goals.Goal) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wait, nil
}

func (h *handset) Text(_ context.Context, g goals.Goal) (goals.End, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails != nil {
		return goals.End{}, h.fails
	}
	h.texts[g.ID]++
	return h.end, nil
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{
		t: t, pool: pgtest.New(t, schema.Migrations()), clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		left: -1, phone: &handset{texts: map[string]int{}, end: goals.End{OK: true}},
	}
	subscriber.Watch(t, b.pool, "event_outbox")
	b.store = goals.NewStore(b.pool)
	b.qstash = emulator.New(emulator.Config{Clock: b.clock})
	t.Cleanup(b.qstash.Close)
	api := httptest.NewServer(b.qstash)
	t.Cleanup(api.Close)
	gateway := httptest.NewServer(http.HandlerFunc(b.callback))
	t.Cleanup(gateway.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	b.client, err = qstash.New(qstash.Config{URL: api.URL, Token: emulator.DevToken, HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	publisher, err := qstash.NewPublisher(qstash.PublisherConfig{
		Client: b.client, Origin: gateway.URL, Routes: []qstash.Route{goals.Route}, HashKey: []byte("a key of the tests with over 32 bytes"),
		Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
	})
	require.NoError(t, err)
	b.service = goals.NewService(goals.Config{
		Store: crashing{b.store, b}, Outbox: b.store.Alarms(), QStash: publisher, Messages: deleter{b}, Phone: b.phone, Reach: maxDelay,
		RunLease: runLease, RunLimit: runLimit, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
		Begin: func(ctx context.Context, _ goals.Alarm) (context.Context, func()) { return ctx, func() {} },
	})
	b.owner = b.person(orgID)
	return b
}

// callback does what the gateway does with QStash's callbacks.
func (b *bundle) callback(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in struct {
		GoalID string `json:"goal_id"`
	}
	if strings.HasSuffix(r.URL.Path, "/failed") {
		failure, decodeErr := qstash.DecodeFailure(body)
		err = errors.Join(err, decodeErr, json.Unmarshal(failure.SourceBody, &in))
		if err == nil {
			_, err = b.service.AlarmFailed(r.Context(), in.GoalID, failure.SourceMessageID)
		}
	} else if err = errors.Join(err, json.Unmarshal(body, &in)); err == nil {
		b.mu.Lock()
		b.bodies = append(b.bodies, string(body))
		b.mu.Unlock()
		_, err = b.service.Execute(r.Context(), in.GoalID)
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

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

// person adds a new person to an organisation.
func (b *bundle) person(org string) string {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	b.exec(`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
values ($1, $2, '+1555' || lpad((random() * 9999999)::int::text, 7, '0'), 'Ana', 'en', 'America/New_York', $3, $3)`, id, org, b.clock.Now())
	return id
}

// device is a stream device of the owner, connected to a new node.
func (b *bundle) device() string {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	b.exec(`insert into devices (id, org_id, profile_id, name, kind, token_hash, created_at, updated_at)
values ($1, $2, $3, $5, 'stream', decode(md5($5), 'hex'), $4, $4)`, id, orgID, b.owner, b.clock.Now(), id)
	b.connect(id)
	return id
}

func (b *bundle) connect(device string) {
	b.t.Helper()
	node := uuid.NewString()
	b.exec(`insert into device_nodes (id, lease_until, started_at) values ($1, $2, $3)`, node, b.clock.Now().Add(1000*time.Hour), b.clock.Now())
	b.exec(`update devices set node_id = $2, epoch = epoch + 1 where id = $1`, device, node)
}

func (b *bundle) disconnect(device string) {
	b.t.Helper()
	b.exec(`update devices set node_id = null where id = $1`, device)
}

// begins has an alarm call the device of a goal, and its node begin it.
func (b *bundle) begins(g goals.Goal) goals.Offer {
	b.t.Helper()
	require.NoError(b.t, b.store.Call(b.t.Context(), g, b.clock.Now()))
	return b.offers(g)
}

// offers has the node of a device begin the goal that it was called for.
func (b *bundle) offers(g goals.Goal) goals.Offer {
	b.t.Helper()
	var node string
	called := goals.Call{GoalID: g.ID, DeviceID: g.DeviceID}
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `select node_id::text, epoch from devices where id = $1`, g.DeviceID).Scan(&node, &called.Epoch))
	offer, err := b.store.Begin(b.t.Context(), node, called, uuid.NewString(), b.clock.Now())
	require.NoError(b.t, err)
	b.service.Offered(b.t.Context(), offer)
	return offer
}

// ends is the end of a goal that its device has told.
func (b *bundle) ends(g goals.Goal, e goals.End) {
	b.t.Helper()
	e.DeviceID, e.Actor, e.At = g.DeviceID, "device:"+g.DeviceID, b.clock.Now()
	_, err := b.service.End(b.t.Context(), goals.Stream, e)
	require.NoError(b.t, err)
}

// says has the owner say a goal that is due in so long.
func (b *bundle) says(device string, in time.Duration) goals.Goal {
	b.t.Helper()
	g, duplicate, err := b.service.Create(b.t.Context(), b.goal(device, in))
	require.NoError(b.t, err)
	require.False(b.t, duplicate)
	return g
}

func (b *bundle) goal(device string, in time.Duration) goals.New {
	return goals.New{
		OrgID: orgID, ProfileID: b.owner, DeviceID: device, Said: "open the door", At: b.clock.Now().Add(in), Source: goals.SourceREST,
		Key: uuid.NewString(), By: "user:" + b.owner,
	}
}

// is reads a goal, which has to have a status.
func (b *bundle) is(g goals.Goal, status goals.Status) goals.Situation {
	b.t.Helper()
	v, err := b.store.Goal(b.t.Context(), orgID, g.ID, b.clock.Now())
	require.NoError(b.t, err)
	require.Equal(b.t, status, v.Status)
	return v
}

func (b *bundle) sweeper() *outbox.Sweeper[goals.Overdue] {
	return b.service.Sweeper(outbox.Policy{Grace: grace, MaxGenerations: generations})
}

// sweeps is one pass of the sweeper.
func (b *bundle) sweeps() {
	b.t.Helper()
	_, err := b.sweeper().Sweep(b.t.Context())
	require.NoError(b.t, err)
	for {
		n, err := b.service.Alarms.Relay(b.t.Context())
		require.NoError(b.t, err)
		if n == 0 {
			return
		}
	}
}

func (b *bundle) me() goals.Caller {
	return goals.Caller{OrgID: orgID, ProfileID: b.owner, Actor: "user:" + b.owner}
}
