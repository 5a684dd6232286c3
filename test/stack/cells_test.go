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
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/cells"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/senders"
)

// twoCells are two deployments behind one proxy, with one Twilio. The organisation acme has a sender in Twilio's second account, and is first
// in the first cell.
type twoCells struct {
	t             *testing.T
	first, second *bundle
	server        *embeddedpg.Server // of the second cell
	proxy         *front
	org           uuid.UUID
	key           string
	account       twilio.Account
	say           func(text string) // of the mover

	mu      sync.Mutex
	members []*member
	ended   atomic.Bool // nobody new comes
}

// front leads the names of organisations to their cells.
type front struct {
	url string

	mu    sync.Mutex
	cells map[string]*url.URL
}

func (f *front) lead(t *testing.T, name string, to *bundle) {
	t.Helper()
	target, err := url.Parse("http://" + to.config.Addresses.Gateway)
	require.NoError(t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cells[name] = target
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{cells: map[string]*url.URL{}}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	server := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		f.mu.Lock()
		defer f.mu.Unlock()
		r.SetURL(f.cells[r.In.Host])
	}})
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	f.url = server.URL
	return f
}

// member is a person of acme.
type member struct {
	phone, id string
	stops     bool // in the middle of the conversation
	said      int
}

// setupCells starts both.
func setupCells(t *testing.T) *twoCells {
	t.Helper()
	c := &twoCells{t: t, org: uuid.New(), account: stack.Second(), proxy: newFront(t), say: func(text string) { t.Log(text) }}
	c.first = prepare(t)
	common := []string{"PSEUDONYM_KEY", c.first.config.Environ["PSEUDONYM_KEY"], "INBOUND_SWEEP_INTERVAL", "1s", "ALARM_OVERDUE_GRACE", "10s"}
	c.startSecond(common)
	c.first.start(t, append(common, "SENDER_KEYSET", keyset(t))...)
	c.proxy.lead(t, "acme", c.first)
	c.proxy.lead(t, "default", c.first)
	c.found()
	return c
}

func keyset(t *testing.T) string {
	t.Helper()
	made, err := senders.NextKeyset("")
	require.NoError(t, err)
	return made
}

// startSecond starts the second cell, on a server that may be killed.
func (c *twoCells) startSecond(common []string) {
	c.t.Helper()
	var err error
	c.server, err = embeddedpg.Start(c.t.Context(), embeddedpg.Config{Throwaway: true})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = c.server.Stop(context.WithoutCancel(c.t.Context())) })
	b := &bundle{clock: c.first.clock, vendors: c.first.vendors, log: c.first.log, http: c.first.http, config: c.first.config}
	b.config.Addresses = addresses(c.t)
	b.config.Secrets = stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	for service, urls := range map[string][2]*string{
		"onboarding": {&b.config.OnboardingDatabaseURL, &b.config.OnboardingMigrateURL},
		"messaging":  {&b.config.MessagingDatabaseURL, &b.config.MessagingMigrateURL},
	} {
		require.NoError(c.t, c.server.EnsureService(c.t.Context(), service))
		*urls[0], *urls[1] = c.server.URL(service, embeddedpg.Serving(service)), c.server.URL(service, service)
		c.administer("grant set on parameter session_replication_role to " + service)
	}
	c.second = b
	b.start(c.t, append(common, "SENDER_KEYSET", keyset(c.t))...)
	c.t.Cleanup(func() { // its Postgres may be gone
		if b.services != nil {
			_ = b.services.Stop(context.WithoutCancel(c.t.Context()))
		}
	})
	b.onboarding, b.messaging = open(c.t, b.config.OnboardingDatabaseURL), open(c.t, b.config.MessagingDatabaseURL)
}

// administer runs a statement as the administrator of the second cell's server.
func (c *twoCells) administer(sql string) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.server.URL("postgres", "postgres"))
	require.NoError(c.t, err)
	_, err = conn.Exec(c.t.Context(), sql)
	require.NoError(c.t, err)
	require.NoError(c.t, conn.Close(c.t.Context()))
}

