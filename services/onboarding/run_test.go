package onboarding_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

// world surrounds the real process with QStash, messaging, Postgres and a gateway.
type world struct {
	t         *testing.T
	clock     *clock.Settable
	qstash    *emulator.Emulator
	messaging *messagingtest.Service
	environ   map[string]string
	log       *onboardingtest.Logbook
	ops       string
	pool      *pgxpool.Pool
	passBound time.Duration // of the loops; production's when zero

	mu     sync.Mutex
	conn   *grpc.ClientConn
	client onboardingv1.OnboardingServiceClient // of the process that runs
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, log: &onboardingtest.Logbook{}, clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
	t.Cleanup(func() { w.log.HoldsNothingPersonal(t) })
	w.messaging = messagingtest.New(onboardingtest.OrgID, onboardingtest.Ours, w.clock.Now)
	w.qstash = emulator.New(emulator.Config{Clock: w.clock})
	api := httptest.NewServer(w.qstash)
	t.Cleanup(api.Close)
	t.Cleanup(w.qstash.Close)
	gateway := httptest.NewServer(http.HandlerFunc(w.takeCallback))
	t.Cleanup(gateway.Close)
	database := pgtest.URL(t, onboarding.Migrations())
	var err error
	w.pool, err = platform.Open(t.Context(), platform.Config{URL: database, MaxConns: 2})
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	w.environ = map[string]string{
		"ONBOARDING_DATABASE_URL": database, "PUBLIC_BASE_URL": gateway.URL, "QSTASH_URL": api.URL, "QSTASH_TOKEN": emulator.DevToken,
		"SERVICE_AUTH_SECRET": messagingtest.Secret, "MESSAGING_ADDR": w.messaging.Serve(t, messagingtest.Tokens(t, w.clock.Now)),
		"ALARM_RELAY_INTERVAL": "20ms",
	}
	return w
}

// run starts the service and returns what stops it.
func (w *world) run() (stop func()) {
	w.t.Helper()
	cfg, err := onboarding.LoadConfig(w.environ)
	require.NoError(w.t, err)
	var network net.ListenConfig
	grpcPort, err := network.Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	opsPort, err := network.Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.ops = "http://" + opsPort.Addr().String()
	tokens := messagingtest.Tokens(w.t, w.clock.Now)
	conn := messagingtest.Dial(w.t, grpcPort.Addr().String(), tokens, rpc.Principal{Subject: "gateway", Role: rpc.RoleService})
	w.mu.Lock()
	w.conn, w.client = conn, onboardingv1.NewOnboardingServiceClient(conn)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(w.t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- onboarding.Run(ctx, cfg, process.Deps{
			Log: slog.New(slog.NewJSONHandler(w.log, nil)), Now: w.clock.Now, PassBound: w.passBound, Listener: grpcPort, OpsListener: opsPort,
			Ready: func() { close(ready) },
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		require.NoError(w.t, err)
	}
	return func() {
		cancel()
		require.NoError(w.t, <-ended)
	}
}

func (w *world) takeCallback(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	client := w.client
	w.mu.Unlock()
	var in onboardingv1.ExecuteStepRequest
	body, err := io.ReadAll(r.Body)
	if err == nil && json.Unmarshal(body, &in) == nil {
		_, err = client.ExecuteStep(r.Context(), &in)
	}
	onboardingtest.Answer(out, err)
}

// as is a context of a call on behalf of a principal.
func (w *world) as(role rpc.Role, subject, org string) context.Context {
	return rpc.WithPrincipal(w.t.Context(), rpc.Principal{Subject: subject, Role: role, OrgID: org})
}

func (w *world) operator() context.Context {
	return w.as(rpc.RoleOperator, "operator-1", onboardingtest.OrgID)
}

// enrolled is a new person with an open session.
func (w *world) enrolled(phone string) (*onboardingv1.Profile, *onboardingv1.Session) {
	w.t.Helper()
	created, err := w.client.CreateProfile(w.operator(), &onboardingv1.CreateProfileRequest{Phone: phone, FirstName: "Ana"})
	require.NoError(w.t, err)
	opened, err := w.client.ActivateProfile(w.operator(), &onboardingv1.ActivateProfileRequest{ProfileId: created.GetProfile().GetProfileId()})
	require.NoError(w.t, err)
	return created.GetProfile(), opened.GetSession()
}

// inBurst is a new person to whom the first step is due.
func (w *world) inBurst() (*onboardingv1.Profile, *onboardingv1.Session) {
	w.t.Helper()
	p, s := w.enrolled("+5511987650001")
	w.receives("SM1", p.GetPhone(), "yes")
	w.receives("SM2", p.GetPhone(), "yes")
	return p, s
}

func (w *world) receives(sid, from, body string) {
	w.t.Helper()
	_, err := w.client.ReceiveMessage(w.t.Context(), &onboardingv1.ReceiveMessageRequest{TwilioSid: sid, From: from, To: onboardingtest.Ours, Body: body})
	require.NoError(w.t, err)
}

func (w *world) session(id string) *onboardingv1.GetSessionResponse {
	w.t.Helper()
	out, err := w.client.GetSession(w.operator(), &onboardingv1.GetSessionRequest{SessionId: id})
	require.NoError(w.t, err)
	return out
}

// eventually waits for what the loops of the process do on their own.
func (w *world) eventually(done func() bool) {
	w.t.Helper()
	require.Eventually(w.t, done, 20*time.Second, 10*time.Millisecond)
}

func (w *world) count(sql string) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), sql).Scan(&n))
	return n
}

