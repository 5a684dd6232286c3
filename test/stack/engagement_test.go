package stack_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/rpc"
)

// TestEngagementInput checks what people's programs get wrong, from the route to the tables: the answer names the field and what is
// allowed, and nothing is recorded.
func TestEngagementInput(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	p := b.enrol(t, "en")
	app, err := b.config.Secrets.APIToken("shop", stack.OrgID, rpc.RoleApp, b.clock.Now(), time.Hour)
	require.NoError(t, err)
	of := "/v1/profiles/" + p.id
	action := func(changes ...string) map[string]any {
		body := map[string]any{"action": "add_expense", "source": "web", "idempotency_key": "1"}
		for i := 0; i < len(changes); i += 2 {
			body[changes[i]] = changes[i+1]
		}
		return body
	}
	tomorrow := b.clock.Now().Add(24 * time.Hour).Format(time.RFC3339)
	for _, tc := range []struct {
		name, method, path string
		body               any
		says               []string
	}{
		{"Action", http.MethodPost, of + "/actions", action("action", "fly"), []string{"action", "add_expense", "view_report"}},
		{"Source", http.MethodPost, of + "/actions", action("source", "phone"), []string{"source", "nlp, command or web"}},
		{"NoKey", http.MethodPost, of + "/actions", action("idempotency_key", ""), []string{"idempotency_key", "1 to 200"}},
		{"NoTime", http.MethodPost, of + "/actions", action("occurred_at", "yesterday"), []string{"occurred_at", "RFC 3339"}},
		{"Future", http.MethodPost, of + "/actions", action("occurred_at", tomorrow), []string{"occurred_at", "5 minutes"}},
		{
			"Income", http.MethodPost, of + "/actions",
			map[string]any{"action": "add_expense", "source": "web", "idempotency_key": "1", "attributes": map[string]string{"income": "perhaps"}},
			[]string{"attributes.income", "true or false"},
		},
		{"Reminders", http.MethodPut, of + "/preferences", map[string]string{"reminders": "rarely"}, []string{"reminders", "on or off"}},
		{"Destination", http.MethodPut, of + "/preferences", map[string]string{"destination": "moon"}, []string{"destination", "individual or group"}},
		{"Household", http.MethodPut, of + "/household", map[string]string{"household_id": "home"}, []string{"household_id", "UUID"}},
		{"Person", http.MethodGet, "/v1/profiles/ada/engagement", nil, []string{"profile_id", "UUID"}},
		{"PageSize", http.MethodGet, of + "/engagement/transitions?page_size=501", nil, []string{"page_size", "0 to 500"}},
		{"PageToken", http.MethodGet, of + "/engagement/transitions?page_token=x", nil, []string{"page_token"}},
		{"Type", http.MethodGet, "/v1/outreach?type=spam", nil, []string{"type", "goodbye"}},
		{"Status", http.MethodGet, "/v1/outreach?status=lost", nil, []string{"status", "failed"}},
		{"Outreach", http.MethodPost, "/v1/outreach/x:cancel", struct{}{}, []string{"outreach_id", "UUID"}},
		{"Job", http.MethodPost, "/v1/engagement/runs", map[string]string{"job": "hourly"}, []string{"job", "daily or weekly"}},
		{"JobOfRuns", http.MethodGet, "/v1/engagement/runs?job=hourly", nil, []string{"job", "daily or weekly"}},
		{"Since", http.MethodGet, "/v1/engagement/stats?since=monday", nil, []string{"since", "RFC 3339"}},
		{"Span", http.MethodGet, "/v1/engagement/stats?since=" + tomorrow, nil, []string{"since", "366 days"}},
		{"Locale", http.MethodPost, "/v1/profiles", map[string]string{"phone": "+5511987650099", "locale": "fr"}, []string{"locale", "en, pt-BR"}},
		{"Zone", http.MethodPost, "/v1/profiles", map[string]string{"phone": "+5511987650099", "time_zone": "Mars/Base"}, []string{"time_zone", "IANA"}},
		{"AnotherField", http.MethodPut, of + "/preferences", map[string]string{"frequency": "rare"}, []string{"unknown field", "frequency"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			token := app
			if tc.path == "/v1/engagement/runs" || tc.name == "JobOfRuns" || tc.name == "Outreach" {
				token = b.operator // an app may not ask at all
			}
			status, answer := b.try(t, token, tc.method, tc.path, tc.body)
			require.Equal(t, http.StatusBadRequest, status, "%s", answer)
			for _, words := range tc.says {
				require.Contains(t, string(answer), words)
			}
		})
	}
	t.Cleanup(func() { // when the subtests have ended
		for table, want := range map[string]int{
			"engagement_actions": 0, "user_engagement_states": 0, "engagement_outreach": 0, "engagement_runs": 0, "household_members": 0,
			"event_outbox": 0, "events": 0, "profiles": 1,
		} {
			var n int
			require.NoError(t, b.onboarding.QueryRow(context.WithoutCancel(t.Context()), "select count(*) from "+table).Scan(&n))
			require.Equal(t, want, n, table)
		}
	})
}