// found makes the organisation with its sender and a key.
func (c *twoCells) found() {
	c.t.Helper()
	secrets := c.first.config.Secrets
	platform, err := secrets.APIToken("platform", "", rpc.RolePlatform, noon, 30*24*time.Hour)
	require.NoError(c.t, err)
	operator, err := secrets.APIToken("ada", c.org.String(), rpc.RoleOperator, noon, 30*24*time.Hour)
	require.NoError(c.t, err)
	as := func(token, path string, in any) []byte {
		status, answer := c.first.try(c.t, token, http.MethodPost, path, in)
		require.Contains(c.t, []int{http.StatusOK, http.StatusCreated}, status, "%s: %s", path, answer)
		return answer
	}
	as(platform, "/v1/organisations", map[string]string{"name": "Acme", "org_id": c.org.String()})
	id := slices.Collect(maps.Keys(c.account.APIKeys))[0]
	as(operator, "/v1/senders", map[string]any{
		"name": "Acme", "account_sid": c.account.SID, "api_key_sid": id, "api_key_secret": c.account.APIKeys[id],
		"auth_token": c.account.AuthToken, "number": c.account.Numbers[0], "segments_per_second": 20,
	})
	var made struct{ Key string }
	require.NoError(c.t, json.Unmarshal(as(operator, "/v1/api_keys", map[string]string{"name": "shop", "role": "operator"}), &made))
	c.key = made.Key
	c.hears(c.first)
}

// hears has Twilio post what acme's people write to a cell: its operator changes the webhook of the number.
func (c *twoCells) hears(at *bundle) {
	c.first.vendors.Twilio.SetAccountURL(c.account.SID, "http://"+at.config.Addresses.Gateway+"/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all")
}

// ask calls /v1 of an organisation by its name.
func (c *twoCells) ask(ctx context.Context, name, token, method, path string, in any) (status int, answer []byte) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, nil
	}
	request, err := http.NewRequestWithContext(ctx, method, c.proxy.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	request.Host = name
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer response.Body.Close()
	answer, _ = io.ReadAll(response.Body)
	return response.StatusCode, answer
}

// insist repeats a call for as long as its answer says that it may: as a client does.
func (c *twoCells) insist(ctx context.Context, path string, in any) (status int, answer []byte) {
	for ctx.Err() == nil {
		if status, answer = c.ask(ctx, "acme", c.key, http.MethodPost, path, in); status != 0 && status < 500 && status != http.StatusTooManyRequests {
			return status, answer
		}
		wait(ctx, 50*time.Millisecond)
	}
	return status, answer
}

