package bench

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/process"
)

// request is one that an outside program makes of the gateway. Its error is an answer that it should not have got.
type request func(ctx context.Context) error

// workload is what is measured.
type workload interface {
	// seed makes n pieces of it possible in the database of a service.
	seed(ctx context.Context, database, service string, n int) error
	requests(ctx context.Context, p *place, urls map[string]string, n int, now time.Time) ([]request, error)
	// done returns once n pieces are, which may be after they were answered.
	done(ctx context.Context, urls map[string]string, n int) error
	// examine is an error unless n pieces were done exactly once.
	examine(ctx context.Context, urls map[string]string, stubs *stubs, n int) error
}

func workloads() map[string]func(backlog int) workload {
	return map[string]func(int) workload{
		"steps":    func(int) workload { return dueSteps{} },
		"replies":  func(int) workload { return replies{} },
		"receipts": func(int) workload { return receipts{} },
		"webhooks": func(backlog int) workload { return webhooks{backlog: backlog} },
	}
}

const (
	// webhookKey signs what comes as Kapso's. The processes of a measurement are on this machine alone, and end with it.
	webhookKey = "a key of a measurement"
	// doneBound is how long what was answered may take until it is done, and donePoll how often that is looked at.
	doneBound = 5 * time.Minute
	donePoll  = 5 * time.Millisecond
)

// until waits until a count has come to n.
func until(ctx context.Context, database, sql string, n int) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, doneBound, errors.New("what was answered is not done"))
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for {
		var count int
		if err := conn.QueryRow(ctx, sql).Scan(&count); err != nil {
			return err
		}
		if count >= n {
			return nil
		}
		if !process.RestOnMachineClock(ctx, donePoll, nil) {
			return fmt.Errorf("%w: %d of %d", context.Cause(ctx), count, n)
		}
	}
}

// post makes a request that must be answered with this status, and returns what was said.
func (p *place) post(ctx context.Context, target, body string, header map[string]string, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<12))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != want {
		return nil, fmt.Errorf("%s was answered %d: %s", target, response.StatusCode, said)
	}
	return said, nil
}

// fromTwilio is a callback of Twilio's, signed.
func (p *place) fromTwilio(target string, form url.Values) request {
	header := map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "X-Twilio-Signature": twilio.Sign(p.environ["TWILIO_AUTH_TOKEN"], target, form),
	}
	return func(ctx context.Context) error {
		_, err := p.post(ctx, target, form.Encode(), header, http.StatusOK)
		return err
	}
}

// replies are answers to an opening: each is stored, recorded by messaging, and answered by the explanation.
type replies struct{}

func (replies) seed(ctx context.Context, database, service string, n int) error {
	if err := seedSteps(ctx, database, service, n); err != nil || service != stack.Onboarding {
		return err
	}
	return execEach(ctx, database, `delete from step_alarms`,
		`update conversation_sessions set next_step_id = null, state_token = 'onboarding:awaiting_opening_response'`, `vacuum analyze`)
}

func (replies) requests(_ context.Context, p *place, _ map[string]string, n int, _ time.Time) ([]request, error) {
	target := p.origin + "/api/webhooks/twilio/inbound"
	all := make([]request, n)
	for i := range all {
		form := url.Values{
			"MessageSid": {fmt.Sprintf("SM%032x", 1<<40+i)}, "From": {"+1415" + strconv.Itoa(2000001+i)}, "To": {stack.FromNumber},
			"Body": {"yes please"}, "NumMedia": {"0"}, "NumSegments": {"1"}, "AccountSid": {p.environ["TWILIO_ACCOUNT_SID"]},
		}
		all[i] = p.fromTwilio(target, form)
	}
	return all, nil
}

const sqlReplied = `select count(*) from conversation_sessions where state_token = 'onboarding:awaiting_explanation_response'`

func (replies) done(ctx context.Context, urls map[string]string, n int) error {
	return until(ctx, urls["onboarding"], sqlReplied, n)
}

func (replies) examine(ctx context.Context, urls map[string]string, stubs *stubs, n int) error {
	var in, out, jobs int
	if err := errors.Join(
		queryRow(ctx, urls["messaging"], `select count(*) filter (where direction = 'inbound'),
			count(twilio_sid) filter (where direction = 'outbound') from sms_messages`, &in, &out),
		queryRow(ctx, urls["onboarding"], `select count(*) from webhook_jobs where status = 'completed'`, &jobs),
	); err != nil {
		return err
	}
	if taken := int(stubs.taken.Load()); in != n || out != n || jobs != n || taken != n {
		return fmt.Errorf("of %d replies %d are recorded, %d answered, %d jobs completed, and Twilio took %d", n, in, out, jobs, taken)
	}
	return nil
}

// receipts are what Twilio reports of texts that it has accepted, each of them delivered.
type receipts struct{}