// keyed is an HMAC-SHA256.
func keyed(key []byte, content string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(content))
	return mac.Sum(nil)
}

func TestRun(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_01_S1_16_WholeConversationThroughTheConfiguredQStash", newWorld, func(t *testing.T, w *world) {
		var last emulator.Message
		w.qstash.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
			last = d.Message
			return emulator.DeliverFault{}
		}})
		defer w.run()()
		p, s := w.inBurst()
		for range 3 {
			require.NoError(t, w.qstash.Idle(t.Context()))
			w.clock.Advance(8 * time.Second)
		}
		require.NoError(t, w.qstash.Idle(t.Context()))
		got := w.session(s.GetSessionId())
		require.Equal(t, string(session.AwaitingInterviewStart), got.GetSession().GetStateToken())
		require.Len(t, w.messaging.Taken(p.GetPhone()), 6)
		require.Len(t, w.qstash.Record().Of(emulator.Delivered), 4)
		key := keyed([]byte(messagingtest.Secret), "qstash dedup id")
		require.Equal(t, hex.EncodeToString(keyed(key, last.DeduplicationID))[:16], last.Header.Get(qstash.HeaderDedupHash))
		require.Equal(t, "activated", got.GetTimeline()[0].GetKind())
		require.Len(t, got.GetTimeline(), 15)
	})

	onboardingtest.Subtest(t, "LoopsFinishWhatNoCallDoes", newWorld, func(t *testing.T, w *world) {
		defer w.run()()
		p, s := w.enrolled("+5511987650001")
		_, err := w.client.HoldProfile(w.operator(), &onboardingv1.HoldProfileRequest{ProfileId: p.GetProfileId(), Reason: "under review"})
		require.NoError(t, err)
		w.receives("SM1", p.GetPhone(), "yes")
		require.Len(t, w.messaging.Taken(p.GetPhone()), 1)
		released, err := w.client.ReleaseProfile(w.operator(), &onboardingv1.ReleaseProfileRequest{ProfileId: p.GetProfileId()})
		require.NoError(t, err)
		require.False(t, released.GetProfile().GetHold())
		w.eventually(func() bool { return len(w.messaging.Taken(p.GetPhone())) == 2 }) // notified by the release, not by the poll
		w.eventually(func() bool {
			return w.session(s.GetSessionId()).GetSession().GetStateToken() == string(session.AwaitingExplanationResponse)
		})
	})

	onboardingtest.Subtest(t, "SweeperRunsInTheProcess", newWorld, func(t *testing.T, w *world) {
		w.environ["ALARM_OVERDUE_GRACE"] = "1s"
		w.qstash.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault { return emulator.DeliverFault{Lose: d.N == 0} }})
		defer w.run()()
		p, _ := w.inBurst()
		require.NoError(t, w.qstash.Idle(t.Context()))
		w.clock.Advance(2 * time.Second)
		w.eventually(func() bool { return len(w.messaging.Taken(p.GetPhone())) == 3 })
		require.NoError(t, w.qstash.Idle(t.Context()))
	})
}