// wait lasts so long in real time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// joins enrols and activates one more person.
func (c *twoCells) joins(ctx context.Context, n int) {
	m := &member{phone: fmt.Sprintf("+1415555%04d", 3000+n), stops: n%5 == 4}
	status, answer := c.insist(ctx, "/v1/profiles", map[string]string{"phone": m.phone, "first_name": "Zuleika", "locale": "en", "time_zone": "America/Los_Angeles"})
	var made struct{ Profile profileJSON }
	if err := json.Unmarshal(answer, &made); err != nil || status != http.StatusOK && status != http.StatusCreated {
		c.t.Errorf("enrol: %d: %s", status, answer)
		return
	}
	m.id = made.Profile.ProfileID
	status, answer = c.insist(ctx, "/v1/profiles/"+m.id+":activate", struct{}{})
	if status != http.StatusOK {
		c.t.Errorf("activate: %d: %s", status, answer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = append(c.members, m)
}

func (c *twoCells) all() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

const stopsInWords = "please stop texting me"

// talk has everybody answer what they hear.
func (c *twoCells) talk(ctx context.Context) {
	for ctx.Err() == nil {
		heard := map[string]int{}
		for _, m := range c.first.vendors.Twilio.Messages() {
			if m.Direction == twilio.DirectionAPI && m.AccountSID == c.account.SID {
				heard[m.To]++
			}
		}
		for _, m := range c.all() {
			words := ""
			switch n := heard[m.phone]; {
			case m.said == 0 && n == 1:
				words = cast["en"].greets
			case m.said == 1 && n == 2 && m.stops:
				words = stopsInWords
			case m.said == 1 && n == 2:
				words = cast["en"].begins
			}
			if words != "" {
				m.said++
				_, err := c.first.vendors.Twilio.Receive(ctx, m.phone, c.account.Numbers[0], words)
				if err != nil && ctx.Err() == nil {
					c.t.Error(err)
				}
			}
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// pass lets time pass, while nothing is in the middle of something.
func (c *twoCells) pass(ctx context.Context) {
	for slack := slack; ctx.Err() == nil; wait(ctx, tickTook) {
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		_ = c.first.vendors.Idle(bounded)
		cancel()
		busy := 0
		for _, b := range []*bundle{c.first, c.second} {
			var n int
			if b.messaging.QueryRow(ctx, `select count(*) from sms_messages where status = 'sending'`).Scan(&n) == nil {
				busy += n
			}
		}
		if slack > 0 && busy > 0 {
			slack -= tickTook
			continue
		}
		c.first.clock.Advance(tick)
	}
}

// reached polls in real time until something is so.
func (c *twoCells) reached(what string, is func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 4*patience)
	defer cancel()
	for !is() {
		require.NoError(c.t, ctx.Err(), "it never came to this: "+what)
		wait(ctx, 50*time.Millisecond)
	}
}

func (c *twoCells) mover() *cells.Mover {
	source := c.first.services.Environ()
	source["ONBOARDING_DATABASE_MIGRATE_URL"] = pgtest.OwnerURL(c.t, c.first.config.OnboardingDatabaseURL)
	source["MESSAGING_DATABASE_MIGRATE_URL"] = pgtest.OwnerURL(c.t, c.first.config.MessagingDatabaseURL)
	return &cells.Mover{Org: c.org, Source: source, Target: c.second.services.Environ(), Now: c.first.clock.Now, Machine: time.Now, Say: c.say}
}

// TestOrganisationMoves: an organisation goes to another cell while its people talk and new ones join. Nothing is lost, nothing is said twice,
// and nobody who stopped hears more. Then the Postgres of that cell is killed, and the first cell does not notice.
func TestOrganisationMoves(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: make proof")
	}
	c := setupCells(t)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	load.Go(func() { c.pass(ctx) })
	load.Go(func() { c.talk(ctx) })
	var joining sync.WaitGroup
	defer joining.Wait()
	joining.Go(func() {
		for n := 0; ctx.Err() == nil && !c.ended.Load(); n++ {
			c.joins(ctx, n)
			wait(ctx, 100*time.Millisecond)
		}
	})
	c.reached("people are in the middle of it", func() bool { return len(c.all()) >= 25 })
	counted, err := c.mover().Move(t.Context())
	require.NoError(t, err)
	c.proxy.lead(t, "acme", c.second)
	c.hears(c.second)
	c.requireCounted(counted)
	before := len(c.all())
	c.reached("people join in the second cell", func() bool { return len(c.all()) >= before+5 })
	c.ended.Store(true)
	joining.Wait()
	c.reached("everybody's conversation ends", func() bool {
		return count(t, c.second.onboarding, `select count(*) from conversation_sessions where org_id = $1 and (state_token = $2 or status = 'stopped')`, c.org, atInterview) ==
			len(c.all())
	})
	c.requireKept()
	c.requireGone()
	t.Run("Repeat", func(t *testing.T) {
		_, err := c.mover().Move(t.Context())
		require.NoError(t, err, "a repeat changes nothing")
		require.Equal(t, len(c.all()), count(t, c.second.onboarding, `select count(*) from profiles where org_id = $1`, c.org))
	})
	c.requireUnmoved(ctx)
}

// requireCounted holds the report to what must have moved.
func (c *twoCells) requireCounted(counted []cells.Counted) {
	c.t.Helper()
	rows := map[string]int64{}
	for _, table := range counted {
		rows[table.Table] = table.Rows
	}
	for _, name := range []string{"profiles", "conversation_sessions", "session_transitions", "sms_messages", "consents", "consent_events", "senders", "api_keys", "events"} {
		require.Positive(c.t, rows[name], name)
	}
}

// requireKept: the second cell knows all that Twilio has, and everybody heard each text once.
func (c *twoCells) requireKept() {
	c.t.Helper()
	heard := map[string][]string{}
	for _, m := range c.first.vendors.Twilio.Messages() {
		if m.AccountSID != c.account.SID {
			continue
		}
		require.Equal(c.t, 1, count(c.t, c.second.messaging, `select count(*) from sms_messages where org_id = $1 and twilio_sid = $2`, c.org, m.SID), "each message is known once")
		if m.Direction == twilio.DirectionAPI {
			heard[m.To] = append(heard[m.To], m.Body)
		}
	}
	for _, m := range c.all() {
		p := &person{role: role{locale: "en", name: "Zuleika", phone: m.phone}, b: c.second, id: m.id}
		keys := []string{opening, explanation, message1, message2, message3, message4}
		if m.stops {
			keys = []string{opening, explanation, confirmed}
		}
		var want []string
		for _, key := range keys {
			want = append(want, p.text(c.t, key))
		}
		require.Equal(c.t, want, heard[m.phone], m.phone)
	}
	require.Zero(c.t, count(c.t, c.second.messaging, `select count(*) from sms_messages m join consent_events e on e.org_id = m.org_id and e.phone = m.to_number
		where m.org_id = $1 and m.direction = 'outbound' and e.state = 'opted_out' and m.attempted_at > e.at and m.body <> $2`, c.org, confirmed[1:]), "nothing after a STOP")
}

// requireGone: the first cell shows nothing of it, sends its callers away for now, and does not take it back.
func (c *twoCells) requireGone() {
	c.t.Helper()
	require.Zero(c.t, count(c.t, c.first.onboarding, `select count(*) from profiles where org_id = $1`, c.org))
	require.Zero(c.t, count(c.t, c.first.messaging, `select count(*) from sms_messages where org_id = $1`, c.org))
	c.reached("callers are sent away", func() bool {
		status, _ := c.first.try(c.t, c.key, http.MethodGet, "/v1/profiles", nil)
		return status == http.StatusServiceUnavailable
	})
	c.hears(c.first)
	delivery, err := c.first.vendors.Twilio.Receive(c.t.Context(), "+14155559999", c.account.Numbers[0], "hello?")
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusServiceUnavailable, delivery.StatusCode, "Twilio comes again")
	c.hears(c.second)
	platform, err := c.first.config.Secrets.APIToken("platform", "", rpc.RolePlatform, noon, 30*24*time.Hour)
	require.NoError(c.t, err)
	body := map[string]any{"end": map[string]string{"reason": "x"}}
	for _, verb := range []string{"resume", "end"} {
		var refusal []byte
		c.reached("it is refused to "+verb, func() (is bool) {
			status, answer := c.first.try(c.t, platform, http.MethodPost, "/v1/organisations/"+c.org.String()+":"+verb, body[verb])
			refusal = answer
			return status != http.StatusServiceUnavailable
		})
		require.Contains(c.t, string(refusal), "moves to another deployment")
	}
}

// requireUnmoved: while the second cell has no Postgres, the first one answers as before.
func (c *twoCells) requireUnmoved(ctx context.Context) {
	c.t.Helper()
	const calls = 100
	now := time.Now
	measure := func() (errors int, slowest time.Duration) {
		var took []time.Duration
		for range calls {
			began := now()
			if status, _ := c.ask(ctx, "default", c.first.operator, http.MethodGet, "/v1/profiles", nil); status != http.StatusOK {
				errors++
			}
			took = append(took, now().Sub(began))
		}
		slices.Sort(took)
		return errors, took[calls*95/100]
	}
	_, before := measure()
	dead, kill := context.WithCancel(c.t.Context())
	kill()
	require.NoError(c.t, c.server.Stop(dead))
	c.reached("the second cell notices", func() bool {
		status, _ := c.ask(ctx, "acme", c.key, http.MethodGet, "/v1/profiles", nil)
		return status >= http.StatusInternalServerError
	})
	errors, after := measure()
	require.Zero(c.t, errors)
	c.t.Logf("p95 of %d calls to the first cell: %s; with the second cell's Postgres killed: %s, %d errors", calls, before, after, errors)
	p := c.first.enrol(c.t, "en")
	p.activate(c.t)
	c.reached("the first cell texts on", func() bool { return len(p.heard()) == 1 })
}
