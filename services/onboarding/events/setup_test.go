package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/schema"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	orgID   = "00000000-0000-7000-8000-000000000001"
	another = "00000000-0000-7000-8000-000000000002"
)

// noon is the time at which every test begins.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a log of events on a real database, with a messaging that has events to hand over.
type world struct {
	t         *testing.T
	pool      *pgxpool.Pool
	store     *events.Store
	clock     *clock.Settable
	messaging *outbox
	networks  []netip.Prefix
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, pool: pgtest.New(t, schema.Migrations()), clock: clock.NewSettable(noon), messaging: &outbox{},
		networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}
	w.store = events.NewStore(w.pool)
	return w
}

// outbox is messaging's: a row is there until it is said to be stored.
type outbox struct {
	mu   sync.Mutex
	rows []events.Incoming
	next int64
}

// add has messaging tell of something.
func (o *outbox) add(e events.Incoming) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next++
	e.Row, e.ID = o.next, uuid.Must(uuid.NewV7()).String()
	o.rows = append(o.rows, e)
}

func (o *outbox) Events(_ context.Context, done []int64, types []string, limit int) ([]events.Incoming, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = slices.DeleteFunc(o.rows, func(e events.Incoming) bool { return slices.Contains(done, e.Row) })
	return slices.Clone(o.rows[:min(limit, len(o.rows))]), nil
}

func (o *outbox) Text(_ context.Context, _, messageID string) (string, error) {
	return "the text of " + messageID, nil
}

// feed is the sequencer of a process that keeps events for a week.
func (w *world) feed() *events.Feed { return w.feedKeeping(7 * 24 * time.Hour) }

func (w *world) feedKeeping(retention time.Duration) *events.Feed {
	return events.NewFeed(w.feedConfig(retention))
}

func (w *world) feedConfig(retention time.Duration) events.FeedConfig {
	recorded, err := noop.NewMeterProvider().Meter("").Int64Counter("recorded")
	require.NoError(w.t, err)
	return events.FeedConfig{
		Log: w.store, Messaging: w.messaging, Retention: retention, Wake: func() {}, Waited: func() int { return 0 },
		Recorded: recorded, Logger: slog.New(slog.DiscardHandler), Now: w.clock.Now,
	}
}

// moves moves all there is.
func (w *world) moves(f *events.Feed) {
	w.t.Helper()
	for more := true; more; {
		var err error
		more, err = f.Move(w.t.Context())
		require.NoError(w.t, err)
	}
}

func (w *world) courier() *events.Courier {
	c := events.NewCourier(events.CourierConfig{
		Subscriptions: w.store, Messaging: w.messaging, Networks: w.networks, Logger: slog.New(slog.DiscardHandler), Now: w.clock.Now,
	})
	w.t.Cleanup(c.Close)
	return c
}

// runner is the queue of deliveries of a process.
func (w *world) runner(c *events.Courier) *queue.Runner {
	return c.Runner(queue.Config{Log: slog.New(slog.DiscardHandler), Now: w.clock.Now})
}

const sqlTell = `insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
	values ($1::uuid, $2, $3, $4, $5, 'test:1', jsonb_build_object('n', $6::int, 'message_id', $1::uuid))`

// tells writes one event to the outbox.
func (w *world) tells(org, kind, subject string, n int) {
	w.t.Helper()
	w.exec(sqlTell, uuid.Must(uuid.NewV7()), org, kind, subject, w.clock.Now(), n)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n))
	return n
}

// reads returns what a reader gets behind a number.
func (w *world) reads(after int64, types ...string) ([]events.Event, int64) {
	w.t.Helper()
	if types == nil {
		types = []string{}
	}
	found, next, err := w.store.Read(w.t.Context(), orgID, after, types, 500)
	require.NoError(w.t, err)
	return found, next
}

// numbers are the n of events.
func numbers(found []events.Event) (all []int) {
	for _, e := range found {
		var data struct{ N int }
		if json.Unmarshal(e.Data, &data) == nil {
			all = append(all, data.N)
		}
	}
	return all
}

// subscribes adds a subscription of the organisation.
func (w *world) subscribes(url string, types ...string) events.Subscription {
	w.t.Helper()
	if types == nil {
		types = []string{}
	}
	s, err := w.store.Subscribe(w.t.Context(), events.Subscription{
		OrgID: orgID, URL: url, Types: types, Secret: events.NewSecret(), CreatedAt: w.clock.Now(),
	})
	require.NoError(w.t, err)
	return s
}

// subscriber is a host application: it verifies with the library of Standard Webhooks, and takes an event for had by its id.
type subscriber struct {
	*httptest.Server

	t      *testing.T
	status func(r *http.Request) int // 200 when nil

	mu     sync.Mutex
	secret string
	ids    map[string]bool
	got    map[string][]int64 // numbers of the log by person, each once
	bodies []map[string]any
	tries  int
}

func newSubscriber(t *testing.T) *subscriber {
	t.Helper()
	s := &subscriber{t: t, ids: map[string]bool{}, got: map[string][]int64{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.take))
	t.Cleanup(s.Close)
	return s
}

func (s *subscriber) take(rw http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	body, err := io.ReadAll(r.Body)
	if err == nil && s.status != nil {
		if status := s.status(r); status != http.StatusOK {
			rw.WriteHeader(status)
			return
		}
	}
	var e map[string]any
	if err == nil {
		err = verify(s.secret, body, r.Header)
	}
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err != nil {
		s.t.Errorf("an event that cannot be taken: %v", err)
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	id, subject := fmt.Sprint(e["id"]), fmt.Sprint(e["subject"])
	if id != r.Header.Get("webhook-id") {
		s.t.Errorf("webhook-id %s of %s", r.Header.Get("webhook-id"), id)
	}
	if !s.ids[id] {
		seq, _ := strconv.ParseInt(fmt.Sprint(e["seq"]), 10, 64)
		s.ids[id], s.got[subject], s.bodies = true, append(s.got[subject], seq), append(s.bodies, e)
	}
}

// verify is the judge: the library of Standard Webhooks. Its clock is the machine's.
func verify(secret string, body []byte, header http.Header) error {
	judge, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return judge.VerifyIgnoringTimestamp(body, header)
}

// knows has the subscriber verify with the secret of a subscription.
func (s *subscriber) knows(sub events.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = events.ShowSecret(sub.Secret)
}

// all counts the events that it has had.
func (s *subscriber) all() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}
