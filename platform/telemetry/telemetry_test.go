package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"paceline.internal/platform/config"
	"paceline.internal/platform/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfig(t *testing.T) {
	t.Parallel()

	t.Run("Defaults", func(t *testing.T) {
		t.Parallel()
		var c telemetry.Config
		require.NoError(t, config.Load(nil, &c))
		require.Equal(t, telemetry.Config{LogLevel: slog.LevelInfo, LogFormat: telemetry.LogJSON()}, c)
	})

	t.Run("Given", func(t *testing.T) {
		t.Parallel()
		var c telemetry.Config
		environ := map[string]string{"LOG_LEVEL": "warn", "LOG_FORMAT": "text", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
		require.NoError(t, config.Load(environ, &c))
		require.Equal(t, slog.LevelWarn, c.LogLevel)
		require.Equal(t, telemetry.LogText(), c.LogFormat)
		require.Equal(t, "http://collector:4317", c.OTLPEndpoint.String())
	})

	t.Run("EveryMalformedOneIsNamed", func(t *testing.T) {
		t.Parallel()
		var c telemetry.Config
		err := config.Load(map[string]string{"LOG_LEVEL": "loud", "LOG_FORMAT": "xml", "OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, &c)
		for _, name := range []string{"LOG_LEVEL", "LOG_FORMAT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
			require.ErrorContains(t, err, name)
		}
	})
}

// start gives the telemetry of a service that logs into the buffer.
func start(t *testing.T, cfg telemetry.Config) (*telemetry.Telemetry, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	tel, err := telemetry.New(t.Context(), telemetry.Options{
		Service: "messaging", Config: cfg, Output: &out, Registry: telemetry.NewRegistry(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) })
	return tel, &out
}

func TestLog(t *testing.T) {
	t.Parallel()

	t.Run("ALineCarriesServiceTraceAndRequest", func(t *testing.T) {
		t.Parallel()
		tel, out := start(t, telemetry.Config{})
		ctx, span := tel.Tracer.Tracer("test").Start(telemetry.WithRequestID(t.Context(), "r-1"), "work")
		defer span.End()

		tel.Log.With("session_id", "s-1").InfoContext(ctx, "onboarding.step_sent")

		var line map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &line))
		require.Equal(t, "onboarding.step_sent", line["msg"])
		require.Equal(t, "messaging", line["service"])
		require.Equal(t, "s-1", line["session_id"])
		require.Equal(t, "r-1", line["request_id"])
		require.Equal(t, span.SpanContext().TraceID().String(), line["trace_id"])
	})

	t.Run("ALineOutsideOfARequestHasNeither", func(t *testing.T) {
		t.Parallel()
		tel, out := start(t, telemetry.Config{})
		tel.Log.InfoContext(t.Context(), "process.started")
		require.NotContains(t, out.String(), "trace_id")
		require.NotContains(t, out.String(), "request_id")
	})

	t.Run("LevelAndFormatAreObeyed", func(t *testing.T) {
		t.Parallel()
		tel, out := start(t, telemetry.Config{LogLevel: slog.LevelWarn, LogFormat: telemetry.LogText()})
		tel.Log.InfoContext(t.Context(), "quiet")
		tel.Log.WarnContext(t.Context(), "loud")
		require.NotContains(t, out.String(), "quiet")
		require.Contains(t, out.String(), "level=WARN msg=loud service=messaging")
	})
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{name: "Phone", text: "+5511999990088", want: "+55***88"},
		{name: "ShortestThatShowsAnything", text: "+1234567", want: "+12***67"},
		{name: "TooShortToShowAnything", text: "+123456", want: "***"},
		{name: "RunesAreNotCut", text: "ãéîõüñçß", want: "ãéî***çß"},
		{name: "Nothing", text: "", want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			masked := telemetry.Masked(tc.text)
			tel, out := start(t, telemetry.Config{})
			tel.Log.InfoContext(t.Context(), "sms", "to", masked)
			encoded, err := json.Marshal(masked)
			require.NoError(t, err)

			require.Contains(t, out.String(), fmt.Sprintf(`"to":%q`, tc.want))
			require.Equal(t, fmt.Sprintf("%q", tc.want), string(encoded))
			require.Equal(t, tc.want, fmt.Sprintf("%v", masked))
			require.Equal(t, tc.want, fmt.Sprintf("%#v", masked))
		})
	}
}

func TestPropagator(t *testing.T) {
	t.Parallel()
	tel, _ := start(t, telemetry.Config{})
	ctx, span := tel.Tracer.Tracer("test").Start(t.Context(), "work")
	defer span.End()
	carrier := propagation.MapCarrier{}

	telemetry.Propagator().Inject(ctx, carrier)

	require.Contains(t, carrier["traceparent"], span.SpanContext().TraceID().String())
	require.Equal(t, []string{"traceparent", "tracestate"}, telemetry.Propagator().Fields())
}

// collector is an OTLP receiver that keeps the names of the spans it was sent.
type collector struct {
	tracepb.UnimplementedTraceServiceServer

	spans chan string
}