func TestRunAsConfigured(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_01_AlarmsAreRefusedWithAnotherToken", newWorld, func(t *testing.T, w *world) {
		w.environ["QSTASH_TOKEN"] = "another"
		defer w.run()()
		w.inBurst()
		require.Equal(t, 1, w.count(`select count(*) from step_alarms where published_at is null and last_error like '%401%'`))
	})

	onboardingtest.Subtest(t, "S0_58_DisabledSchedulingKeepsAlarmsUntilTheNextStart", newWorld, func(t *testing.T, w *world) {
		w.environ["ONBOARDING_SCHEDULING_DISABLED"] = "1"
		stop := w.run()
		p, _ := w.inBurst()
		stop()
		require.Equal(t, 1, w.count(`select count(*) from step_alarms where published_at is null`))
		require.Empty(t, w.qstash.Record())
		delete(w.environ, "ONBOARDING_SCHEDULING_DISABLED")
		w.clock.Advance(time.Minute)
		defer w.run()()
		w.eventually(func() bool { return len(w.messaging.Taken(p.GetPhone())) == 3 })
		require.NoError(t, w.qstash.Idle(t.Context()))
	})

	onboardingtest.Subtest(t, "S2_26_QueueIsWorkedFromTheStartWithNothingSetForTests", newWorld, func(t *testing.T, w *world) {
		w.environ["ONBOARDING_ADDR"], w.environ["ONBOARDING_OPS_ADDR"] = "127.0.0.1:0", "127.0.0.1:0"
		w.environ["MESSAGING_ADDR"] = "127.0.0.1:1" // no process; the job needs none
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		store, past := onboarding.NewStores(w.pool), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		job, err := store.Enqueue(t.Context(), queue.New{
			ID: uuid.NewString(), OrgID: onboardingtest.OrgID, Key: "k", Extra: []string{conversation.SourceKapso}, EventType: "kapso.phone_number.created", Payload: []byte(`{"phone_number_id":"1"}`),
			At: past, DueAt: past,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- onboarding.Run(ctx, cfg, process.Deps{}) }() // as the command does
		w.eventually(func() bool {
			found, err := store.Jobs().Get(t.Context(), onboardingtest.OrgID, job.ID)
			return err == nil && found.Status == queue.StatusCompleted
		})
		cancel()
		require.NoError(t, <-ended)
	})

	// Also: R-19
	onboardingtest.Subtest(t, "IsReadyOnlyOnTheSchemaThatItNeeds", newWorld, func(t *testing.T, w *world) {
		stop := w.run()
		require.Equal(t, http.StatusOK, w.get("/readyz"))
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, w.database())
		w.eventually(func() bool { // S2-27
			_, ready := w.read("/readyz")
			return strings.Contains(ready, `"webhook_jobs"`) && strings.Contains(ready, `"alarm_jobs"`) && strings.Contains(ready, `"processor": "running"`)
		})
		stop()
		w.environ["ONBOARDING_DATABASE_URL"] = pgtest.URL(t, platform.Migrations{})
		stop = w.run()
		require.Equal(t, http.StatusServiceUnavailable, w.get("/readyz"))
		require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, w.database())
		require.Equal(t, http.StatusOK, w.get("/healthz"))
		stop()
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		require.NoError(t, onboarding.Migrate(t.Context(), cfg))
		stop = w.run()
		require.Equal(t, http.StatusOK, w.get("/readyz"))
		stop()
	})

	onboardingtest.Subtest(t, "IsReadyOnceMessagingWasReachedAndStaysSo", newWorld, func(t *testing.T, w *world) {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := listener.Addr().String()
		require.NoError(t, listener.Close())
		w.environ["MESSAGING_ADDR"] = addr
		stop := w.run()
		status, said := w.read("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, said, "messaging was not reached yet: check MESSAGING_ADDR")

		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		require.NoError(t, err)
		messaging := grpc.NewServer()
		healthpb.RegisterHealthServer(messaging, health.NewServer())
		go func() { _ = messaging.Serve(listener) }() // until Stop
		w.eventually(func() bool { return w.get("/readyz") == http.StatusOK })
		messaging.Stop()
		require.Equal(t, http.StatusOK, w.get("/readyz"))
		stop()

		defer w.run()()
		require.Equal(t, http.StatusServiceUnavailable, w.get("/readyz"))
		w.clock.Advance(30 * time.Second)
		require.Equal(t, http.StatusOK, w.get("/readyz"), "it takes what vendors post, which must not wait for messaging")
	})

	onboardingtest.Subtest(t, "IsNotReadyWithAKeyThatMessagingDoesNotBelieve", newWorld, func(t *testing.T, w *world) {
		w.environ["SERVICE_AUTH_SECRET"] = "another service secret of at least 32 bytes"
		defer w.run()()
		status, said := w.read("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, said, "messaging does not believe our key: add the public key of ONBOARDING_SIGNING_KEY")
		w.clock.Advance(time.Minute)
		require.Equal(t, http.StatusServiceUnavailable, w.get("/readyz"), "waiting does not end it")
		require.Equal(t, http.StatusOK, w.get("/healthz"))
	})

	onboardingtest.Subtest(t, "S1_30_RedisThatIsDownRefusesFailureCallbacksAndNothingElse", newWorld, func(t *testing.T, w *world) {
		memory := miniredis.RunT(t)
		w.environ["REDIS_URL"] = "redis://" + memory.Addr()
		defer w.run()()
		failure := &onboardingv1.RecordStepFailureRequest{SourceMessageId: "msg_1", DeliveryId: "msg_9"}
		_, err := w.client.RecordStepFailure(t.Context(), failure)
		require.NoError(t, err)
		require.Len(t, memory.Keys(), 2)
		require.Zero(t, w.count(`select count(*) from delivery_reservations`))

		memory.Close()
		_, err = w.client.RecordStepFailure(t.Context(), &onboardingv1.RecordStepFailureRequest{SourceMessageId: "msg_2", DeliveryId: "msg_10"})
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.Equal(t, http.StatusOK, w.get("/readyz"))
		p, _ := w.enrolled("+5511987650001")
		w.receives("SM1", p.GetPhone(), "yes")
		require.Len(t, w.messaging.Taken(p.GetPhone()), 2)

		require.NoError(t, memory.Restart())
		out, err := w.client.RecordStepFailure(t.Context(), failure)
		require.NoError(t, err)
		require.True(t, out.GetDuplicate())
	})

	onboardingtest.Subtest(t, "RefusesAPortThatIsTaken", newWorld, func(t *testing.T, w *world) {
		var network net.ListenConfig
		taken, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, taken.Close()) }()
		w.environ["ONBOARDING_ADDR"], w.environ["ONBOARDING_OPS_ADDR"] = taken.Addr().String(), "127.0.0.1:0"
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		err = onboarding.Run(t.Context(), cfg, process.Deps{Log: slog.New(slog.DiscardHandler)})
		require.ErrorContains(t, err, "ONBOARDING_ADDR")
	})
}

