package stack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/senders"
)

// token is one of /v1, signed as the deployment does.
func (b *bundle) token(t *testing.T, role, orgID, subject string) string {
	t.Helper()
	now := time.Now
	signed, err := b.config.Secrets.APIToken(subject, orgID, rpc.Role(role), now(), time.Hour)
	require.NoError(t, err)
	return signed
}

// crossesElsewhere are the routes that are no calls: attackDevices has the one of devices, and TestCrossingEdges that of events.
var crossesElsewhere = []string{connectDevice, "/v1/events:stream"} //nolint:gochecknoglobals // a constant list

// without are the parameters of things that only failures make, so that the other organisation has none: a guess is sent. TestCrossingRPC
// sends all ids that there are for them.
var without = []string{"{outreach_id}", "{dead_letter_id}", "{delivery_id}"} //nolint:gochecknoglobals // a constant list

// TestCrossing calls every route of /v1 with the ids and idempotency keys of another organisation, as its operator, its app and one of its
// users, and with a key. No answer has anything of the other organisation, and nothing there changes. That rows are hidden from whatever
// statement is TestTenants' to show, of every table.
func TestCrossing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	keyset, err := senders.NextKeyset("")
	require.NoError(t, err)
	b := setup(t, "SENDER_KEYSET", keyset)
	p := b.begin(t)
	b.rest(t)
	text := b.queue(t, map[string]any{"to": p.phone, "purpose": "otp", "body": "Your code is 1234.", "idempotency_key": "theirs-1"})
	var sessions, messages, made map[string]any
	b.call(t, http.MethodGet, "/v1/sessions?profile_id="+p.id, nil, &sessions)
	b.call(t, http.MethodGet, "/v1/messages?profile_id="+p.id, nil, &messages)
	b.call(t, http.MethodPost, "/v1/api_keys", map[string]any{"name": "theirs", "role": "operator"}, &made)
	ids := map[string]string{
		"{profile_id}": p.id, "{session_id}": first(t, sessions, "sessions", "session_id"), "{message_id}": first(t, messages, "messages", "message_id"),
		"{phone}": p.phone, "{text_id}": text.TextID, "{api_key_id}": first(t, map[string]any{"keys": []any{made["api_key"]}}, "keys", "api_key_id"),
	}
	b.furnish(t, p)
	b.settles(t)
	deviceID, runID := b.runs(t, p)
	ids["{device_id}"] = deviceID
	theirs := b.robbed(t, b.operatorOrg())
	before := b.standing(t, b.operatorOrg())
	ours := uuid.NewString()
	operator := b.token(t, "operator", ours, "mallory")
	status, answer := b.try(t, operator, http.MethodPost, "/v1/api_keys", map[string]any{"name": "ours", "role": "operator"})
	require.Equal(t, http.StatusCreated, status, "%s", answer)
	var key struct{ Key string }
	require.NoError(t, json.Unmarshal(answer, &key))

	callers := []string{operator, b.token(t, "app", ours, "shop"), b.token(t, "user", ours, p.id), key.Key}
	calls, crossed := b.attackDevices(t, deviceID, runID, callers), []string{}
	d := b.requests(t)
	addressOf := func(path string) string {
		return parameters.ReplaceAllStringFunc(path, func(name string) string {
			if id := ids[name]; id != "" {
				return id
			}
			id := theirs.of(strings.Trim(name, "{}"))
			if id == "" && slices.Contains(without, name) {
				return p.id
			}
			require.NotEmpty(t, id, "%s: the other organisation has no %s, so nothing is attacked", path, name)
			return id
		})
	}
	pages := b.pagesOf(t, d, theirs, addressOf)
	for _, caller := range callers {
		for path, methods := range d.Paths {
			if !strings.HasPrefix(path, "/v1/") || slices.Contains(crossesElsewhere, path) {
				continue
			}
			address := addressOf(path)
			for method, o := range methods {
				var body any
				if example := o.RequestBody.Content["application/json"].Example; example != nil {
					stolen := map[string]any{}
					for field, value := range example {
						stolen[field] = value
						if id := ids["{"+field+"}"]; id != "" {
							stolen[field] = id
						}
					}
					if _, has := stolen["idempotency_key"]; has {
						stolen["idempotency_key"] = "theirs-1"
					}
					body = stolen
				}
				queries := []string{"", ""}
				if method == "get" && !strings.Contains(path, "{") {
					queries[1] = "?page_size=500"
				}
				if method == "get" {
					queries = append(queries, pages[path]...)
				}
				for _, q := range queries {
					_, answer := b.try(t, caller, strings.ToUpper(method), address+q, body)
					calls++
					said := strings.ReplaceAll(string(answer), address, "")
					if path == "/v1/audit" { // it names what they asked for themselves
						require.NotRegexp(t, `"subject":\s*"(operator|paceline)`, said)
						continue
					}
					if leaked := theirs.leaks(fmt.Sprint(address, body, p.id), said); len(leaked) > 0 {
						crossed = append(crossed, fmt.Sprintf("%s %s: %v: %s", method, path, leaked, answer))
					}
				}
			}
		}
	}
	calls += b.revokedMidway(t, operator)
	t.Logf("%d calls with what is another organisation's, %d lists by its cursors", calls, len(pages))
	require.Empty(t, crossed)
	require.Greater(t, calls, 600)
	require.Equal(t, before, b.standing(t, b.operatorOrg()), "nothing there has changed")
}

