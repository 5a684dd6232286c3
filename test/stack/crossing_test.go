package stack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
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
	parameter := regexp.MustCompile(`\{\w+\}`)
	d := b.requests(t)
	for _, caller := range callers {
		for path, methods := range d.Paths {
			if !strings.HasPrefix(path, "/v1/") || slices.Contains(crossesElsewhere, path) {
				continue
			}
			address := parameter.ReplaceAllStringFunc(path, func(name string) string {
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
				query := ""
				if method == "get" && !strings.Contains(path, "{") {
					query = "?page_size=500"
				}
				for _, q := range []string{"", query} {
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
	t.Logf("%d calls with what is another organisation's", calls)
	require.Empty(t, crossed)
	require.Greater(t, calls, 600)
	require.Equal(t, before, b.standing(t, b.operatorOrg()), "nothing there has changed")
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
