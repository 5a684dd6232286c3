package telemetry_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	phone = "+14155552001"
	name  = "Zuleika"
)

// longest bounds every wait for the stack. It is only ever used up by a failure.
const longest = 30 * time.Second

// seen has everything that one whole conversation leaves in logs, metrics and traces.
type seen struct {
	session string
	goal    string
	spans   []*traces.Span
	metrics exported // of all three services
}

// played keeps what the one conversation left, which every test reads.
var played struct {
	once sync.Once
	left seen
}

// conversation plays one on its own stack, from the activation to the last receipt, with a collector of traces.
func conversation(t *testing.T) seen {
	t.Helper()
	played.once.Do(func() { played.left = play(t) })
	require.NotEmpty(t, played.left.metrics.labels, "the conversation failed in another test")
	return played.left
}

func play(t *testing.T) seen {
	t.Helper()
	now := clock.NewSettable(time.Date(2026, time.November, 20, 18, 0, 0, 0, time.UTC))
	log := slog.New(slog.DiscardHandler)
	sink, endpoint := startSink(t)
	vendors, err := stack.StartVendors(t.Context(), stack.VendorConfig{Clock: now, Log: log})
	require.NoError(t, err)
	secrets := stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	token, err := secrets.APIToken("operator", stack.OrgID, rpc.RoleOperator, now.Now(), time.Hour)
	require.NoError(t, err)
	services, err := stack.StartServices(t.Context(), vendors, stack.ServiceConfig{
		OnboardingDatabaseURL: pgtest.URL(t, onboarding.Migrations()), MessagingDatabaseURL: pgtest.URL(t, messaging.Migrations()),
		Secrets: secrets, Log: log, Environ: map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "LEDGER_SIGNING_KEY": secrets.Keys()["GATEWAY_SIGNING_KEY"], "LEDGER_ANCHOR_DIR": t.TempDir(),
		},
	})
	require.NoError(t, err)
	stop := sync.OnceFunc(func() {
		require.NoError(t, services.Stop(context.WithoutCancel(t.Context())))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), longest)
		defer cancel()
		require.NoError(t, vendors.Stop(ctx))
	})
	defer stop()
	w := world{url: services.URL(), token: token}

	var created struct {
		Profile struct {
			ID string `json:"profile_id"`
		} `json:"profile"`
	}
	w.call(t, http.MethodPost, "/v1/profiles", map[string]string{"phone": phone, "first_name": name, "locale": "en", "time_zone": "Africa/Abidjan"}, &created)
	var opened struct {
		Session struct {
			ID string `json:"session_id"`
		} `json:"session"`
	}
	w.call(t, http.MethodPost, "/v1/profiles/"+created.Profile.ID+":activate", struct{}{}, &opened)
	rest := func() {
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		require.NoError(t, vendors.Idle(ctx))
		for now.AdvanceToNext() {
			require.NoError(t, vendors.Idle(ctx))
		}
	}
	for _, words := range []string{"Delighted to hear from you", "Please do go on then", "Absolutely ready now"} {
		rest()
		now.Advance(time.Minute)
		said, err := vendors.Twilio.Receive(t.Context(), phone, stack.FromNumber, words)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, said.StatusCode)
	}
	rest()
	w.call(t, http.MethodPost, "/v1/engagement/runs", map[string]string{"job": "daily"}, &struct{}{})
	var scheduled struct {
		Goal struct {
			ID string `json:"goal_id"`
		} `json:"goal"`
	}
	w.call(t, http.MethodPost, "/v1/goals", map[string]string{
		"profile_id": created.Profile.ID, "goal": "in 5 minutes remind me to call John", "idempotency_key": "john",
	}, &scheduled)
	rest()
	w.forge(t)

	left := seen{session: opened.Session.ID, goal: scheduled.Goal.ID, metrics: exported{labels: map[string]map[string]map[string]bool{}, gauges: map[string]bool{}}}
	for _, addr := range []string{services.Addresses.GatewayOps, services.Addresses.OnboardingOps, services.Addresses.MessagingOps} {
		scrape(t, addr, left.metrics)
	}
	stop() // which exports the last spans
	left.spans = sink.all()
	return left
}

// world is the stack's addresses for callers from outside.
type world struct{ url, token string }

func (w world) call(t *testing.T, method, path string, in, out any) {
	t.Helper()
	encoded, err := json.Marshal(in)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, bytes.NewReader(encoded))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.token)
	status, answer := do(t, req)
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, "%s", answer)
	require.NoError(t, json.Unmarshal(answer, out))
}

// forge calls the webhooks with forged signatures, so that the refusals that the alerts name are counted.
func (w world) forge(t *testing.T) {
	t.Helper()
	for path, want := range map[string]int{"/api/onboarding/step": http.StatusUnauthorized, "/api/webhooks/twilio/inbound": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader("a=b"))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, answer := do(t, req)
		require.Equal(t, want, status, "%s", answer)
	}
}

func do(t *testing.T, req *http.Request) (int, []byte) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, answer
}

// scrape adds what Prometheus stores of an ops port: it asks for OpenMetrics, as Prometheus does first, and reads the answer with
// Prometheus' own parser, which also decides how the bound of a bucket is spelled.
func scrape(t *testing.T, addr string, into exported) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
	parser, err := textparse.New(answer, resp.Header.Get("Content-Type"), nil, textparse.ParserOptions{})
	require.NoError(t, err)
	deprecated := false
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		switch entry { //nolint:exhaustive // units and comments are not stored
		case textparse.EntryHelp:
			_, help := parser.Help()
			deprecated = strings.HasPrefix(string(help), "Deprecated")
		case textparse.EntryType:
			name, kind := parser.Type()
			into.gauges[string(name)] = kind == model.MetricTypeGauge
		case textparse.EntrySeries:
			if deprecated {
				continue // alerts and dashboards use the new names
			}
			var series labels.Labels
			parser.Labels(&series)
			into.add(series)
		}
	}
}

// sink is a collector that keeps every span.
type sink struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*traces.Span
}

func startSink(t *testing.T) (s *sink, endpoint string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, server := new(sink), grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	return s, "http://" + listener.Addr().String()
}

// Export implements the collector.
func (s *sink) Export(_ context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range in.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			s.spans = append(s.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (s *sink) all() []*traces.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans
}

// traceOf is the id of the trace that a session has.
func traceOf(session string) string { return strings.ReplaceAll(session, "-", "") }

func describe(s *traces.Span) string {
	return fmt.Sprintf("%s %s in %s", hex.EncodeToString(s.GetSpanId()), s.GetName(), hex.EncodeToString(s.GetTraceId()))
}
