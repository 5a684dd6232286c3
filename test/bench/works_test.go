package bench

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/qstash"
)

// workload is a kind of work that is measured.
type workload struct {
	seed     map[string]string // by service: SQL that stores $n pieces of work, and $backlog that wait
	requests func(tb testing.TB, s *server, p *place, databases map[string]string, n int) []request
	// done is SQL by service. It returns counts that all are n once n pieces were done exactly once.
	done map[string]string
	// sends says that each piece has Twilio asked for one message.
	sends   bool
	backlog int // how many pieces of another organisation wait, for an hour
}

// works are the benchmarks of BenchmarkWork.
var works = map[string]workload{
	"Steps": {
		seed: map[string]string{stack.Onboarding: sqlSessions + sqlAlarms, stack.Messaging: sqlConsents}, requests: dueSteps, sends: true,
		done: map[string]string{stack.Onboarding: sqlMoved, stack.Messaging: sqlAccepted},
	},
	"Replies": {
		seed:     map[string]string{stack.Onboarding: sqlSessions + sqlOpened, stack.Messaging: sqlConsents},
		requests: replies, sends: true,
		done: map[string]string{
			stack.Onboarding: `select array[(select count(*) from conversation_sessions
				where state_token = 'onboarding:awaiting_explanation_response'),
				(select count(*) from webhook_jobs where status = 'completed')]`,
			stack.Messaging: `select array[count(*) filter (where direction = 'inbound'),
				count(twilio_sid) filter (where direction = 'outbound')] from sms_messages`,
		},
	},
	"Receipts": {
		seed: map[string]string{stack.Messaging: sqlQueued}, requests: receipts,
		done: map[string]string{stack.Messaging: `select array[(select count(*) from sms_messages where status = 'delivered'),
			(select count(distinct message_id) from sms_receipts)]`},
	},
	"Webhooks": {requests: surveys, done: map[string]string{stack.Onboarding: sqlSurveyed}},
	"WebhooksBacklog": {
		seed: map[string]string{stack.Onboarding: sqlBacklog}, requests: surveys, backlog: 20_000,
		done: map[string]string{stack.Onboarding: sqlSurveyed},
	},
}

// SQL of seeds, in the names that the tables have had since the first release. A quarter of the steps is at each step of the
// flow.
const (
	sqlSessions = `
with people as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    select gen_random_uuid(), '` + stack.OrgID + `', '+1415' || (2000000 + n), 'Ana', 'en', 'America/New_York', now(), now()
    from generate_series(1, $n) n
    returning id, phone
)
insert into conversation_sessions (id, org_id, profile_id, mode, state_token, next_step_id, status, copy_version, created_at, updated_at)
select gen_random_uuid(), '` + stack.OrgID + `', id, 'onboarding', 'onboarding:awaiting_burst',
       'onboarding_message_' || right(phone, 7)::integer % 4 + 1, 'active', '2026-11', now(), now()
from people;`
	sqlAlarms = `
insert into step_alarms (id, due_at, org_id, lease_until, session_id, published_at, profile_id, created_at, step_id, expected_state_token,
    generation, qstash_message_id)
select gen_random_uuid(), at, org_id, at, id, at, profile_id, at, next_step_id, state_token, 1, 'msg_seeded'
from conversation_sessions, now() at;`
	sqlSeeded = `select session_id from step_alarms where qstash_message_id = 'msg_seeded'`
	sqlDueNow = `update conversation_sessions set step_due_at = now(), sweep_at = null where id in (` + sqlSeeded + `);
		update step_alarms set due_at = now(), published_at = now() where qstash_message_id = 'msg_seeded'`
	sqlOpened = `
update conversation_sessions set next_step_id = null, state_token = 'onboarding:awaiting_opening_response';`
	sqlConsents = `
insert into consents (org_id, phone, state, updated_at)
select '` + stack.OrgID + `', '+1415' || (2000000 + n), 'opted_in', now() from generate_series(1, $n) n;
insert into consent_events (org_id, phone, at, state, source, words, sender)
select org_id, phone, now(), 'opted_in', 'first_send', 'seeded for a measurement', '` + stack.FromNumber + `' from consents;
do $do$ begin
	if to_regclass('sms_quarters_counted') is not null then -- 0.1.0 has none
		insert into sms_quarters_counted (quarter, counted_at)
		select g, now() from generate_series(date_bin('15 minutes', now(), '2000-01-01 00:00:00Z') - interval '32 days', now(), interval '15 minutes') g;
	end if;
end $do$;`
	sqlQueued = `
insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid, attempts,
	lease_until, segments, attempted_at, correlation_id, accepted_at, unknown_policy, created_at, attempt_token, updated_at)
select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, '` + stack.OrgID + `', 'outbound', '` + stack.FromNumber + `',
	'+1415' || (2000000 + n), 'hello', sha256('hello'), 'accepted:' || n, 'queued', 'SM' || lpad(to_hex(n), 32, '0'), 1, now(), 1, now(), '',
	now(), 'never_duplicate', now(), gen_random_uuid(), now()
from generate_series(1, $n) n;`
	sqlBacklog = `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select gen_random_uuid(), '01900000-0000-7000-8000-0000000000bb', 'waits:' || n, 'kapso', 'kapso.survey.response', '+1415' || (3000000 + n),
	'{"score": 9}', 'pending', now() + interval '1 hour', now(), now() from generate_series(1, $backlog) n;`

	sqlMoved = `select array[count(*)] from conversation_sessions s
where exists (select from step_alarms a where a.session_id = s.id and a.generation = 1 and a.qstash_message_id = 'msg_seeded'
    and a.step_id is distinct from s.next_step_id)`
	sqlAccepted = `select array[count(*), count(distinct idempotency_key), count(twilio_sid)] from sms_messages`
	sqlSurveyed = `select array[count(*) filter (where status = 'completed'), count(*) filter (where idempotency_key not like 'waits:%')]
from webhook_jobs`
)

