package onboarding_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/emulators/subscriber"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/reservation"
	"paceline.internal/services/onboarding/server"
	"paceline.internal/services/onboarding/session"
)

func TestMain(m *testing.M) {
	// A check of a property is a whole conversation here. -rapid.checks=1000 asks for more.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	pgtest.Run(m)
}

const (
	orgID = "00000000-0000-7000-8000-000000000001"
	ours  = "+14155550100"

	grace       = time.Minute
	generations = 3
)

// The messages in the order in which a person gets them, as sequence writes them.
const (
	opening     = string(session.TextOpening)
	explanation = string(session.TextExplanation)
	later       = string(session.TextLater)
	first       = "ONBOARDING_MESSAGE_1"
	second      = "ONBOARDING_MESSAGE_2"
	third       = "ONBOARDING_MESSAGE_3"
	fourth      = "ONBOARDING_MESSAGE_4"
)

// whole is a conversation until its last step.
var whole = []string{opening, explanation, first, second, third, fourth}

// step is the n-th step of the built-in flow.
func step(n int) session.StepID { return session.DefaultFlow().Steps()[n-1].ID }

// bundle is the onboarding service on a real database, between the emulator of QStash and a messaging service of its
// own, on one clock that stands still.
type bundle struct {
	t         *testing.T
	pool      *pgxpool.Pool
	store     *postgres.Store
	clock     *clock.Settable
	qstash    *emulator.Emulator
	alarms    *qstash.Publisher
	messaging *messagingtest.Service
	carrier   *messaging.Client
	gateway   string // where QStash calls us
	log       *logbook
	disabled  bool // the kill switch
	flow      session.Flow
	rules     rules.Config
	outcome   messagingtest.Outcome // of the message that a test is about

	skew   atomic.Int64 // by how much messaging's clock is ahead of ours, a time.Duration
	people atomic.Int64
	owned  sync.Once
	owner  *pgxpool.Pool // see exec
	serial atomic.Int64

	mu      sync.Mutex
	serving *running // the process that answers callbacks
}

// subtest runs a subtest beside the others, in surroundings of its own.
func subtest[S any](t *testing.T, name string, setup func(t *testing.T) S, run func(t *testing.T, s S)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t, setup(t))
	})
}