func (c *collector) Export(_ context.Context, r *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans <- resource.GetResource().GetAttributes()[0].GetValue().GetStringValue() + "/" + span.GetName()
			}
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

func TestTraces(t *testing.T) {
	t.Parallel()

	t.Run("AreExportedByTheTimeOfShutdownEvenAfterASignal", func(t *testing.T) {
		t.Parallel()
		listener := listen(t)
		receiver := &collector{spans: make(chan string, 1)}
		server := grpc.NewServer()
		tracepb.RegisterTraceServiceServer(server, receiver)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		tel := traced(t, listener)
		signalled, cancel := context.WithCancel(t.Context())
		cancel()

		require.NoError(t, tel.Shutdown(signalled))
		require.Equal(t, "messaging/work", <-receiver.spans)
	})

	t.Run("AnAttributeIsCutShort", func(t *testing.T) {
		t.Parallel()
		tel := traced(t, listen(t))
		defer func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // the span is not taken
			defer cancel()
			_ = tel.Shutdown(ctx)
		}()
		_, span := tel.Tracer.Tracer("test").Start(t.Context(), "call", trace.WithAttributes(
			attribute.String("user_agent.original", strings.Repeat("x", 32<<10))))
		defer span.End()
		readable, ok := span.(sdktrace.ReadOnlySpan)
		require.True(t, ok)
		require.Len(t, readable.Attributes()[0].Value.AsString(), 4<<10)
	})

	t.Run("AServiceStopsWithoutItsCollector", func(t *testing.T) {
		t.Parallel()
		hangs, away := listen(t), listen(t) // of the first the kernel accepts connections, and no collector answers
		require.NoError(t, away.Close())
		for name, collector := range map[string]net.Listener{"Hangs": hangs, "Away": away} {
			var out bytes.Buffer
			tel := tracedTo(t, collector, &out)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.NoError(t, tel.Shutdown(ctx), name)
			requireFailedExport(t, &out)
		}
	})

	t.Run("AFailedExportIsALineOfTheLog", func(t *testing.T) {
		t.Parallel()
		listener := listen(t)
		server := grpc.NewServer() // it has no service of traces
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		var out bytes.Buffer
		require.NoError(t, tracedTo(t, listener, &out).Shutdown(t.Context()))
		requireFailedExport(t, &out)
	})
}

// requireFailedExport finds one line, of JSON, that warns.
func requireFailedExport(t *testing.T, out *bytes.Buffer) {
	t.Helper()
	var line struct{ Level, Msg string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), out.String())
	require.Equal(t, "WARN telemetry.export_failed", line.Level+" "+line.Msg)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() }) // a server that was stopped has closed it already
	return listener
}

// traced is a service that exports to the listener and has one span to export.
func traced(t *testing.T, listener net.Listener) *telemetry.Telemetry {
	t.Helper()
	return tracedTo(t, listener, t.Output())
}

func tracedTo(t *testing.T, listener net.Listener, out io.Writer) *telemetry.Telemetry {
	t.Helper()
	endpoint, err := config.ParseOrigin("http://" + listener.Addr().String())
	require.NoError(t, err)
	tel, err := telemetry.New(t.Context(), telemetry.Options{
		Service: "messaging", Config: telemetry.Config{OTLPEndpoint: endpoint}, Output: out, Registry: telemetry.NewRegistry(),
	})
	require.NoError(t, err)
	_, span := tel.Tracer.Tracer("test").Start(t.Context(), "work")
	span.End()
	return tel
}

