package stack_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
)

// fleet is the product as three processes, with the vendors and the databases in ours. It lives on the machine's clock.
type fleet struct {
	vendors   *stack.Vendors
	addresses stack.Addresses
	environ   map[string]string
	operator  string
	http      *http.Client
	log       string // folder of their output
	people    int

	onboarding *pgxpool.Pool

	mu       sync.Mutex
	children map[string]*stack.Child
	configs  map[string]stack.ChildConfig
	killed   time.Time // the last time
	over     bool
	problems []error
}

// quickFlow has one pause, as long as the shortest that QStash can make: it counts in seconds and rounds up.
const quickFlow = `{"version":"quick","steps":[
  {"id":"onboarding_message_1","text":"ONBOARDING_MESSAGE_1","delay_ms":0},
  {"id":"onboarding_message_2","text":"ONBOARDING_MESSAGE_2","delay_ms":200},
  {"id":"onboarding_message_3","text":"ONBOARDING_MESSAGE_3","delay_ms":0},
  {"id":"onboarding_message_4","text":"ONBOARDING_MESSAGE_4","delay_ms":0}]}`

const quickPause = 200 * time.Millisecond

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{
		addresses: addresses(t), http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
		log: t.TempDir(), children: map[string]*stack.Child{}, configs: map[string]stack.ChildConfig{},
	}
	var err error
	f.vendors, err = stack.StartVendors(t.Context(), stack.VendorConfig{Clock: clock.System()})
	require.NoError(t, err)
	f.vendors.Twilio.SetScript(twilio.Script{OnFate: func(twilio.Message) twilio.Fate { return twilio.Fate{Final: twilio.StatusSent} }})
	f.vendors.Twilio.SetInboundURL("http://" + f.addresses.Gateway + "/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all")
	flow := filepath.Join(t.TempDir(), "flow.json")
	require.NoError(t, os.WriteFile(flow, []byte(quickFlow), 0o600))
	secrets := stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	f.operator, err = secrets.APIToken("operator", stack.OrgID, rpc.RoleOperator, clock.System().Now(), time.Hour)
	require.NoError(t, err)
	f.environ = stack.ProcessEnviron(f.vendors, f.addresses, secrets)
	maps.Copy(f.environ, map[string]string{
		"ONBOARDING_DATABASE_URL": pgtest.URL(t, onboarding.Migrations()), "MESSAGING_DATABASE_URL": pgtest.URL(t, messaging.Migrations()),
		"ONBOARDING_FLOW_FILE": flow, "LOG_LEVEL": "warn", "PATH": os.Getenv("PATH"),
		"ALARM_RELAY_INTERVAL": "50ms", "ALARM_OVERDUE_GRACE": "2s", "SEND_LEASE": "2s", "TWILIO_TIMEOUT": "1s", "RECONCILE_INTERVAL": "200ms",
		"QSTASH_RETRY_DELAY": "500",
	})
	f.onboarding = open(t, f.environ["ONBOARDING_DATABASE_URL"])
	t.Cleanup(func() {
		f.http.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, f.vendors.Stop(ctx))
	})
	return f
}

// start starts all three, one of them with its own environment, until the test ends.
func (f *fleet) start(t *testing.T, one string, changed map[string]string) {
	t.Helper()
	for _, name := range []string{stack.Messaging, stack.Onboarding, stack.Gateway} {
		environ := maps.Clone(f.environ)
		if name == one {
			maps.Copy(environ, changed)
		}
		environ[asService] = name
		f.configs[name] = stack.ChildConfig{
			Name: name, Command: []string{os.Args[0]}, Environ: environ, Log: filepath.Join(f.log, name+".log"),
		}
		f.begin(name)
	}
	t.Cleanup(func() {
		f.mu.Lock()
		f.over = true
		f.mu.Unlock()
		for _, name := range []string{stack.Messaging, stack.Onboarding, stack.Gateway} {
			f.kill(name)
		}
		require.Empty(t, f.problems)
		if t.Failed() {
			f.tell(t)
		}
	})
}

// begin starts a process, unless the test is over.
func (f *fleet) begin(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	child, err := stack.StartChild(f.configs[name])
	if err != nil {
		f.problems = append(f.problems, err)
		return
	}
	f.children[name] = child
}

// kill kills a process and starts it again at once.
func (f *fleet) kill(name string) {
	f.mu.Lock()
	child := f.children[name]
	f.mu.Unlock()
	if child != nil {
		child.Kill()
	}
	f.mu.Lock()
	f.killed = clock.System().Now()
	f.mu.Unlock()
	f.begin(name)
}

// sqlLeasesOver is the time that passes until the leases of a process that was killed run out, and the loops look again. They
// are half a minute and more, which no test can wait for.
var sqlLeasesOver = []string{
	`update webhook_jobs set lease_until = updated_at where status = 'processing' and updated_at < $1::timestamptz`,
	`update step_alarms set lease_until = created_at where published_at is null and lease_until < $1::timestamptz + interval '30 s'`,
	`select pg_notify('` + conversation.ChannelAlarms + `', ''), pg_notify('` + conversation.ChannelJobs + `', '') where $1::timestamptz is not null`,
}