// atOnce calls the same thing n times at once, and returns what went wrong.
func atOnce(n int, call func() error) error {
	failures := make(chan error, n)
	for range n {
		go func() { failures <- call() }()
	}
	var all []error
	for range n {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{
		t: t, pool: pgtest.New(t, postgres.Migrations()), log: &logbook{}, flow: session.DefaultFlow(), rules: rules.DefaultConfig(),
		clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
	}
	t.Cleanup(func() { b.log.holdsNothingPersonal(t) })
	subscriber.Watch(t, b.pool, "event_outbox")
	b.store = postgres.NewStore(b.pool)
	b.messaging = messagingtest.New(orgID, ours, func() time.Time { return b.clock.Now().Add(time.Duration(b.skew.Load())) })
	b.carrier = messaging.New(b.messaging.Client(t), b.clock.Now)
	gateway := httptest.NewServer(http.HandlerFunc(b.takeCallback))
	t.Cleanup(gateway.Close)
	b.gateway = gateway.URL
	b.qstash = emulator.New(emulator.Config{Clock: b.clock})
	api := httptest.NewServer(b.qstash)
	t.Cleanup(api.Close)
	t.Cleanup(b.qstash.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := qstash.New(qstash.Config{URL: api.URL, Token: emulator.DevToken, HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	b.alarms, err = qstash.NewPublisher(qstash.PublisherConfig{
		Client: client, Origin: b.gateway, Routes: []qstash.Route{conversation.StepRoute, goals.Route},
		HashKey: []byte("a key of the tests with over 32 bytes"), Log: slog.New(slog.NewJSONHandler(b.log, nil)), Now: b.clock.Now,
	})
	require.NoError(t, err)
	b.serve(b.start(b.healthy()))
	return b
}

// running is one running service. Its ports may meet a mishap.
type running struct {
	ports    *ports
	server   *server.Server
	people   *server.Engagement
	goals    *goals.Service
	service  *conversation.Service
	runner   *queue.Runner
	outreach *queue.Runner
	relay    *outbox.Outbox[session.Alarm]
	sweeper  *outbox.Sweeper[conversation.Overdue]
}

// start wires a process as run.go does.
func (b *bundle) start(p *ports) *running {
	logger, now := slog.New(slog.NewJSONHandler(b.log, nil)), b.clock.Now
	follows := engagement.New(engagement.Config{
		Store: people{p}, Carrier: p, Transient: func(err error) bool { return errors.Is(err, errMishap) }, Rules: b.rules, Texts: catalog.DefaultEngagement(), Unknown: b.flow.UnknownSends(), Log: logger, Now: now,
	})
	later := goals.NewService(goals.Config{
		Store: goalRows{p.Store.Goals(), p}, Outbox: p.Store.Goals().Alarms(), QStash: p, Messages: p, Reach: 7 * day, RunLease: time.Minute,
		RunLimit: time.Hour, Log: logger, Now: now, Begin: func(ctx context.Context, _ goals.Alarm) (context.Context, func()) { return ctx, func() {} },
		Phone: &goals.TextPhone{Store: p, Carrier: p, Copy: catalog.DefaultEngagement(), Words: goals.DefaultWords(), Unknown: b.flow.UnknownSends(), Now: now},
	})
	texts := &goals.Texts{
		Goals: later, Store: p, Carrier: p, Copy: catalog.DefaultEngagement(), Words: goals.DefaultWords(), Unknown: b.flow.UnknownSends(),
		Log: logger, Now: now,
	}
	service := conversation.New(conversation.Config{
		OrgID: orgID, Store: p, Carrier: p, Engagement: follows, Goals: texts, Outbox: outboxRows{p}, QStash: p, Flow: b.flow, Catalog: catalog.Default(),
		SchedulingDisabled: b.disabled, Log: logger, Now: now,
	})
	service.Jobs = queue.NewRunner(queue.Config{
		Name: conversation.JobsTable, Store: jobs{p, p.Store.Jobs()}, Log: logger, Now: now, GiveUp: service.GiveUp, Handlers: service.Handlers(),
	})
	outreach := queue.NewRunner(queue.Config{
		Name: engagement.OutreachTable, Store: jobs{p, p.Store.Engagement().Queue()}, Log: logger, Now: now, GiveUp: follows.GiveUp,
		Handlers: follows.Handlers(), Backoff: engagement.OutreachBackoff, Admit: follows.Admit,
	})
	failures, err := reservation.New(&postgres.Reservations{Pool: b.pool}, reservation.Lock, logger, now)
	require.NoError(b.t, err)
	return &running{
		ports: p, goals: later, service: service, runner: service.Jobs, outreach: outreach, relay: service.Alarms,
		server:  &server.Server{Conversations: service, Engagement: catalog.DefaultEngagement(), Store: b.store, Failures: failures, Notify: func() {}, Now: now},
		people:  &server.Engagement{People: follows, Store: b.store.Engagement(), Now: now},
		sweeper: service.Sweeper(outbox.Policy{Grace: grace, MaxGenerations: generations}),
	}
}

func (b *bundle) healthy() *ports {
	return &ports{Store: b.store, carrier: b.carrier, alarms: b.alarms}
}

// serve makes p the process that answers from now on.
func (b *bundle) serve(p *running) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = p
}

// current is the process that answers; a dead one has been replaced by a healthy one.
func (b *bundle) current() *running {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serving.ports.dead() {
		b.serving = b.start(b.healthy())
	}
	return b.serving
}

// takeCallback does what the gateway does with QStash's callbacks.
func (b *bundle) takeCallback(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	ctx := telemetry.WithRequestID(rpc.WithPrincipal(r.Context(), rpc.Principal{Subject: "gateway", Role: rpc.RoleService}), "request-1")
	if r.URL.Path == conversation.StepRoute.FailurePath {
		failure, err := qstash.DecodeFailure(body)
		if err == nil {
			_, err = b.current().server.RecordStepFailure(ctx, &onboardingv1.RecordStepFailureRequest{
				SourceMessageId: failure.SourceMessageID, DlqId: failure.DeadLetterID, SourceBody: failure.SourceBody,
				Status: int32(failure.Status), Body: failure.Body, Retried: int32(failure.Retried),
				DeliveryId: r.Header.Get(qstash.HeaderMessageID),
			})
		}
		answer(w, err)
		return
	}
	if r.URL.Path == goals.Route.Path {
		var in struct {
			GoalID string `json:"goal_id"`
		}
		if err = json.Unmarshal(body, &in); err == nil {
			_, err = b.current().goals.Execute(ctx, in.GoalID)
		}
		answer(w, err)
		return
	}
	var in onboardingv1.ExecuteStepRequest
	if err := json.Unmarshal(body, &in); err != nil {
		answer(w, refusal(codes.InvalidArgument))
		return
	}
	_, err = b.current().server.ExecuteStep(ctx, &in)
	answer(w, err)
}

func refusal(code codes.Code) error { return &rpc.Error{Code: code} }

func answer(w http.ResponseWriter, err error) {
	reported, known := rpc.ErrorFrom(err)
	switch {
	case err == nil:
	case known && (reported.Code == codes.InvalidArgument || reported.Code == codes.FailedPrecondition):
		w.Header().Set(qstash.HeaderNonRetryable, "true")
		w.WriteHeader(qstash.StatusNonRetryable)
	case known && (reported.Code == codes.Unavailable || reported.Code == codes.Aborted):
		w.Header().Set("Retry-After", fmt.Sprint(int(reported.RetryAfter.Seconds())))
		w.WriteHeader(map[codes.Code]int{codes.Unavailable: http.StatusServiceUnavailable, codes.Aborted: http.StatusConflict}[reported.Code])
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// person enrols a new person.
func (b *bundle) person() conversation.Profile {
	b.t.Helper()
	p, _, err := b.current().service.Enrol(b.t.Context(), orgID, conversation.Person{
		Phone: fmt.Sprintf("+551198765%04d", b.people.Add(1)), FirstName: "Ana", TimeZone: "Africa/Abidjan",
	})
	require.NoError(b.t, err)
	return p
}

func (b *bundle) activate(p conversation.Profile) session.Record {
	b.t.Helper()
	r, err := b.current().service.Activate(b.t.Context(), orgID, p.ID, nil)
	require.NoError(b.t, err)
	return r.Record
}

// activated is a new person whose session was opened.
func (b *bundle) activated() (conversation.Profile, session.Record) {
	b.t.Helper()
	p := b.person()
	return p, b.activate(p)
}

// unscripted has messaging take all that is sent meanwhile, and the next message meet the test's outcome.
func (b *bundle) unscripted(do func()) {
	b.messaging.Script(nil)
	do()
	b.messaging.Script(messagingtest.First(b.outcome))
}

// message is a message of a person as Twilio posts it.
func (b *bundle) message(p conversation.Profile, body string) *onboardingv1.ReceiveMessageRequest {
	return &onboardingv1.ReceiveMessageRequest{
		TwilioSid: fmt.Sprintf("SM%032d", b.serial.Add(1)), From: p.Phone, To: ours, Body: body, Segments: 1,
	}
}

// reply has a person write, and says by which SID.
func (b *bundle) reply(p conversation.Profile, body string) string {
	b.t.Helper()
	m := b.message(p, body)
	b.receives(m)
	return m.GetTwilioSid()
}

// receives is a callback of Twilio, and reports whether it was a repeat.
func (b *bundle) receives(m *onboardingv1.ReceiveMessageRequest) (duplicate bool) {
	b.t.Helper()
	out, err := b.current().server.ReceiveMessage(b.t.Context(), m)
	require.NoError(b.t, err)
	return out.GetDuplicate()
}

// unrecorded has a person write while messaging cannot be reached, so that the message stays a job.
func (b *bundle) unrecorded(p conversation.Profile, body string) {
	b.t.Helper()
	b.messaging.SetDown(true)
	_, err := b.current().server.ReceiveMessage(b.t.Context(), b.message(p, body))
	require.Error(b.t, err)
	b.messaging.SetDown(false)
}

// unmute has QStash deliver everything from now on.
func (b *bundle) unmute() { b.qstash.SetFaults(emulator.Script{}) }

// mute has QStash forget every message when it is due, so that a test can execute the steps itself.
func (b *bundle) mute() {
	b.qstash.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Lose: true})})
}

// explained is a person who has read the explanation.
func (b *bundle) explained() (conversation.Profile, session.Record) {
	b.t.Helper()
	p, r := b.activated()
	b.reply(p, "Sure")
	return p, b.at(r.ID, session.AwaitingExplanationResponse, "")
}

// inBurst is a person to whom the n-th step is due, while QStash is mute.
func (b *bundle) inBurst(n int) (conversation.Profile, session.Record) {
	b.t.Helper()
	b.mute()
	p, r := b.explained()
	b.reply(p, "ok")
	for sent := 1; sent < n; sent++ {
		b.clock.Advance(10 * time.Second)
		out, err := b.execute(payload(b.session(r.ID)))
		require.NoError(b.t, err)
		require.Equal(b.t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
	}
	b.idle()
	return p, b.at(r.ID, session.AwaitingBurst, step(n))
}

// failedAtLast is a person in whose last step sending has met these outcomes, a second after the step before it.
func (b *bundle) failedAtLast(outcomes ...messagingtest.Outcome) (conversation.Profile, session.Record) {
	b.t.Helper()
	p, r := b.inBurst(4)
	b.clock.Advance(time.Second)
	b.fails(r, outcomes...)
	return p, r
}

// finished is a person to whom all steps were sent.
func (b *bundle) finished() (conversation.Profile, session.Record) {
	b.t.Helper()
	p, r := b.inBurst(4)
	b.clock.Advance(time.Second)
	_, err := b.execute(payload(r))
	require.NoError(b.t, err)
	return p, b.at(r.ID, session.AwaitingInterviewStart, "")
}

// payload is the alarm of the step that is due in a session.
func payload(r session.Record) *onboardingv1.ExecuteStepRequest {
	p := session.NewStepPayload(r.ProfileID, r.ID, r.NextStep)
	return &onboardingv1.ExecuteStepRequest{
		ProfileId: p.ProfileID, SessionId: p.SessionID, StepId: string(p.StepID),
		ExpectedStateToken: string(p.ExpectedToken), IdempotencyKey: p.IdempotencyKey,
	}
}

// execute is a callback of QStash, without QStash.
func (b *bundle) execute(in *onboardingv1.ExecuteStepRequest) (*onboardingv1.ExecuteStepResponse, error) {
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "gateway", Role: rpc.RoleService})
	return b.current().server.ExecuteStep(telemetry.WithRequestID(ctx, "request-7"), in)
}

