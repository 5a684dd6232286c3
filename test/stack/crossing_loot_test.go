package stack_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/rpc"
)

// canary is in every text of the organisation that is attacked: its people, its messages, its keys and its flows.
const canary = "Quetzalia"

// loot is all that an organisation has, as its rows hold it.
type loot struct {
	orgID   string
	ids     map[string][]string // by the column or the table that they are in
	first   []string            // the id of one row of each table that has ids
	secrets []string            // what no answer to another organisation may hold
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// robbed reads the loot of an organisation from the rows of both services. An id that another organisation has as well is none.
func (b *bundle) robbed(t *testing.T, orgID string) loot {
	t.Helper()
	l := loot{orgID: orgID, ids: map[string][]string{}}
	theirs, others := map[string]bool{orgID: true}, map[string]bool{}
	for _, db := range []*pgxpool.Pool{b.onboarding, b.messaging} {
		for _, table := range tenantTables(t, db) {
			for of, row := range rowsOf(t, db, table) {
				for _, id := range uuids.FindAllString(row, -1) {
					if strings.HasPrefix(of, orgID) {
						theirs[id] = true
					} else {
						others[id] = true
					}
				}
				if !strings.HasPrefix(of, orgID) {
					continue
				}
				var fields map[string]any
				require.NoError(t, json.Unmarshal([]byte(row), &fields))
				for column, value := range fields {
					text, ok := value.(string)
					switch {
					case !ok || text == "":
					case column == "id":
						if l.ids[table] == nil && uuid.Validate(text) == nil {
							l.first = append(l.first, text)
						}
						l.add(table, text)
					default:
						l.add(column, text)
					}
				}
			}
		}
	}
	for id := range theirs {
		if !others[id] {
			l.secrets = append(l.secrets, id)
		}
	}
	l.secrets = append(l.secrets, canary, "Your code is 1234.")
	return l
}

// add keeps what may be an id or a number; no words.
func (l loot) add(name, text string) {
	if !strings.ContainsAny(text, " ") && !strings.Contains(text, canary) && len(l.ids[name]) < 9 && !slices.Contains(l.ids[name], text) {
		l.ids[name] = append(l.ids[name], text)
	}
}

// tables name the tables that a field of a request has its id from, where the names differ.
var tables = map[string]string{ //nolint:gochecknoglobals // a constant table
	"session_id": "conversation_sessions", "message_id": "sms_messages", "text_id": "sms_outbound_jobs", "run_id": "flow_runs",
	"job_id": "webhook_jobs", "delivery_id": "event_deliveries", "subscription_id": "event_subscriptions", "outreach_id": "engagement_outreach",
	"note_id": "ticket_notes", "saved_reply_id": "saved_replies", "dead_letter_id": "dead_letters", "ticket": "tickets", "run": "flow_runs",
	"subscription": "event_subscriptions", "device": "devices", "to": "phone", "from": "phone", "flow": "flow_id", "sid": "twilio_sid",
	"number": "from_number", "goal": "goals", "flow_id": "flow",
}

// of returns what the organisation has for a field; empty if that is not known.
func (l loot) of(field string) string {
	if field == "org_id" || field == "owner_org_id" {
		return l.orgID
	}
	for _, name := range []string{field, tables[field], strings.TrimSuffix(field, "_id") + "s"} {
		if found := l.ids[name]; len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// cursors are page tokens that lead on behind a row of the organisation, and behind all that there may be, of whatever list: a token of an older
// release is bound to none.
func (l loot) cursors() (all []string) {
	for _, id := range []string{l.of("message_id"), l.of("profile_id"), uuid.Max.String()} {
		raw := uuid.MustParse(id)
		for _, place := range []string{id, string(raw[:])} {
			all = append(all, base64.RawURLEncoding.EncodeToString([]byte(place)))
		}
	}
	return append(all, base64.RawURLEncoding.EncodeToString([]byte("1")))
}

// rows are the ids of one row of each table.
func (l loot) rows() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l.ids)) {
		if id := l.ids[name][0]; uuid.Validate(id) == nil && !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

// leaks returns what an answer holds of the other organisation, without what the caller has said themselves.
func (l loot) leaks(asked, answer string) []string {
	var found []string
	for _, secret := range l.secrets {
		if strings.Contains(answer, secret) && !strings.Contains(asked, secret) {
			found = append(found, secret)
		}
	}
	return found
}

// tenantTables are the tables of a service with rows of organisations.
func tenantTables(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `
		select c.table_name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
		where c.table_schema = 'public' and column_name = 'org_id' and table_type = 'BASE TABLE' order by 1`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

// rowsOf yields the rows of a table as JSON, by their organisation.
func rowsOf(t *testing.T, db *pgxpool.Pool, table string) func(yield func(orgID, row string) bool) {
	t.Helper()
	return func(yield func(orgID, row string) bool) {
		rows, err := db.Query(t.Context(), `select coalesce(org_id::text, ''), to_jsonb(r)::text from `+pgx.Identifier{table}.Sanitize()+` r order by 2`)
		require.NoError(t, err)
		for rows.Next() {
			var of, row string
			require.NoError(t, rows.Scan(&of, &row))
			if !yield(of, row) {
				rows.Close()
				return
			}
		}
		require.NoError(t, rows.Err())
	}
}

// standing is every row of an organisation, by its table. What loops count on their own is left out, and the feed of events: its sequencer
// moves rows there whenever it runs.
func (b *bundle) standing(t *testing.T, orgID string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, db := range []*pgxpool.Pool{b.onboarding, b.messaging} {
		for _, table := range tenantTables(t, db) {
			if slices.Contains([]string{"sms_quarters", "event_outbox", "events", "inbound_sweeps", "audit", "engagement_runs"}, table) {
				continue
			}
			for of, row := range rowsOf(t, db, table) {
				if of == orgID {
					all[table] = append(all[table], withoutWork(t, row))
				}
			}
		}
	}
	return all
}

// settles lets an organisation finish what it has begun.
func (b *bundle) settles(t *testing.T) {
	t.Helper()
	b.rest(t)
	b.until(t, "its texts are sent", func() bool {
		return count(t, b.messaging, `select count(*) from sms_outbound_jobs where status in ('pending', 'processing')`) == 0
	})
	b.rest(t)
}

// withoutWork is a row without what a worker of a queue writes, who goes on all the while. That a job was cancelled stays.
func withoutWork(t *testing.T, row string) string {
	t.Helper()
	if !strings.Contains(row, `"lease_token"`) && !strings.Contains(row, `"cursor_seq"`) {
		return row
	}
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(row), &fields))
	for _, field := range []string{
		"attempts", "updated_at", "processed_at", "error_message", "next_retry_at", "lease_token", "lease_until", "lost_leases", "failure",
		"cursor_seq", // of a subscription, up to where it has looked
	} {
		delete(fields, field)
	}
	if _, job := fields["max_attempts"]; job && fields["status"] != "cancelled" {
		delete(fields, "status")
	}
	kept, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(kept)
}

// furnish gives an organisation one of everything that /v1 makes, from the examples of the description, with the canary in its texts. What
// belongs to something else is made in the second round, with the ids of the first.
func (b *bundle) furnish(t *testing.T, p *person) {
	t.Helper()
	d, made := b.requests(t), map[string]bool{}
	second, service := stack.Second(), ""
	for service = range second.Services { // one
	}
	for key, secret := range second.APIKeys {
		b.call(t, http.MethodPost, "/v1/senders", map[string]any{
			"name": canary, "account_sid": second.SID, "api_key_sid": key, "api_key_secret": secret, "auth_token": second.AuthToken,
			"messaging_service_sid": service,
		}, nil)
	}
	for range 2 {
		l := b.robbed(t, b.operatorOrg())
		for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
			example := d.Paths[path]["post"].RequestBody.Content["application/json"].Example
			verb := strings.Contains(path, ":") && !strings.HasSuffix(path, ":start")
			if !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/organisations") || verb || example == nil || made[path] {
				continue
			}
			body := maps.Clone(example)
			for field, value := range body {
				text, _ := value.(string)
				switch id := l.of(field); {
				case field == "profile_id":
					body[field] = p.id
				case field == "to":
					body[field] = p.phone
				case field == "send_at":
					delete(body, field)
				case strings.HasSuffix(field, "_id") && id != "":
					body[field] = id
				case slices.Contains([]string{"name", "first_name", "title", "body", "goal"}, field):
					body[field] = text + " " + canary
				}
			}
			if strings.HasSuffix(path, ":start") || strings.HasSuffix(path, "/notes") {
				body["idempotency_key"] = "theirs-" + path
			}
			address := parameters.ReplaceAllStringFunc(path, func(name string) string { return l.of(strings.Trim(name, "{}")) })
			status, answer := b.try(t, b.operator, http.MethodPost, address, body)
			if made[path] = status == http.StatusOK || status == http.StatusCreated; !made[path] {
				t.Logf("not furnished: %s: %d %.200s", path, status, answer)
			}
		}
	}
}

var parameters = regexp.MustCompile(`\{\w+\}`)

// robbers are the callers of another organisation.
func robbers(ours string, l loot) []rpc.Principal {
	return []rpc.Principal{
		{Subject: "mallory", OrgID: ours, Role: rpc.RoleOperator},
		{Subject: "shop", OrgID: ours, Role: rpc.RoleApp},
		{Subject: l.of("profile_id"), OrgID: ours, Role: rpc.RoleUser},
	}
}