// bury lets the leases of dead processes run out.
func (f *fleet) bury(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	killed := f.killed
	f.mu.Unlock()
	if killed.IsZero() {
		return
	}
	for _, sql := range sqlLeasesOver {
		_, err := f.onboarding.Exec(t.Context(), sql, killed)
		require.NoError(t, err)
	}
}

// tell shows the end of what the processes wrote.
func (f *fleet) tell(t *testing.T) {
	t.Helper()
	for name := range f.configs {
		written, err := os.ReadFile(filepath.Join(f.log, name+".log"))
		require.NoError(t, err)
		t.Logf("%s:\n%s", name, written[max(0, len(written)-4000):])
	}
}

// survives plays a conversation in which the process is killed at one call, and reports whether there was that call.
func (f *fleet) survives(t *testing.T, lost *breaker, call int, when moment) bool {
	t.Helper()
	lost.arm(0, never)
	f.people++
	c := &caller{f: f, person: person{role: cast["en"]}}
	c.phone = fmt.Sprintf(c.phone, 2000+f.people)
	c.enrol(t)
	lost.arm(call, when)
	c.post(t, "/v1/profiles/"+c.id+":activate", struct{}{}, nil)
	c.hears(t, 1)
	c.says(t, c.greets)
	c.hears(t, 2)
	c.says(t, c.begins)
	c.hears(t, 6)
	if c.waitsAt(t, atInterview, interviewing) == atInterview { // a reply that had to be repeated may be there twice, and answer this as well
		c.says(t, c.ready)
		c.waitsAt(t, interviewing)
	}
	seen := lost.seen()
	lost.arm(0, never)
	c.requireWhole(t)
	return seen > call
}

// caller is a person on the machine's clock: whatever is not answered, they try again.
type caller struct {
	person

	f *fleet
}

// until waits for other processes, which have no other way to tell.
func (c *caller) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !reached() {
		c.f.bury(t)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			require.FailNow(t, "it never came to this: "+what)
		}
	}
}

func (c *caller) enrol(t *testing.T) {
	t.Helper()
	var created struct {
		Profile profileJSON `json:"profile"`
	}
	c.post(t, "/v1/profiles", map[string]string{"phone": c.phone, "first_name": c.name, "locale": c.locale}, &created)
	c.id = created.Profile.ProfileID
}

// post makes a call of the API until it succeeds.
func (c *caller) post(t *testing.T, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	require.NoError(t, err)
	var answer []byte
	c.until(t, path+" is answered", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.f.addresses.Gateway+path, bytes.NewReader(body))
		if err != nil {
			return false
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+c.f.operator)
		resp, err := c.f.http.Do(req)
		if err != nil {
			return false
		}
		answer, err = io.ReadAll(resp.Body)
		return resp.Body.Close() == nil && err == nil && resp.StatusCode == http.StatusOK
	})
	if out != nil {
		require.NoError(t, json.Unmarshal(answer, out), "%s", answer)
	}
}

func (c *caller) says(t *testing.T, text string) {
	t.Helper()
	c.until(t, "the reply arrives", func() bool {
		delivery, err := c.f.vendors.Twilio.Receive(t.Context(), c.phone, stack.FromNumber, text)
		return err == nil && delivery.StatusCode == http.StatusOK
	})
}

func (c *caller) heard() []twilio.Message {
	var ours []twilio.Message
	for _, m := range c.f.vendors.Twilio.Messages() {
		if m.To == c.phone && m.Direction == twilio.DirectionAPI {
			ours = append(ours, m)
		}
	}
	return ours
}

func (c *caller) hears(t *testing.T, n int) {
	t.Helper()
	c.until(t, fmt.Sprintf("the person hears %d texts", n), func() bool { return len(c.heard()) >= n })
}

// waitsAt waits until the session is in one of these states, and says in which. It reads the truth: no service need be up.
func (c *caller) waitsAt(t *testing.T, tokens ...string) (found string) {
	t.Helper()
	c.until(t, "the session reaches "+strings.Join(tokens, " or "), func() bool {
		err := c.f.onboarding.QueryRow(t.Context(), `select state_token from conversation_sessions where profile_id = $1`, c.id).Scan(&found)
		return err == nil && slices.Contains(tokens, found)
	})
	return found
}

// requireWhole holds the conversation to what was promised: every text once, in order and paced.
func (c *caller) requireWhole(t *testing.T) {
	t.Helper()
	var want, got []string
	for _, key := range []string{opening, explanation, message1, message2, message3, message4} {
		want = append(want, c.text(t, key))
	}
	heard := c.heard()
	for _, m := range heard {
		got = append(got, m.Body)
	}
	require.Equal(t, want, got, strings.Join(got, "\n"))
	require.GreaterOrEqual(t, heard[3].CreatedAt.Sub(heard[2].CreatedAt), quickPause)
}