// executes is a callback of QStash for the step that is due, which is not to fail.
func (b *bundle) executes(r session.Record) {
	b.t.Helper()
	_, err := b.execute(payload(r))
	require.NoError(b.t, err)
}

// fails is a callback of QStash that fails because sending meets these outcomes.
func (b *bundle) fails(r session.Record, outcomes ...messagingtest.Outcome) {
	b.t.Helper()
	b.messaging.Script(messagingtest.First(outcomes...))
	_, err := b.execute(payload(r))
	require.Error(b.t, err)
}

// skips asserts that an execution sends nothing and says why.
func (b *bundle) skips(reason session.SkipReason, in *onboardingv1.ExecuteStepRequest) {
	b.t.Helper()
	before := len(b.messaging.Attempts())
	out, err := b.execute(in)
	require.NoError(b.t, err)
	require.Equal(b.t, onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED, out.GetOutcome())
	require.Equal(b.t, string(reason), out.GetSkipReason())
	require.Len(b.t, b.messaging.Attempts(), before)
}

// session is a session as it is stored.
func (b *bundle) session(id string) session.Record {
	b.t.Helper()
	v, err := b.store.LoadSession(b.t.Context(), id)
	require.NoError(b.t, err)
	return v.Session
}

// at asserts where a session stands.
func (b *bundle) at(id string, token session.Token, next session.StepID) session.Record {
	b.t.Helper()
	r := b.session(id)
	require.Equal(b.t, token, r.Token)
	require.Equal(b.t, next, r.NextStep)
	return r
}