// TestRunForgetsGoals is about the retention of the process: by more than one batch, and of what is old enough alone.
func TestRunForgetsGoals(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "ThatWereOverBeforeGOALS_RETENTION", newWorld, func(t *testing.T, w *world) {
		w.environ["GOALS_RETENTION"] = "48h"
		_, err := w.pool.Exec(t.Context(), `
with p as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    values (gen_random_uuid(), $1, '+5511987650001', 'Ana', 'en', 'UTC', $2, $2) returning id
), d as (
    insert into devices (id, org_id, profile_id, name, kind, created_at, updated_at)
    select gen_random_uuid(), $1, id, 'phone', 'phone', $2, $2 from p returning id, profile_id
)
insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, status, scheduled_for, scheduled_delay, ended_at,
    created_by, created_at, updated_at)
select gen_random_uuid(), $1, d.profile_id, d.id, 'rest', n::text, 's', 'g', 'en', 'cancelled', at, 0, at, 'x', at, at
from d, generate_series(1, 1203) n cross join lateral (
    select $2::timestamptz - case when n <= 3 then interval '47 hours' else interval '49 hours' end as at) a`, onboardingtest.OrgID, w.clock.Now())
		require.NoError(t, err)
		defer w.run()()
		w.eventually(func() bool { return w.count(`select count(*) from goals`) == 3 })
		w.eventually(func() bool { return strings.Contains(w.log.String(), `"goals.forgotten","goals":1200`) })
	})
}

