package stack_test

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/subscriber"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// noon is the time at which every test begins.
var noon = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// patience bounds every wait for the stack, in real time. It is only ever used up by a failure.
const patience = 30 * time.Second

// bundle is one stack of a test's own: both vendors, the three services, both databases, one clock for all.
type bundle struct {
	clock    *clock.Settable
	vendors  *stack.Vendors
	services *stack.Services
	config   stack.ServiceConfig
	log      *logbook
	operator string // bearer token of the sender's organisation

	onboarding, messaging *pgxpool.Pool // to read what no API shows, never to write
	http                  *http.Client
	people                int
	standstill            sync.Mutex // until lets no time pass while it is locked
}

// setup starts a stack with an environment that is changed by the pairs of names and values that follow.
func setup(t *testing.T, changes ...string) *bundle {
	t.Helper()
	b := prepare(t)
	b.start(t, changes...)
	return b
}

// prepare starts the vendors and makes the databases. When the test ends, no log line of the services may hold a number, a
// text, a name or a secret.
func prepare(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{clock: clock.NewSettable(noon), log: new(logbook), http: &http.Client{Transport: described{&http.Transport{MaxIdleConnsPerHost: 16}}}}
	var err error
	b.vendors, err = stack.StartVendors(t.Context(), stack.VendorConfig{Clock: b.clock, Log: b.log.logger()})
	require.NoError(t, err)
	secrets := stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	b.operator, err = secrets.APIToken("operator", stack.OrgID, rpc.RoleOperator, noon, 30*24*time.Hour)
	require.NoError(t, err)
	b.config = stack.ServiceConfig{
		OnboardingDatabaseURL: pgtest.URL(t, onboarding.Migrations()), MessagingDatabaseURL: pgtest.URL(t, messaging.Migrations()),
		Secrets: secrets, Addresses: addresses(t), Log: b.log.logger(),
		// Short where tests would wait in real time, and no sweeper: it would hide what others leave undone.
		Environ: map[string]string{"ALARM_RELAY_INTERVAL": "50ms", "TWILIO_TIMEOUT": "1s", "ALARM_OVERDUE_GRACE": "10000h", "PSEUDONYM_KEY": rand.Text() + rand.Text()},
	}
	b.onboarding, b.messaging = open(t, b.config.OnboardingDatabaseURL), open(t, b.config.MessagingDatabaseURL)
	subscriber.Watch(t, b.onboarding, "event_outbox", "events")
	t.Cleanup(func() {
		b.stop(t)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, b.vendors.Stop(ctx))
		b.log.requireDiscreet(t, b)
	})
	return b
}

// start brings the services up, on the databases and addresses that they had before. What is changed in the environment
// stays changed.
func (b *bundle) start(t *testing.T, changes ...string) {
	t.Helper()
	b.config.Environ = maps.Clone(b.config.Environ)
	for i := 0; i < len(changes); i += 2 {
		b.config.Environ[changes[i]] = changes[i+1]
	}
	var err error
	b.services, err = stack.StartServices(t.Context(), b.vendors, b.config)
	require.NoError(t, err)
}

// stop ends the services as SIGTERM does, if they run.
func (b *bundle) stop(t *testing.T) {
	t.Helper()
	if b.services != nil {
		b.http.CloseIdleConnections()
		require.NoError(t, b.services.Stop(context.WithoutCancel(t.Context())))
		b.services = nil
	}
}

// restart stops the services and starts them again.
func (b *bundle) restart(t *testing.T, changes ...string) {
	t.Helper()
	b.stop(t)
	b.start(t, changes...)
}

// idle waits until nothing is in flight at the vendors, at the clock's present.
func (b *bundle) idle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, b.vendors.Idle(ctx))
}

// rest lets pass whatever time the vendors still have plans for.
func (b *bundle) rest(t *testing.T) {
	t.Helper()
	for b.idle(t); b.clock.AdvanceToNext(); b.idle(t) {
	}
}

// tick is by how much the clock moves when the vendors plan nothing and a loop of a service has to act, and how long it
// gets for that.
const (
	tick     = 250 * time.Millisecond
	tickTook = 5 * time.Millisecond
)

// until lets time pass until something is so: from one of the vendors' plans to the next, and in small steps where there is
// none, for the services' own loops work in real time and only read the clock.
func (b *bundle) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(tickTook)
	defer ticker.Stop()
	for slack := slack; ; {
		require.NoError(t, b.vendors.Idle(ctx), what)
		if reached() {
			return
		}
		if slack > 0 && b.busy(t) {
			slack -= tickTook
		} else {
			if b.advance() {
				continue
			}
			b.wake(t)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			require.FailNow(t, "it never came to this: "+what)
		}
	}
}

// advance moves the clock to the vendors' next plan, or by a tick when they have none. It reports which.
func (b *bundle) advance() (planned bool) {
	b.standstill.Lock()
	defer b.standstill.Unlock()
	planned = b.clock.AdvanceToNext()
	if !planned {
		b.clock.Advance(tick)
	}
	return planned
}

// slack bounds the time, in real time, for which until waits for busy services before it takes what they do for abandoned: then only a
// lease brings it to an end. It is longer than any call to Twilio may take here.
const slack = 2 * time.Second

// busy reports whether a service is in the middle of something that neither vendor knows of, such as a send after its caller
// has lost it. The clock waits for that: work takes no time on it, or a lease would run out under a worker that is merely slow.
func (b *bundle) busy(t *testing.T) bool {
	t.Helper()
	return count(t, b.messaging, `select count(*) from sms_messages where status = 'sending'`) > 0 ||
		count(t, b.onboarding, `select count(*) from webhook_jobs where status = 'processing'`) > 0
}

// wake tells the loops to look, as the database does when another process leaves them something: their polls are seconds apart.
func (b *bundle) wake(t *testing.T) {
	t.Helper()
	_, err := b.onboarding.Exec(t.Context(), "select pg_notify($1, ''), pg_notify($2, '')", conversation.ChannelAlarms, conversation.ChannelJobs)
	require.NoError(t, err)
}

// count is the answer to a query for one number.
func count(t *testing.T, db *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// ports hands every address out once. It is shared so that no stack takes what another one has let go to start again.
var ports atomic.Int64

// addresses stay ours over a restart: below the range that the kernel hands out by itself.
func addresses(t *testing.T) stack.Addresses {
	t.Helper()
	return stack.Addresses{
		Gateway: address(t), GatewayOps: address(t), Onboarding: address(t), OnboardingOps: address(t),
		Messaging: address(t), MessagingOps: address(t),
	}
}

func address(t *testing.T) string {
	t.Helper()
	const first, last = 10_000, 32_000
	begin, err := rand.Int(rand.Reader, big.NewInt((last-first)/2)) // another run of these tests begins elsewhere
	require.NoError(t, err)
	ports.CompareAndSwap(0, first+begin.Int64())
	for port := ports.Add(1); port < last; port = ports.Add(1) {
		addr := net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		return addr
	}
	require.FailNow(t, "no port is left")
	return ""
}
