package stack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/subscriber"
	"paceline.internal/platform/rpc"
)

// eventJSON is an event as a host application reads it.
type eventJSON struct {
	Specversion string         `json:"specversion"`
	ID          string         `json:"id"`
	Source      string         `json:"source"`
	Type        string         `json:"type"`
	Subject     string         `json:"subject"`
	Time        time.Time      `json:"time"`
	Seq         string         `json:"seq"`
	Causationid string         `json:"causationid"`
	Data        map[string]any `json:"data"`
}

// collected are the events that came over one way, each once.
type collected struct {
	mu  sync.Mutex
	ids map[string]bool
	all []eventJSON
}

func (c *collected) add(e eventJSON) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	if !c.ids[e.ID] {
		c.ids[e.ID], c.all = true, append(c.all, e)
	}
}

func (c *collected) seen() []eventJSON {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// typesOf returns the types of a person's events.
func typesOf(events []eventJSON, subject string) (types []string) {
	for _, e := range events {
		if e.Subject == subject {
			types = append(types, e.Type)
		}
	}
	return types
}

// TestEvents has one conversation told by all three ways: the log, the stream of a reader that is cut off in between, and a subscription.
func TestEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, "EVENTS_ALLOW_PRIVATE_TARGETS", "127.0.0.0/8")
	var posted, streamed collected
	var judge *standardwebhooks.Webhook
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var e eventJSON
		if err == nil {
			err = judge.VerifyIgnoringTimestamp(body, r.Header) // the stack's clock is not the machine's
		}
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		if err == nil {
			err = subscriber.CheckPost(r.Header, body)
		}
		if err != nil {
			t.Errorf("an event that cannot be taken: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		posted.add(e)
	}))
	defer host.Close()
	var created struct {
		Subscription struct {
			SubscriptionID string `json:"subscription_id"`
		} `json:"subscription"`
		Secret string `json:"secret"`
	}
	b.call(t, http.MethodPost, "/v1/event-subscriptions", map[string]any{"url": host.URL, "include": []string{"body"}}, &created)
	var err error
	judge, err = standardwebhooks.NewWebhook(created.Secret)
	require.NoError(t, err)
	b.until(t, "messaging writes what is wanted", func() bool { return count(t, b.messaging, `select count(*) from event_types`) > 0 })

	follow := func(until int) {
		last := "0"
		if seen := streamed.seen(); len(seen) > 0 {
			last = seen[len(seen)-1].Seq
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for e := range b.streams(ctx, t, last) {
			if streamed.add(e); len(streamed.seen()) == until {
				return
			}
		}
		require.Fail(t, "the stream ended")
	}

	p := b.enrol(t, "en")
	p.activate(t)
	follow(3)
	p.says(t, p.greets)
	p.says(t, p.begins)
	b.until(t, "the burst is over", func() bool { return p.session(t).StateToken == atInterview })
	p.says(t, p.ready)
	p.says(t, "STOP")
	b.rest(t)
	b.until(t, "all is told", func() bool {
		told := typesOf(posted.seen(), p.id)
		delivered := 0
		for _, kind := range told {
			if kind == "message.delivered" {
				delivered++
			}
		}
		return slices.Contains(told, "consent.opted_out") && delivered == len(p.heard())
	})

	var log []eventJSON
	for after := "0"; ; {
		var page struct {
			Events    []eventJSON `json:"events"`
			NextAfter string      `json:"next_after"`
		}
		b.call(t, http.MethodGet, "/v1/events?page_size=7&after="+after, nil, &page)
		if len(page.Events) == 0 {
			break
		}
		log, after = append(log, page.Events...), page.NextAfter
	}
	types := typesOf(log, p.id)
	of := func(prefixes ...string) (some []string) {
		for _, kind := range types {
			if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(kind, prefix) }) {
				some = append(some, kind)
			}
		}
		return some
	}
	require.Equal(t, []string{
		"session.activated", "session.advanced", "session.advanced", "session.advanced", "session.advanced", "session.advanced", "session.advanced",
		"session.completed", "session.stopped",
	}, of("session."))
	require.Equal(t, []string{"consent.opted_in", "consent.opted_out"}, of("consent."))
	sent := len(p.heard())
	require.Len(t, of("message.accepted"), sent)
	require.Len(t, of("message.delivered"), sent)
	require.Len(t, of("message.received"), 4)
	require.NotEmpty(t, of("engagement.state_changed"))

	follow(len(log))
	require.Equal(t, log, streamed.seen(), "the stream tells what the log has, over a break")
	b.until(t, "all is posted", func() bool { return len(posted.seen()) == len(log) })
	for i := range log {
		require.NotContains(t, log[i].Data, "body")
	}
	bodies := 0
	for _, e := range posted.seen() {
		if e.Data["body"] != nil {
			bodies++
			delete(e.Data, "body")
		}
		at := slices.IndexFunc(log, func(l eventJSON) bool { return l.ID == e.ID })
		require.Equal(t, log[at], e, "what is posted is what is read")
	}
	require.Positive(t, bodies)
	ofPerson := slices.DeleteFunc(posted.seen(), func(e eventJSON) bool { return e.Subject != p.id })
	require.True(t, slices.IsSortedFunc(ofPerson, func(a, b eventJSON) int { return seqOf(t, a) - seqOf(t, b) }))

	var kept string
	require.NoError(t, b.onboarding.QueryRow(t.Context(), `select string_agg(data::text || subject || causation_id, ' ') from events`).Scan(&kept))
	require.NotContains(t, kept, strings.TrimPrefix(p.phone, "+"))
	require.NotContains(t, kept, p.greets)
	user, err := b.config.Secrets.APIToken(p.id, stack.OrgID, rpc.RoleUser, b.clock.Now(), time.Hour)
	require.NoError(t, err)
	for _, path := range []string{"/v1/events", "/v1/events:stream", "/v1/event-subscriptions"} {
		require.Equal(t, "REASON_PERMISSION_DENIED", b.refused(t, user, http.MethodGet, path, nil, http.StatusForbidden))
	}
}

func seqOf(t *testing.T, e eventJSON) int {
	t.Helper()
	n, err := strconv.Atoi(e.Seq)
	require.NoError(t, err)
	return n
}

// streams reads server-sent events behind a number until ctx or the reader ends it.
func (b *bundle) streams(ctx context.Context, t *testing.T, after string) func(yield func(eventJSON) bool) {
	t.Helper()
	return func(yield func(eventJSON) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.services.URL()+"/v1/events:stream", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+b.operator)
		req.Header.Set("Last-Event-ID", after)
		resp, err := b.http.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }() // it is broken off
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var e eventJSON
			require.NoError(t, json.Unmarshal([]byte(data), &e))
			if !yield(e) {
				return
			}
		}
	}
}
