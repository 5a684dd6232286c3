package messaging_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/emulators/wire"
	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging"
)

// signingKey is a key of these tests only.
const signingKey = "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g"

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	org    = "00000000-0000-7000-8000-000000000001"
	theirs = "+14155550123"
	lost   = "+14155550124" // the answer about the first text to it is lost
	secret = "a secret of at least thirty-two bytes"

	publicKeys = "gateway=MCowBQYDK2VwAyEAj8h3IRbjnrkNkGxidYK4MmtSow8BG2H1TV7WJtIRR1g=," +
		"onboarding=MCowBQYDK2VwAyEAlyko1JbfSbF1ykha9zV/byC4wIf0i9rrnciQXhSJV14="
	apiKey, apiKeySecret = "SK0123456789abcdef0123456789abcdef", "00112233445566778899aabbccddeeff"
)

func environ(database, twilio string) map[string]string {
	return map[string]string{
		"MESSAGING_DATABASE_URL": database,
		"PUBLIC_BASE_URL":        "https://paceline.example",
		"TWILIO_ACCOUNT_SID":     "AC0123456789abcdef0123456789abcdef",
		"TWILIO_AUTH_TOKEN":      "fedcba9876543210fedcba9876543210",
		"TWILIO_FROM_NUMBER":     "+14155550100",
		"TWILIO_API_URL":         twilio,
		"SERVICE_AUTH_SECRET":    secret,
	}
}

func TestLoadConfig(t *testing.T) {
	t.Parallel()

	t.Run("ReportsEverythingAtOnceAndNoSecret", func(t *testing.T) {
		t.Parallel()
		_, err := messaging.LoadConfig(map[string]string{
			"TWILIO_ACCOUNT_SID": "SK1", "TWILIO_TIMEOUT": "31s", "SERVICE_AUTH_SECRET": "short-secret", "DEFAULT_ORG_ID": "us",
			"RECONCILE_INTERVAL": "0s", "SMS_SEGMENTS_PER_SECOND": "NaN", "OUTBOUND_POLL": "0s", "OUTBOUND_RETENTION": "-1h",
			"ENGAGEMENT_SEND_INTERVAL": "2m",
		})
		for _, problem := range []string{
			"MESSAGING_DATABASE_URL is missing", "PUBLIC_BASE_URL is missing", "TWILIO_AUTH_TOKEN is missing",
			"TWILIO_MESSAGING_SERVICE_SID or TWILIO_FROM_NUMBER is missing", "TWILIO_ACCOUNT_SID must begin with AC",
			"TWILIO_TIMEOUT must be shorter than SEND_LEASE", "SERVICE_AUTH_SECRET must have", "DEFAULT_ORG_ID is malformed",
			"RECONCILE_INTERVAL must be more than 0", "SMS_SEGMENTS_PER_SECOND must be 0.01 to 1000",
			"OUTBOUND_POLL must be more than 0", "OUTBOUND_RETENTION must be more than 0",
			"ENGAGEMENT_SEND_INTERVAL must be more than 0 and at most 1m",
		} {
			require.ErrorContains(t, err, problem)
		}
		require.NotContains(t, err.Error(), "short-secret")
	})

	// Also: S4-61.
	t.Run("HasTheDefaultsOfTheContract", func(t *testing.T) {
		t.Parallel()
		cfg, err := messaging.LoadConfig(environ("postgres://localhost/messaging", ""))
		require.NoError(t, err)
		require.Equal(t, ":9002", cfg.Addr.String())
		require.Equal(t, ":9102", cfg.OpsAddr.String())
		require.Equal(t, 10*time.Second, cfg.Timeout)
		require.Equal(t, 30*time.Second, cfg.Lease)
		require.Equal(t, 30*time.Second, cfg.ReconcileInterval)
		require.InDelta(t, 1, cfg.SegmentsPerSecond, 0)
		require.Equal(t, 5*time.Second, cfg.OutboundPoll)
		require.Equal(t, 30*24*time.Hour, cfg.OutboundRetention)
		require.Equal(t, 500*time.Millisecond, cfg.OutreachInterval)
		require.Equal(t, org, cfg.OrgID.String())
	})
}