// sqlQueued are $1 texts that Twilio has queued.
const sqlQueued = `
insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid, attempts,
	lease_until, segments, attempted_at, correlation_id, accepted_at, unknown_policy, created_at, attempt_token, updated_at)
select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, $2::uuid, 'outbound', $3, '+1415' || (2000000 + n), 'hello',
	sha256('hello'), 'accepted:' || n, 'queued', 'SM' || lpad(to_hex(n), 32, '0'), 1, now(), 1, now(), '', now(), 'never_duplicate', now(),
	gen_random_uuid(), now()
from generate_series(1, $1::integer) n`

func (receipts) seed(ctx context.Context, database, service string, n int) (err error) {
	if service != stack.Messaging {
		return nil
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, sqlQueued, n, stack.OrgID, stack.FromNumber); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "vacuum analyze")
	return err
}

func (receipts) requests(_ context.Context, p *place, _ map[string]string, n int, _ time.Time) ([]request, error) {
	all := make([]request, n)
	for i := range all {
		target := fmt.Sprintf("%s/api/webhooks/twilio/status?message_id=01900000-0000-7000-8000-%012x", p.origin, i+1)
		form := url.Values{
			"MessageSid": {fmt.Sprintf("SM%032x", i+1)}, "MessageStatus": {"delivered"}, "AccountSid": {p.environ["TWILIO_ACCOUNT_SID"]},
		}
		all[i] = p.fromTwilio(target, form)
	}
	return all, nil
}

const sqlDelivered = `select count(*) from sms_messages where status = 'delivered'`

func (receipts) done(ctx context.Context, urls map[string]string, n int) error {
	return until(ctx, urls["messaging"], sqlDelivered, n)
}

func (receipts) examine(ctx context.Context, urls map[string]string, _ *stubs, n int) error {
	var delivered, kept int
	const sql = `select (` + sqlDelivered + `), (select count(distinct message_id) from sms_receipts)`
	if err := queryRow(ctx, urls["messaging"], sql, &delivered, &kept); err != nil {
		return err
	}
	if delivered != n || kept != n {
		return fmt.Errorf("of %d texts %d are delivered, and %d receipts are kept", n, delivered, kept)
	}
	return nil
}

// webhooks are events that only take a job: a person's answer to a survey. Some of another organisation's may wait already.
type webhooks struct{ backlog int }

// sqlBacklog lets $1 events wait that nothing can be done about for an hour, as one that is throttled does.
const sqlBacklog = `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select gen_random_uuid(), '01900000-0000-7000-8000-0000000000bb', 'waits:' || n, 'kapso', 'kapso.survey.response', '+1415' || (3000000 + n),
	'{"score": 9}', 'pending', now() + interval '1 hour', now(), now() from generate_series(1, $1::integer) n`

func (w webhooks) seed(ctx context.Context, database, service string, _ int) (err error) {
	if service != stack.Onboarding {
		return nil
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, sqlBacklog, w.backlog); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "vacuum analyze")
	return err
}

func (webhooks) requests(_ context.Context, p *place, _ map[string]string, n int, _ time.Time) ([]request, error) {
	target := p.origin + "/api/webhooks/kapso"
	all := make([]request, n)
	for i := range all {
		body := fmt.Sprintf(`{"score": %d, "feedback": "it was all right"}`, i%11)
		sum := hmac.New(sha256.New, []byte(webhookKey))
		_, _ = io.WriteString(sum, body) // a hash never fails to write
		header := map[string]string{
			"Content-Type": "application/json", "X-Webhook-Event": "kapso.survey.response", "X-Idempotency-Key": "survey:" + strconv.Itoa(i),
			"X-Webhook-Payload-Version": "v2", "X-Webhook-Signature": hex.EncodeToString(sum.Sum(nil)),
		}
		all[i] = func(ctx context.Context) error {
			_, err := p.post(ctx, target, body, header, http.StatusAccepted)
			return err
		}
	}
	return all, nil
}

const sqlSurveysDone = `select count(*) from webhook_jobs where status = 'completed'`

func (webhooks) done(ctx context.Context, urls map[string]string, n int) error {
	return until(ctx, urls["onboarding"], sqlSurveysDone, n)
}

func (w webhooks) examine(ctx context.Context, urls map[string]string, _ *stubs, n int) error {
	var done, all int
	const sql = `select count(*) filter (where status = 'completed'), count(*) from webhook_jobs`
	if err := queryRow(ctx, urls["onboarding"], sql, &done, &all); err != nil {
		return err
	}
	if done != n || all != n+w.backlog {
		return fmt.Errorf("of %d webhooks %d were done, and %d jobs are there beside a backlog of %d", n, done, all, w.backlog)
	}
	return nil
}

func execEach(ctx context.Context, database string, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