// pagesOf returns the queries that go on with a list of the other organisation, by the path: from where its owner has begun it, and from places
// that are made up.
func (b *bundle) pagesOf(t *testing.T, d requests, l loot, addressOf func(path string) string) map[string][]string {
	t.Helper()
	pages, begun := map[string][]string{}, 0
	for path, methods := range d.Paths {
		for _, parameter := range methods["get"].Parameters {
			if parameter.Name != "page_token" {
				continue
			}
			_, answer := b.try(t, b.operator, http.MethodGet, addressOf(path)+"?page_size=1", nil)
			var page struct {
				Next string `json:"next_page_token"`
			}
			if json.Unmarshal(answer, &page) == nil && page.Next != "" {
				pages[path] = []string{"?page_size=1&page_token=" + url.QueryEscape(page.Next)}
				begun++
			}
			for _, cursor := range l.cursors() {
				pages[path] = append(pages[path], "?page_token="+cursor)
			}
		}
		if path == "/v1/events" {
			pages[path] = []string{"?after=1", "?after=3&page_size=1"}
		}
	}
	require.Greater(t, len(pages), 20)
	require.Greater(t, begun, 5, "a list of one page has no cursor")
	return pages
}

// revokedMidway revokes a key while its request waits for a row: that request ends as it began, and the next one is refused within five
// seconds. It returns the number of calls.
func (b *bundle) revokedMidway(t *testing.T, operator string) (calls int) {
	t.Helper()
	var of struct {
		Key    string `json:"key"`
		APIKey struct {
			ID string `json:"api_key_id"`
		} `json:"api_key"`
	}
	status, answer := b.try(t, operator, http.MethodPost, "/v1/api_keys", map[string]any{"name": "midway", "role": "operator"})
	require.Equal(t, http.StatusCreated, status, "%s", answer)
	require.NoError(t, json.Unmarshal(answer, &of))
	key := of.Key
	var made struct {
		Profile profileJSON `json:"profile"`
	}
	status, answer = b.try(t, key, http.MethodPost, "/v1/profiles", map[string]string{"phone": "+14155552077", "first_name": "Ours", "locale": "en"})
	require.Equal(t, http.StatusCreated, status, "%s", answer)
	require.NoError(t, json.Unmarshal(answer, &made))
	held, err := b.onboarding.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = held.Rollback(context.Background()) }() // when the test ends early
	_, err = held.Exec(t.Context(), `select from profiles where id = $1 for update`, made.Profile.ProfileID)
	require.NoError(t, err)
	slow, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
		"http://"+b.config.Addresses.Gateway+"/v1/profiles/"+made.Profile.ProfileID, strings.NewReader(`{"first_name": "Later"}`))
	require.NoError(t, err)
	slow.Header.Set("Content-Type", "application/json")
	slow.Header.Set("Authorization", "Bearer "+key)
	running := make(chan int, 1)
	go func() {
		defer close(running)
		if resp, err := b.http.Do(slow); err == nil {
			running <- resp.StatusCode
			_ = resp.Body.Close()
		}
	}()
	b.until(t, "the request waits", func() bool {
		return count(t, b.onboarding, `select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%profiles%'`) > 0
	})
	status, answer = b.try(t, operator, http.MethodDelete, "/v1/api_keys/"+of.APIKey.ID, nil)
	require.Equal(t, http.StatusOK, status, "%s", answer)
	promised, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, held.Rollback(t.Context()))
	require.Equal(t, http.StatusOK, <-running, "what was let on is answered")
	b.until(t, "the key is refused", func() bool {
		status, _ := b.try(t, key, http.MethodGet, "/v1/profiles/"+made.Profile.ProfileID, nil)
		calls++
		return status == http.StatusUnauthorized
	})
	require.NoError(t, promised.Err(), "within five seconds")
	return calls + 5
}

// operatorOrg is the organisation of the sender.
func (b *bundle) operatorOrg() string { return "00000000-0000-7000-8000-000000000001" }

// first is a field of the first element of a list.
func first(t *testing.T, answer map[string]any, list, field string) string {
	t.Helper()
	all, ok := answer[list].([]any)
	require.True(t, ok && len(all) > 0, "%s is empty", list)
	one, ok := all[0].(map[string]any)
	require.True(t, ok)
	id, ok := one[field].(string)
	require.True(t, ok)
	return id
}