// start runs the service on a database with the emulator of Twilio until the test ends.
func start(t *testing.T, migrations postgres.Migrations) (grpcAddr, opsURL string) {
	t.Helper()
	return startOn(t, pgtest.URL(t, migrations))
}

func startOn(t *testing.T, databaseURL string) (grpcAddr, opsURL string) {
	t.Helper()
	settings := environ(databaseURL, "")
	twilio, err := emulator.New(emulator.Config{
		Clock: clock.System(), AccountSID: settings["TWILIO_ACCOUNT_SID"], AuthToken: settings["TWILIO_AUTH_TOKEN"],
		Numbers: []string{settings["TWILIO_FROM_NUMBER"]},
		Script: emulator.Script{
			OnCreate: func(_ int, m emulator.Message) emulator.CreateFault {
				if m.To == lost {
					return emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}
				}
				return emulator.CreateFault{}
			},
			OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} },
		},
	})
	require.NoError(t, err)
	t.Cleanup(twilio.Close)
	api := httptest.NewServer(twilio)
	t.Cleanup(api.Close)
	settings["TWILIO_API_URL"], settings["RECONCILE_INTERVAL"] = api.URL, "20ms"
	cfg, err := messaging.LoadConfig(settings)
	require.NoError(t, err)

	var network net.ListenConfig
	grpcPort, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	opsPort, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- messaging.Run(ctx, cfg, process.Deps{
			Log: slog.New(slog.DiscardHandler), Listener: grpcPort, OpsListener: opsPort, Ready: func() { close(ready) },
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
	}
	return grpcPort.Addr().String(), "http://" + opsPort.Addr().String()
}

func dial(t *testing.T, addr string, role rpc.Role) messagingv1.MessagingServiceClient {
	t.Helper()
	return messagingv1.NewMessagingServiceClient(connect(t, addr, role))
}