func TestOps(t *testing.T) {
	t.Parallel()
	tel, _ := start(t, telemetry.Config{})
	sent, err := tel.Meter.Meter("test").Int64Counter("sms.sent")
	require.NoError(t, err)
	sent.Add(t.Context(), 3)
	shown := struct {
		Token config.Secret
		Addr  string
	}{config.NewSecret("hunter2"), ":9002"}
	ops := func(ready error) http.Handler {
		return telemetry.OpsHandler(telemetry.OpsConfig{
			Registry: tel.Registry, Config: shown,
			Queues: func(context.Context) (any, error) { return map[string]int{"backlog": 7}, nil },
			Ready: func(ctx context.Context) error {
				_, bounded := ctx.Deadline()
				require.True(t, bounded)
				return ready
			},
		})
	}
	for _, tc := range []struct {
		name, path string
		ready      error
		code       int
		want       string
	}{
		{name: "MetricsComeFromTheRegistry", path: "/metrics", code: http.StatusOK, want: "sms_sent_total 3"},
		{name: "MetricsOfTheRuntime", path: "/metrics", code: http.StatusOK, want: "go_goroutines"},
		{name: "HealthyEvenWhenUnready", path: "/healthz", ready: errors.New("no"), code: http.StatusOK, want: `"status": "ok"`},
		{name: "Ready", path: "/readyz", code: http.StatusOK, want: `"status": "ready"`},
		{
			name: "UnreadySaysWhy", path: "/readyz", ready: errors.New("schema 3 is below 5"),
			code: http.StatusServiceUnavailable, want: `"reason": "schema 3 is below 5"`,
		},
		{name: "ConfigWithoutItsSecrets", path: "/debug/config", code: http.StatusOK, want: `"Token": "***"`},
		{name: "ProfileIndex", path: "/debug/pprof/", code: http.StatusOK, want: "goroutine"},
		{name: "NamedProfile", path: "/debug/pprof/goroutine?debug=1", code: http.StatusOK, want: "goroutine profile"},
		{name: "AnythingElseIsNotFound", path: "/", code: http.StatusNotFound, want: "not found"},
		{name: "HowTheQueuesAreDoing", path: "/readyz", code: http.StatusOK, want: `"backlog": 7`},
		{
			name: "HowTheQueuesAreDoingEvenWhenUnready", path: "/readyz", ready: errors.New("no"),
			code: http.StatusServiceUnavailable, want: `"backlog": 7`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answer := httptest.NewRecorder()
			ops(tc.ready).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:9100"+tc.path, nil))
			require.Equal(t, tc.code, answer.Code)
			require.Contains(t, answer.Body.String(), tc.want)
			require.NotContains(t, answer.Body.String(), "hunter2")
		})
	}
	t.Run("QueuesThatCannotBeAskedAreLeftOut", func(t *testing.T) {
		t.Parallel()
		answer := httptest.NewRecorder()
		telemetry.OpsHandler(telemetry.OpsConfig{
			Registry: tel.Registry, Ready: func(context.Context) error { return nil },
			Queues: func(context.Context) (any, error) { return "half", errors.New("the database is down") },
		}).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/readyz", nil))
		require.Equal(t, http.StatusOK, answer.Code)
		require.JSONEq(t, `{"status": "ready"}`, answer.Body.String())
	})
}

func TestOpsAndBrowsers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, host, addr string
		header           map[string]string
		want             int
	}{
		{name: "AnAddress", host: "10.1.2.3:9100", want: http.StatusOK},
		{name: "AnAddressOfIPv6", host: "[fd00::1]:9100", want: http.StatusOK},
		{name: "AnAddressWithoutAPort", host: "::1", want: http.StatusOK},
		{name: "ThisMachine", host: "LocalHost:9100", want: http.StatusOK},
		{name: "ANeighbour", host: "gateway:9100", want: http.StatusOK},
		{name: "AService", host: "gateway.paceline.svc:9100", want: http.StatusOK},
		{name: "AServiceInFull", host: "gateway.paceline.svc.cluster.local", want: http.StatusOK},
		{name: "APrivateName", host: "ip-10-1-2-3.eu-west-1.compute.internal:9100", want: http.StatusOK},
		{name: "TheNameThatItListensOn", host: "Ops.paceline.example:9100", addr: "ops.paceline.example:9100", want: http.StatusOK},
		{name: "OfThisSite", host: "localhost:9100", header: map[string]string{"Sec-Fetch-Site": "same-origin"}, want: http.StatusOK},
		{name: "TypedByAPerson", host: "localhost:9100", header: map[string]string{"Sec-Fetch-Site": "none"}, want: http.StatusOK},
		{name: "ANameOfTheInternet", host: "rebound.example:9100", want: http.StatusForbidden},
		{name: "OneThatBeginsLikeOurs", host: "localhost.rebound.example", addr: "localhost:9100", want: http.StatusForbidden},
		{name: "OneThatBeginsLikeAnAddress", host: "127.0.0.1.rebound.example", want: http.StatusForbidden},
		{name: "OneWithADotAtItsEnd", host: "rebound.example.", want: http.StatusForbidden},
		{name: "APageOfAnotherSite", host: "127.0.0.1:9100", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: http.StatusForbidden},
		{name: "APageOfTheSameSite", host: "127.0.0.1:9100", header: map[string]string{"Sec-Fetch-Site": "same-site"}, want: http.StatusForbidden},
		{name: "APageInAnOldBrowser", host: "127.0.0.1:9100", header: map[string]string{"Origin": "https://page.example"}, want: http.StatusForbidden},
	} {
		t.Run("R_18_"+tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := telemetry.OpsConfig{Registry: telemetry.NewRegistry(), Ready: func(context.Context) error { return nil }}
			if tc.addr != "" {
				var err error
				cfg.Addr, err = config.ParseAddr(tc.addr)
				require.NoError(t, err)
			}
			for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/config", "/debug/pprof/"} {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				request.Host = tc.host
				for name, value := range tc.header {
					request.Header.Set(name, value)
				}
				answer := httptest.NewRecorder()
				telemetry.OpsHandler(cfg).ServeHTTP(answer, request)
				require.Equal(t, tc.want, answer.Code, path)
			}
		})
	}
}

func TestOpsServer(t *testing.T) {
	t.Parallel()
	server := telemetry.OpsServer(http.NotFoundHandler())
	require.Positive(t, server.ReadHeaderTimeout)
	require.Positive(t, server.ReadTimeout)
	require.Positive(t, server.WriteTimeout)
	require.Positive(t, server.IdleTimeout)
}