// story is a session's timeline in short.
func (b *bundle) story(id string) []session.Kind {
	b.t.Helper()
	story, err := b.store.Session(b.t.Context(), orgID, id)
	require.NoError(b.t, err)
	var kinds []session.Kind
	for _, e := range story.Entries {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// sequence is what a person got, by the keys of the catalog.
func (b *bundle) sequence(p conversation.Profile) []string {
	b.t.Helper()
	copies, keys := catalog.Default(), []string{opening, explanation, later, first, second, third, fourth}
	var got []string
	for _, sent := range b.messaging.Taken(p.Phone) {
		for _, key := range keys {
			rendered, err := copies.Render(copies.Current(), p.Locale, key, p.FirstName)
			require.NoError(b.t, err)
			if rendered == sent.Body {
				got = append(got, key)
			}
		}
	}
	require.Len(b.t, got, len(b.messaging.Taken(p.Phone)), "a message that is none of ours")
	return got
}

// count is the number of rows that a query counts.
func (b *bundle) count(sql string, args ...any) int {
	b.t.Helper()
	var n int
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// exec does as the owner of the tables what the service does not.
func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	b.owned.Do(func() { b.owner = pgtest.Owner(b.t, b.pool) })
	_, err := b.owner.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bundle) idle() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	require.NoError(b.t, b.qstash.Idle(ctx))
}

// work lets every loop of the service pass once.
func (b *bundle) work() {
	b.t.Helper()
	b.idle()
	p := b.current()
	for {
		n, err := p.runner.Drain(b.t.Context())
		if n == 0 || err != nil {
			break
		}
	}
	_, _ = p.goals.Alarms.Relay(b.t.Context())
	_, _ = p.relay.Relay(b.t.Context()) // a mishap of the ports; the next pass mends it
	_, _ = p.sweeper.Sweep(b.t.Context())
	_, _ = p.service.ForwardHolds(b.t.Context())
	b.idle()
}

// sweeps is one pass of the sweeper, and how much it found.
func (b *bundle) sweeps() int {
	b.t.Helper()
	n, err := b.current().sweeper.Sweep(b.t.Context())
	require.NoError(b.t, err)
	return n
}

// relays is one pass of the relay, and how much it found.
func (b *bundle) relays() int {
	b.t.Helper()
	n, err := b.current().relay.Relay(b.t.Context())
	require.NoError(b.t, err)
	return n
}

// pause is the longest that pass lets the clock jump without a pass of the loops.
const pause = 5 * time.Second

// pass lets the clock run for d, with all loops at work.
func (b *bundle) pass(d time.Duration) {
	b.t.Helper()
	b.work()
	for end := b.clock.Now().Add(d); b.clock.Now().Before(end); b.work() {
		b.jump(end)
	}
}

// jump moves the clock to its next timer, but not beyond end and not further than pause.
func (b *bundle) jump(end time.Time) {
	now := b.clock.Now()
	d := min(pause, end.Sub(now))
	if next, ok := b.clock.Next(); ok {
		d = max(time.Millisecond, min(d, next.Sub(now)))
	}
	b.clock.Advance(d)
}

// until lets the clock run until done, at most half an hour.
func (b *bundle) until(done func() bool) {
	b.t.Helper()
	end := b.clock.Now().Add(30 * time.Minute)
	for b.work(); !done(); b.work() {
		b.jump(end)
		require.True(b.t, b.clock.Now().Before(end), "it has not come to rest:\n%s", b.log)
	}
}

// waiting is how much is still to be done: open jobs, unpublished alarms, and messages at QStash. A goal may be due much later, and its
// alarm may come several times.
func (b *bundle) waiting() int {
	b.t.Helper()
	record := b.qstash.Record()
	at := 0
	for _, e := range record.Of(emulator.Published, emulator.Delivered, emulator.DeadLettered, emulator.Cancelled, emulator.Lost) {
		switch {
		case strings.Contains(e.URL, goals.Route.Path):
		case e.Kind == emulator.Published:
			at++
		default:
			at--
		}
	}
	return at + b.count(`select (select count(*) from webhook_jobs where status in ('pending', 'processing'))
		+ (select count(*) from step_alarms where published_at is null) + (select count(*) from goal_alarms where published_at is null)`)
}

// quiet lets the clock run until nothing is left to be done.
func (b *bundle) quiet() {
	b.t.Helper()
	b.until(func() bool { return b.waiting() == 0 })
}

// completes asserts that the conversation goes on by itself to its last step, with every message once.
func (b *bundle) completes(p conversation.Profile) {
	b.t.Helper()
	b.quiet()
	require.Equal(b.t, whole, b.sequence(p))
}

// logbook keeps every line that was logged.
type logbook struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// of are the lines of one event.
func (l *logbook) of(t *testing.T, event string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(l.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["msg"] == event {
			found = append(found, fields)
		}
	}
	return found
}

// holdsNothingPersonal holds for every test: no phone number and no words, of theirs or ours, are ever logged.
func (l *logbook) holdsNothingPersonal(t *testing.T) {
	t.Helper()
	all := l.String()
	require.NotRegexp(t, `5511987\d{6}`, all) // in full: the nanoseconds of a log line may hold its beginning
	require.NotContains(t, all, secretWords)
	for _, words := range []string{"welcome team", "Happy to have you", "No problem, there", "first steps easy", "a few questions", "Your answers help", "first question?"} {
		require.NotContains(t, all, words)
	}
}

// secretWords are words of a person that no log may show.
const secretWords = "my cousin Joaquina lives in Lisboa"

func newID() string { return uuid.Must(uuid.NewV7()).String() }

type (
	sendRequest       = messagingv1.SendRequest
	recordStepFailure = onboardingv1.RecordStepFailureRequest
)