// database returns what health says of the database, as the gateway asks.
func (w *world) database() healthpb.HealthCheckResponse_ServingStatus {
	w.t.Helper()
	answer, err := healthpb.NewHealthClient(w.conn).Check(w.t.Context(), &healthpb.HealthCheckRequest{Service: rpc.HealthDatabase})
	require.NoError(w.t, err)
	return answer.GetStatus()
}

func (w *world) get(path string) int {
	w.t.Helper()
	code, _ := w.read(path)
	return code
}

func (w *world) read(path string) (code int, body string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.ops+path, nil)
	require.NoError(w.t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(w.t, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(w.t, errors.Join(err, response.Body.Close()))
	return response.StatusCode, string(content)
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run()
	t.Cleanup(stop)
	p, s := w.enrolled("+5511987650001")
	other, hers := w.enrolled("+5511987650002")
	asUser := w.as(rpc.RoleUser, p.GetProfileId(), onboardingtest.OrgID)
	elsewhere := w.as(rpc.RoleOperator, "operator-2", onboardingtest.NewID())

	t.Run("UserSeesOnlyTheirOwn", func(t *testing.T) {
		t.Parallel()
		_, err := w.client.GetProfile(asUser, &onboardingv1.GetProfileRequest{ProfileId: other.GetProfileId()})
		onboardingtest.Refused(t, err, codes.PermissionDenied, onboardingv1.Reason_REASON_PERMISSION_DENIED)
		for _, id := range []string{hers.GetSessionId(), onboardingtest.NewID()} { // whether it exists is not for them to learn
			_, err = w.client.GetSession(asUser, &onboardingv1.GetSessionRequest{SessionId: id})
			onboardingtest.Refused(t, err, codes.PermissionDenied, onboardingv1.Reason_REASON_PERMISSION_DENIED)
		}
		listed, err := w.client.ListSessions(asUser, &onboardingv1.ListSessionsRequest{ProfileId: other.GetProfileId()})
		require.NoError(t, err)
		require.Len(t, listed.GetSessions(), 1)
		require.Equal(t, p.GetProfileId(), listed.GetSessions()[0].GetProfileId())
	})

	t.Run("OtherOrganisationSeesNothing", func(t *testing.T) {
		t.Parallel()
		key := session.NewStepPayload(p.GetProfileId(), s.GetSessionId(), onboardingtest.Step(1))
		for reason, calls := range map[onboardingv1.Reason][]func(ctx context.Context) error{
			onboardingv1.Reason_REASON_PROFILE_NOT_FOUND: {
				discard(w.client.GetProfile, &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()}),
				discard(w.client.UpdateProfile, &onboardingv1.UpdateProfileRequest{ProfileId: p.GetProfileId(), FirstName: new("Eve")}),
				discard(w.client.HoldProfile, &onboardingv1.HoldProfileRequest{ProfileId: p.GetProfileId()}),
				discard(w.client.ReleaseProfile, &onboardingv1.ReleaseProfileRequest{ProfileId: p.GetProfileId()}),
			},
			onboardingv1.Reason_REASON_SESSION_NOT_FOUND: {
				discard(w.client.GetSession, &onboardingv1.GetSessionRequest{SessionId: s.GetSessionId()}),
				discard(w.client.ResetSession, &onboardingv1.ResetSessionRequest{SessionId: s.GetSessionId()}),
				discard(w.client.ResumeSession, &onboardingv1.ResumeSessionRequest{SessionId: s.GetSessionId()}),
				discard(w.client.ExecuteStep, &onboardingv1.ExecuteStepRequest{
					ProfileId: key.ProfileID, SessionId: key.SessionID, StepId: string(key.StepID), ExpectedStateToken: string(key.ExpectedToken), IdempotencyKey: key.IdempotencyKey,
				}),
			},
		} {
			for _, call := range calls {
				onboardingtest.Refused(t, call(elsewhere), codes.NotFound, reason)
			}
		}
		listed, err := w.client.ListSessions(elsewhere, &onboardingv1.ListSessionsRequest{})
		require.NoError(t, err)
		require.Empty(t, listed.GetSessions())
		now, err := w.client.GetProfile(w.operator(), &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()})
		require.NoError(t, err)
		require.False(t, now.GetProfile().GetHold())
		require.Equal(t, "active", w.session(s.GetSessionId()).GetSession().GetStatus())
	})

	reasonsAreForOperators(t, w, other, hers)

	t.Run("MalformedIDsAreRefused", func(t *testing.T) {
		t.Parallel()
		operator := w.operator()
		for _, call := range []func(ctx context.Context) error{
			discard(w.client.ActivateProfile, &onboardingv1.ActivateProfileRequest{}), discard(w.client.HoldProfile, &onboardingv1.HoldProfileRequest{}),
			discard(w.client.ReleaseProfile, &onboardingv1.ReleaseProfileRequest{}), discard(w.client.ResetSession, &onboardingv1.ResetSessionRequest{}),
			discard(w.client.ResumeSession, &onboardingv1.ResumeSessionRequest{}), discard(w.client.ReplayDeadLetter, &onboardingv1.ReplayDeadLetterRequest{}),
		} {
			onboardingtest.Refused(t, call(operator), codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		}
		_, err := w.client.GetProfile(operator, &onboardingv1.GetProfileRequest{ProfileId: "1"})
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		_, err = w.client.GetSession(operator, &onboardingv1.GetSessionRequest{SessionId: "x"})
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		_, err = w.client.CreateProfile(operator, &onboardingv1.CreateProfileRequest{Phone: "x"})
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
	})
}