// dueStep is a step that QStash is to call for.
type dueStep struct{ Person, Session, Step, Phone string }

// due returns n due steps.
func (s *server) due(tb testing.TB, database string, n int) []dueStep {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.private.URL(database, "postgres"))
	require.NoError(tb, err)
	defer func() { require.NoError(tb, conn.Close(tb.Context())) }()
	rows, _ := conn.Query(tb.Context(), `select s.profile_id::text, s.id::text, s.next_step_id, p.phone
		from conversation_sessions s join profiles p on p.id = s.profile_id
		where s.next_step_id is not null and s.id in (`+sqlSeeded+`) order by s.id limit $1`, n) // Collect returns the error that rows carry
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dueStep])
	require.NoError(tb, err)
	require.Len(tb, due, n)
	return due
}

// body is the payload of the step's alarm.
func (d dueStep) body() []byte {
	body, err := json.Marshal(map[string]string{
		"profile_id": d.Person, "session_id": d.Session, "step_id": d.Step, "expected_state_token": "onboarding:awaiting_burst",
		"idempotency_key": "onboarding:" + d.Person + ":" + d.Session + ":" + d.Step,
	})
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return body
}

// stepTarget returns where alarms are delivered.
func (p *place) stepTarget() string { return p.origin + "/api/onboarding/step" }

// signed returns the header of a delivery of QStash.
func (p *place) signed(body []byte) (map[string]string, error) {
	signature, err := qstash.Sign(qstash.PublishedCurrentKey, p.stepTarget(), body, now())
	return map[string]string{
		"Content-Type": "application/json", qstash.HeaderSignature: signature, qstash.HeaderRetried: "0",
		qstash.HeaderMessageID: "msg_" + strconv.FormatInt(now().UnixNano(), 10),
	}, err
}

func dueSteps(tb testing.TB, s *server, p *place, databases map[string]string, n int) (all []request) {
	tb.Helper()
	for _, step := range s.due(tb, databases[stack.Onboarding], n) {
		body := step.body()
		header, err := p.signed(body)
		require.NoError(tb, err)
		all = append(all, p.posting(p.stepTarget(), string(body), header, http.StatusOK, `"outcome":"sent"`))
	}
	return all
}

// replies are answers to an opening. Each is recorded by messaging and answered by the explanation.
func replies(_ testing.TB, _ *server, p *place, _ map[string]string, n int) (all []request) {
	for i := range n {
		all = append(all, p.twilioPosting(p.origin+"/api/webhooks/twilio/inbound", url.Values{
			"MessageSid": {fmt.Sprintf("SM%032x", 1<<40+i)}, "From": {"+1415" + strconv.Itoa(2000001+i)}, "To": {stack.FromNumber},
			"Body": {"yes please"}, "NumMedia": {"0"}, "NumSegments": {"1"},
		}))
	}
	return all
}

func receipts(_ testing.TB, _ *server, p *place, _ map[string]string, n int) (all []request) {
	for i := range n {
		target := fmt.Sprintf("%s/api/webhooks/twilio/status?message_id=01900000-0000-7000-8000-%012x", p.origin, i+1)
		all = append(all, p.twilioPosting(target, url.Values{"MessageSid": {fmt.Sprintf("SM%032x", i+1)}, "MessageStatus": {"delivered"}}))
	}
	return all
}

// surveys are webhooks of Kapso that only make a job: the answer of a person to a survey.
func surveys(_ testing.TB, _ *server, p *place, _ map[string]string, n int) (all []request) {
	for i := range n {
		body := fmt.Sprintf(`{"score": %d, "feedback": "it was all right"}`, i%11)
		sum := hmac.New(sha256.New, []byte(kapsoKey))
		_, _ = io.WriteString(sum, body) // a hash never fails to write
		all = append(all, p.posting(p.origin+"/api/webhooks/kapso", body, map[string]string{
			"Content-Type": "application/json", "X-Webhook-Event": "kapso.survey.response", "X-Idempotency-Key": "survey:" + strconv.Itoa(i),
			"X-Webhook-Payload-Version": "v2", "X-Webhook-Signature": hex.EncodeToString(sum.Sum(nil)),
		}, http.StatusAccepted, ""))
	}
	return all
}