func connect(t *testing.T, addr string, role rpc.Role) *grpc.ClientConn {
	t.Helper()
	now := time.Now
	tokens, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret(secret)}, now)
	require.NoError(t, err)
	subject := "test"
	if role == rpc.RoleService {
		subject = rpc.Onboarding
	}
	conn, err := rpc.Dial(rpc.ClientConfig{
		Target: addr, Tokens: tokens, Caller: rpc.Principal{Subject: subject, OrgID: org, Role: role},
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// database returns what health says of it, to a caller without a token.
func database(t *testing.T, addr string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: rpc.HealthDatabase})
	require.NoError(t, err)
	return answer.GetStatus()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := client.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(text)
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("SendsForAServiceAndCountsIt", func(t *testing.T) {
		t.Parallel()
		addr, ops := start(t, messaging.Migrations())
		answer, err := dial(t, addr, rpc.RoleService).Send(t.Context(), &messagingv1.SendRequest{
			OrgId: org, To: theirs, Body: "hello", IdempotencyKey: "key",
		})
		require.NoError(t, err)
		require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, answer.GetOutcome())
		_, err = dial(t, addr, rpc.RoleOperator).Send(t.Context(), &messagingv1.SendRequest{OrgId: org})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, metrics := get(t, ops+"/metrics")
		require.Contains(t, metrics, `paceline_sms_sends_total{outcome="accepted"} 1`)
		for _, loop := range []string{"reconciler", "counter", "responder", "outbound", "outbound-retention"} {
			require.Contains(t, metrics, `paceline_loop_stalled{loop="`+loop+`"} 0`)
		}
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, database(t, addr))
		require.Eventually(t, func() bool { // a queue that is not counted in time is left out
			code, ready := get(t, ops+"/readyz")
			return code == http.StatusOK && strings.Contains(ready, `"outbound"`) && strings.Contains(ready, `"backlog": 0`)
		}, 10*time.Second, 50*time.Millisecond)
		_, shown := get(t, ops+"/debug/config")
		require.NotContains(t, shown, "fedcba9876543210")
		require.NotContains(t, shown, secret)
	})

	t.Run("PacesOutreachAndKeepsRemindersForAService", func(t *testing.T) {
		t.Parallel()
		addr, ops := start(t, messaging.Migrations())
		client := dial(t, addr, rpc.RoleService)
		ask := func(key, purpose, body string) messagingv1.Outcome {
			answer, err := client.Send(t.Context(), &messagingv1.SendRequest{
				OrgId: org, To: theirs, Body: body, IdempotencyKey: key, Purpose: purpose, MessageClass: messagingv1.MessageClass_MESSAGE_CLASS_OUTREACH,
				Understands: []messagingv1.Outcome{messagingv1.Outcome_OUTCOME_REMINDERS_OFF},
			})
			require.NoError(t, err)
			return answer.GetOutcome()
		}
		require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, ask("1", "welcome", strings.Repeat("a", 1500)))
		require.Equal(t, messagingv1.Outcome_OUTCOME_THROTTLED, ask("2", "goodbye", "bye"), "for as many seconds as the first one has segments")
		set, err := client.SetReminders(t.Context(), &messagingv1.SetRemindersRequest{
			OrgId: org, Phone: theirs, Reminders: messagingv1.Switch_SWITCH_OFF, Source: "person",
		})
		require.NoError(t, err)
		require.Equal(t, messagingv1.Switch_SWITCH_OFF, set.GetReminders())
		require.Equal(t, messagingv1.Outcome_OUTCOME_REMINDERS_OFF, ask("2", "goodbye", "bye"))
		_, metrics := get(t, ops+"/metrics")
		require.Contains(t, metrics, `paceline_sms_sends_total{outcome="paced"} 1`)
		_, err = dial(t, addr, rpc.RoleOperator).SetReminders(t.Context(), &messagingv1.SetRemindersRequest{OrgId: org})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
	})

	t.Run("S0_07_NoServiceMayCallTheOutboundQueue", func(t *testing.T) {
		t.Parallel()
		addr, _ := start(t, messaging.Migrations())
		conn := connect(t, addr, rpc.RoleService)
		for _, m := range messagingv1.OutboundService_ServiceDesc.Methods {
			err := conn.Invoke(t.Context(), "/"+messagingv1.OutboundService_ServiceDesc.ServiceName+"/"+m.MethodName,
				&messagingv1.EnqueueTextRequest{}, &messagingv1.EnqueueTextResponse{})
			require.Equal(t, codes.PermissionDenied, status.Code(err), "%s: %v", m.MethodName, err)
		}
	})

	t.Run("S0_65_ReconcilesWhatIsUnknown", func(t *testing.T) {
		t.Parallel()
		addr, ops := start(t, messaging.Migrations())
		client := dial(t, addr, rpc.RoleService)
		request := &messagingv1.SendRequest{OrgId: org, To: lost, Body: "hello", IdempotencyKey: "key"}
		answer, err := client.Send(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, messagingv1.Outcome_OUTCOME_UNKNOWN, answer.GetOutcome())
		require.Eventually(t, func() bool { // on the machine's clock, with an interval of milliseconds
			answer, err = client.Send(t.Context(), request)
			return err == nil && answer.GetOutcome() == messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED
		}, 10*time.Second, 5*time.Millisecond)
		require.Eventually(t, func() bool { // it is counted once it is committed, which is after it can be read
			_, metrics := get(t, ops+"/metrics")
			return strings.Contains(metrics, `paceline_sms_unknown_settled_total{as="adopted"} 1`)
		}, 10*time.Second, 5*time.Millisecond)
	})

	// Also: R-19
	t.Run("R_01_AServerThatIsSilentIsGivenUpUntilItAnswers", func(t *testing.T) {
		t.Parallel()
		proxy, through, err := wire.OpenPostgres(t.Context(), pgtest.URL(t, messaging.Migrations()))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		_, ops := startOn(t, through)
		proxy.Freeze(wire.BothWays, false)
		require.Eventually(t, func() bool {
			_, body := get(t, ops+"/readyz")
			return strings.Contains(body, "postgres: the server does not answer")
		}, time.Minute, 10*time.Millisecond)
		proxy.Thaw()
		require.Eventually(t, func() bool { code, _ := get(t, ops+"/readyz"); return code == http.StatusOK }, time.Minute, 10*time.Millisecond)
	})

	t.Run("IsNotReadyBelowTheRequiredSchema", func(t *testing.T) {
		t.Parallel()
		addr, ops := start(t, postgres.Migrations{})
		require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, database(t, addr))
		code, reason := get(t, ops+"/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, reason, "run migrate")
	})
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	examine := func(t *testing.T, environ map[string]string) (string, error) {
		t.Helper()
		cfg, err := messaging.LoadConfig(environ)
		require.NoError(t, err)
		var report bytes.Buffer
		err = messaging.Doctor(t.Context(), cfg).Report(&report, false)
		if !cfg.AuthToken.IsZero() {
			require.NotContains(t, report.String(), cfg.AuthToken.Reveal())
		}
		return report.String(), err
	}
	carrier := startCarrier(t)

	t.Run("S0_06_AllIsWell", func(t *testing.T) {
		t.Parallel()
		given := environ(pgtest.URL(t, messaging.Migrations()), carrier)
		given["MESSAGING_ADDR"], given["SMS_COUNTRIES"] = "127.0.0.1:9002", "US"
		given["LEDGER_SIGNING_KEY"], given["LEDGER_ANCHOR_DIR"] = signingKey, t.TempDir()
		given["PSEUDONYM_KEY"], given["SMS_BRAND_NAME"] = signingKey, "Acme"
		delete(given, "SERVICE_AUTH_SECRET")
		delete(given, "TWILIO_AUTH_TOKEN") // which is the gateway's
		given["SERVICE_PUBLIC_KEYS"], given["TWILIO_API_KEY_SID"], given["TWILIO_API_KEY_SECRET"] = publicKeys, apiKey, apiKeySecret
		said, err := examine(t, given)
		require.NoError(t, err, said)
		require.Contains(t, said, "ok      database       reachable, schema version 63")
		require.Contains(t, said, "ok      connections    2 processes have up to ")
		require.Contains(t, said, "ok      evidence       the consent ledgers are anchored every 1h0m0s in ")
		require.Contains(t, said, "ok      failover       no standby follows this server")
		require.Contains(t, said, "ok      clock          the database's clock is ")
		require.Contains(t, said, "ok      callbacks      to https://paceline.example")
		require.Contains(t, said, "ok      twilio         the credentials are good and the number is the account's")
		require.NotContains(t, said, "to mend")
	})

	for name, tt := range map[string]struct {
		variable, value string
		want            []string
		well            bool // it is no failure
	}{
		"ASchemaThatIsBehind":       {want: []string{"failed  database", "run: messaging migrate"}},
		"AnotherTwilioToken":        {variable: "TWILIO_AUTH_TOKEN", value: strings.Repeat("0", 32), want: []string{"failed  twilio", "401", "from the Twilio console"}},
		"ANumberOfAnotherAccount":   {variable: "TWILIO_FROM_NUMBER", value: "+14155550199", want: []string{"failed  twilio", "no phone number of this account"}},
		"ATwilioThatIsOutOfReach":   {variable: "TWILIO_API_URL", value: "http://127.0.0.1:1", want: []string{"failed  twilio", "connection refused", "to mend: see that this machine reaches Twilio: TWILIO_API_URL"}},
		"LedgersThatAreNotAnchored": {variable: "LEDGER_SIGNING_KEY", want: []string{"warning evidence  ", "LEDGER_ANCHOR_DIR"}, well: true},
		"ErasureWithoutAKey":        {variable: "PSEUDONYM_KEY", want: []string{"warning erasure ", "no person can be erased"}, well: true},
		"ConsentThatIsForgottenTooSoon": {
			variable: "CONSENT_RETENTION", value: "43799h", want: []string{"warning consent kept ", "shorter than five years"}, well: true,
		},
		"WordsThatAreForgottenTooSoon": {
			variable: "MESSAGES_RETENTION", value: "9599h", want: []string{"warning consent kept ", "MESSAGES_RETENTION is 9599h", "what a text said"}, well: true,
		},
		"ReceiptsThatAreForgottenTooSoon": {variable: "RECEIPTS_RETENTION", value: "9599h", want: []string{"warning consent kept ", "RECEIPTS_"}, well: true},
		"AuditThatIsForgottenTooSoon":     {variable: "AUDIT_RETENTION", value: "9599h", want: []string{"warning consent kept ", "AUDIT_"}, well: true},
		"AHostThatTwilioRefuses":          {variable: "PUBLIC_BASE_URL", value: "https://pace_line.example", want: []string{"failed  callbacks", "21609"}},
		"AnIntervalThatIsTooShort":        {variable: "RECONCILE_INTERVAL", value: "29s", want: []string{"warning configuration  RECONCILE_INTERVAL is 29s"}, well: true},
		"AnAPIKeyThatIsDeleted":           {variable: "TWILIO_API_KEY_SID", value: "SK" + strings.Repeat("0", 32), want: []string{"failed  twilio", "401", "from the Twilio console"}},
		"TheSharedSecret":                 {variable: "SERVICE_AUTH_SECRET", value: secret, want: []string{"warning service keys   SERVICE_AUTH_SECRET is set"}, well: true},
	} {
		t.Run("Sees"+name, func(t *testing.T) {
			t.Parallel()
			migrated := messaging.Migrations()
			if tt.variable == "" {
				migrated = postgres.Migrations{}
			}
			env := environ(pgtest.URL(t, migrated), carrier)
			if tt.variable != "" {
				env[tt.variable] = tt.value
			}
			if env["TWILIO_API_KEY_SID"] != "" {
				env["TWILIO_API_KEY_SECRET"] = apiKeySecret
			}
			said, err := examine(t, env)
			if tt.well {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, process.ErrUnwell)
			}
			for _, want := range tt.want {
				require.Contains(t, said, want)
			}
		})
	}

	t.Run("SeesADatabaseThatRefusesWritesAndOneThatWentBack", func(t *testing.T) {
		t.Parallel()
		database := pgtest.URL(t, messaging.Migrations())
		said, err := examine(t, environ(database+"&default_transaction_read_only=on", carrier))
		require.ErrorIs(t, err, process.ErrUnwell)
		require.Contains(t, said, "failed  database       postgres: the server refuses writes")

		pool, err := postgres.Open(t.Context(), postgres.Config{URL: database, MaxConns: 1})
		require.NoError(t, err)
		defer pool.Close()
		_, err = pool.Exec(t.Context(), `insert into readbacks (org_id, since, noticed_at) values ($1, now(), now())`, org)
		require.NoError(t, err)
		said, err = examine(t, environ(database, carrier))
		require.NoError(t, err)
		require.Contains(t, said, "warning database       it went back in time: nothing is sent for 1 organisations")
	})

	t.Run("SeesAHostThatTheRealTwilioCannotReach", func(t *testing.T) {
		t.Parallel()
		for host, want := range map[string]string{"localhost": "cannot reach localhost", "192.168.1.4": "cannot reach 192.168.1.4", "gateway": "no public name"} {
			require.Contains(t, withTwilioItself(t, "PUBLIC_BASE_URL", "https://"+host), want)
		}
	})

	t.Run("SeesAnswersToHelpThatTheRealTwiliosCarriersRefuse", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, withTwilioItself(t), "warning help texts     SMS_BRAND_NAME is not set")
		require.Contains(t, withTwilioItself(t, "SMS_BRAND_NAME", "Acme"), "warning help texts     SMS_HELP_CONTACT is not set")
		require.Contains(t, withTwilioItself(t, "SMS_BRAND_NAME", "Acme", "SMS_HELP_CONTACT", "help@acme.example"), "ok      help texts ")
	})
}

// withTwilioItself returns what the doctor says with the real Twilio, which is not called.
func withTwilioItself(t *testing.T, settings ...string) string {
	t.Helper()
	env := environ("postgres://127.0.0.1:1/messaging", "")
	delete(env, "TWILIO_API_URL")
	for i := 0; i < len(settings); i += 2 {
		env[settings[i]] = settings[i+1]
	}
	cfg, err := messaging.LoadConfig(env)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context()) // it is not to be called
	cancel()
	var report bytes.Buffer
	require.Error(t, messaging.Doctor(ctx, cfg).Report(&report, false))
	return report.String()
}

// startCarrier plays Twilio for the account of environ, and returns where.
func startCarrier(t *testing.T) string {
	t.Helper()
	env := environ("", "")
	played, err := emulator.New(emulator.Config{
		Clock: clock.System(), AccountSID: env["TWILIO_ACCOUNT_SID"], AuthToken: env["TWILIO_AUTH_TOKEN"], Numbers: []string{env["TWILIO_FROM_NUMBER"]},
		APIKeys: map[string]string{apiKey: apiKeySecret},
	})
	require.NoError(t, err)
	server := httptest.NewServer(played)
	t.Cleanup(server.Close)
	return server.URL
}