// reasonsAreForOperators checks what people see in their own sessions; the session of other may be parked.
func reasonsAreForOperators(t *testing.T, w *world, other *onboardingv1.Profile, hers *onboardingv1.Session) {
	t.Helper()
	t.Run("OnlyAnOperatorSeesWhyASessionIsParked", func(t *testing.T) {
		t.Parallel()
		w.receives("SM1", other.GetPhone(), "leave me alone")
		for role, ctx := range map[rpc.Role]context.Context{
			rpc.RoleUser: w.as(rpc.RoleUser, other.GetProfileId(), onboardingtest.OrgID), rpc.RoleApp: w.as(rpc.RoleApp, "shop", onboardingtest.OrgID), rpc.RoleOperator: w.operator(),
		} {
			got, err := w.client.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: hers.GetSessionId()})
			require.NoError(t, err)
			listed, err := w.client.ListSessions(ctx, &onboardingv1.ListSessionsRequest{ProfileId: other.GetProfileId()})
			require.NoError(t, err)
			require.Len(t, listed.GetSessions(), 1)
			parked := got.GetTimeline()[len(got.GetTimeline())-1]
			require.Equal(t, []string{"stuck", "parked"}, []string{got.GetSession().GetStatus(), parked.GetKind()})
			for _, reason := range []string{got.GetSession().GetReason(), listed.GetSessions()[0].GetReason(), parked.GetDetail()} {
				require.Equal(t, role == rpc.RoleOperator, strings.Contains(reason, "may want no more texts"))
			}
		}
	})

	t.Run("R_21_OnlyAnOperatorSeesWhyAPersonIsHeld", func(t *testing.T) {
		t.Parallel()
		held, theirs := w.enrolled("+5511987650003")
		_, err := w.client.HoldProfile(w.operator(), &onboardingv1.HoldProfileRequest{ProfileId: held.GetProfileId(), Reason: "her sister called"})
		require.NoError(t, err)
		for role, ctx := range map[rpc.Role]context.Context{
			rpc.RoleUser: w.as(rpc.RoleUser, held.GetProfileId(), onboardingtest.OrgID), rpc.RoleApp: w.as(rpc.RoleApp, "shop", onboardingtest.OrgID), rpc.RoleOperator: w.operator(),
		} {
			got, err := w.client.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: theirs.GetSessionId()})
			require.NoError(t, err)
			last := got.GetTimeline()[len(got.GetTimeline())-1]
			require.Equal(t, "held", last.GetKind())
			require.Equal(t, role == rpc.RoleOperator, strings.Contains(got.String(), "her sister called"))
		}
	})
}

func TestListSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run()
	t.Cleanup(stop)
	var ids []string
	for _, phone := range []string{"+5511987650001", "+5511987650002", "+5511987650003"} {
		_, s := w.enrolled(phone)
		ids = append([]string{s.GetSessionId()}, ids...)
	}
	w.receives("SM1", "+5511987650001", "yes")
	_, err := w.pool.Exec(t.Context(), `update conversation_sessions set status = 'stuck' where id = $1`, ids[1])
	require.NoError(t, err)
	list := func(t *testing.T, in *onboardingv1.ListSessionsRequest) []string {
		t.Helper()
		var found []string
		for {
			out, err := w.client.ListSessions(w.operator(), in)
			require.NoError(t, err)
			for _, s := range out.GetSessions() {
				found = append(found, s.GetSessionId())
			}
			if in.PageToken = out.GetNextPageToken(); in.GetPageToken() == "" {
				return found
			}
		}
	}
	for _, tt := range []struct {
		name string
		in   *onboardingv1.ListSessionsRequest
		want []string
	}{
		{name: "NewestFirst", in: &onboardingv1.ListSessionsRequest{}, want: ids},
		{name: "PageByPage", in: &onboardingv1.ListSessionsRequest{PageSize: 2}, want: ids},
		{name: "FullPageIsTheLast", in: &onboardingv1.ListSessionsRequest{PageSize: 3}, want: ids},
		{name: "OfOneToken", in: &onboardingv1.ListSessionsRequest{StateToken: string(session.AwaitingExplanationResponse)}, want: ids[2:]},
		{name: "ThoseThatNeedAnOperator", in: &onboardingv1.ListSessionsRequest{Stuck: true}, want: ids[1:2]},
		{name: "OfAStatus", in: &onboardingv1.ListSessionsRequest{Status: []string{"stuck"}}, want: ids[1:2]},
		{name: "OfSomeStatusesPageByPage", in: &onboardingv1.ListSessionsRequest{Status: []string{"stuck", "active", "stuck"}, PageSize: 1}, want: ids},
		{name: "OfAStatusThatNoneThatNeedsAnOperatorHas", in: &onboardingv1.ListSessionsRequest{Status: []string{"active"}, Stuck: true}},
		{name: "OfAnUnknownProfile", in: &onboardingv1.ListSessionsRequest{ProfileId: onboardingtest.NewID()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, list(t, tt.in))
		})
	}
	for _, tt := range []struct {
		name string
		in   *onboardingv1.ListSessionsRequest
	}{
		{name: "RefusesATokenThatIsNone", in: &onboardingv1.ListSessionsRequest{StateToken: "x"}},
		{name: "RefusesAStatusThatIsNone", in: &onboardingv1.ListSessionsRequest{Status: []string{"active", "parked"}}},
		{name: "RefusesAPageThatIsTooLarge", in: &onboardingv1.ListSessionsRequest{PageSize: 501}},
		{name: "RefusesANegativePage", in: &onboardingv1.ListSessionsRequest{PageSize: -1}},
		{name: "RefusesAPageTokenThatIsNotOurs", in: &onboardingv1.ListSessionsRequest{PageToken: "x"}},
		{name: "RefusesAProfileThatIsNoID", in: &onboardingv1.ListSessionsRequest{ProfileId: "x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := w.client.ListSessions(w.operator(), tt.in)
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		})
	}
}

// discard makes a method one that only answers an error.
func discard[In, Out any](method func(context.Context, In, ...grpc.CallOption) (Out, error), in In) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := method(ctx, in)
		return err
	}
}
