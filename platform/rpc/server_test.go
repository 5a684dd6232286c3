package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

// counted is the value of paceline_rpc_handled_total for the labels, 0 when there is none.
func (b *bench) counted(code, reason string) float64 {
	b.t.Helper()
	families, err := b.tel.Registry.Gather()
	require.NoError(b.t, err)
	for _, family := range families {
		if family.GetName() != "paceline_rpc_handled_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["code"] == code && labels["reason"] == reason && labels["method"] == echo {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestServer(t *testing.T) {
	t.Parallel()

	t.Run("AnAnsweredCallIsOneWideLine", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(ctx context.Context, text string) (string, error) {
			rpc.Annotate(ctx, slog.String("session_id", "s-1"))
			return text, nil
		})
		spans := tracetest.NewSpanRecorder()
		b.tel.Tracer.RegisterSpanProcessor(spans)

		answer, err := call(telemetry.WithRequestID(rpc.WithPrincipal(t.Context(), user()), "r-1"), b.dial(), echo, "hi")

		require.NoError(t, err)
		require.Equal(t, "hi", answer)
		line := b.line()
		require.Equal(t, "rpc.handled", line["msg"])
		require.Equal(t, "INFO", line["level"])
		require.Equal(t, echo, line["method"])
		require.Equal(t, "OK", line["code"])
		require.Equal(t, "s-1", line["session_id"])
		require.Equal(t, "r-1", line["request_id"])
		require.Equal(t, "user", line["caller_role"])
		require.Equal(t, org, line["org_id"])
		require.Len(t, line["trace_id"], 32, "the stats handler is outside of the log")
		require.GreaterOrEqual(t, line["duration_ms"], 0.0)
		require.NotContains(t, line, "error")
		require.InDelta(t, 1, b.counted("OK", ""), 0)
		kinds := map[trace.SpanKind]int{}
		for _, span := range spans.Ended() {
			kinds[span.SpanKind()]++
		}
		require.Equal(t, map[trace.SpanKind]int{trace.SpanKindClient: 1, trace.SpanKindServer: 1}, kinds)
	})

	t.Run("OnlyTheFailureOfAQuietCallIsLogged", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(ctx context.Context, text string) (string, error) {
			rpc.Quiet(ctx)
			if text == "hi" {
				return text, nil
			}
			return "", errors.New("it fails")
		})
		for _, text := range []string{"hi", "hunter2"} {
			_, _ = call(t.Context(), b.dial(), echo, text)
		}
		require.Equal(t, "ERROR", b.line()["level"], "the one line")
	})

	t.Run("APanicIsCountedLoggedAndAnsweredWithAFixedText", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(context.Context, string) (string, error) { panic("hunter2") })

		_, err := call(t.Context(), b.dial(), echo, "hi")

		require.Equal(t, status.Error(codes.Internal, "internal error").Error(), err.Error())
		line := b.line()
		require.Equal(t, "ERROR", line["level"])
		require.Equal(t, "Internal", line["code"])
		require.Equal(t, "hunter2", line["panic"])
		require.Contains(t, line["stack"], "server_test.go")
		require.InDelta(t, 1, b.counted("Internal", ""), 0)
	})

	t.Run("AnUnknownErrorIsToldToTheLogAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(context.Context, string) (string, error) { return "", errors.New("relation hunter2 is missing") })

		_, err := call(t.Context(), b.dial(), echo, "hi")

		require.Equal(t, codes.Internal, status.Code(err))
		require.NotContains(t, err.Error(), "hunter2")
		require.Equal(t, "relation hunter2 is missing", b.line()["error"])
	})
}

func TestAnswersOfAServer(t *testing.T) {
	t.Parallel()

	t.Run("TheAnswerOfAnotherServerIsNotOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(context.Context, string) (string, error) {
			return "", fmt.Errorf("send: %w", status.Error(codes.Unauthenticated, "who are you"))
		})

		_, err := call(t.Context(), b.dial(), echo, "hi")

		require.Equal(t, codes.Internal, status.Code(err))
		require.Contains(t, b.line()["error"], "who are you")
	})

	t.Run("AnErrorWithoutACodeIsNotTakenForSuccess", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(context.Context, string) (string, error) { return "", &rpc.Error{Message: "no code"} })
		_, err := call(t.Context(), b.dial(), echo, "hi")
		require.Equal(t, codes.Internal, status.Code(err))
	})

	t.Run("AnAnswerReachesTheCallerWithItsReason", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(context.Context, string) (string, error) {
			return "", &rpc.Error{
				Code: codes.Unavailable, Reason: "SEND_IN_FLIGHT", Domain: "paceline.test.v1", Message: "come back",
				Meta: map[string]string{"message_id": "m-1"}, RetryAfter: 3 * time.Second,
			}
		})

		_, err := call(t.Context(), b.dial(), echo, "hi")

		err = fmt.Errorf("wrapped since: %w", err)
		require.Equal(t, codes.Unavailable, status.Code(err))
		reason, meta := rpc.Reason(err)
		require.Equal(t, "SEND_IN_FLIGHT", reason)
		require.Equal(t, map[string]string{"message_id": "m-1"}, meta)
		require.Equal(t, 3*time.Second, rpc.RetryAfter(err))
		line := b.line()
		require.Equal(t, "SEND_IN_FLIGHT", line["reason"])
		require.Equal(t, "WARN", line["level"])
		require.InDelta(t, 1, b.counted("Unavailable", "SEND_IN_FLIGHT"), 0)
	})

	t.Run("ACallWithoutADeadlineGetsTheDefault", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, func(cfg *rpc.ServerConfig) { cfg.Timeout = time.Millisecond })
		token, err := b.tokens.Mint(service(), time.Minute)
		require.NoError(t, err)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)

		_, err = call(ctx, b.plain(), echo, "hi")

		require.Equal(t, status.Error(codes.DeadlineExceeded, "the deadline is over").Error(), err.Error())
		require.Equal(t, "DeadlineExceeded", b.line()["code"])
	})

	t.Run("AForgedRequestIDIsReplaced", func(t *testing.T) {
		t.Parallel()
		b := setup(t, repeat)
		conn := b.dial()
		for _, id := range []string{"a b", strings.Repeat("x", 65)} {
			_, err := call(telemetry.WithRequestID(t.Context(), id), conn, echo, "hi")
			require.NoError(t, err)
		}
		for _, line := range b.lines() {
			require.Len(t, line["request_id"], 36)
		}
	})
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		authorization func(*rpc.Tokens) []string
		method        string
		want          codes.Code
	}{
		{name: "NoToken", method: echo, want: codes.Unauthenticated, authorization: func(*rpc.Tokens) []string { return nil }},
		{
			name: "TwoTokens", method: echo, want: codes.Unauthenticated,
			authorization: func(m *rpc.Tokens) []string { return []string{bearer(m, service()), bearer(m, service())} },
		},
		{
			name: "AnotherScheme", method: echo, want: codes.Unauthenticated,
			authorization: func(*rpc.Tokens) []string { return []string{"Basic cGFjZWxpbmU6cGFjZWxpbmU="} },
		},
		{
			name: "NoJWT", method: echo, want: codes.Unauthenticated,
			authorization: func(*rpc.Tokens) []string { return []string{"Bearer hunter2"} },
		},
		{
			name: "ATokenThatIsTooLong", method: echo, want: codes.Unauthenticated,
			authorization: func(*rpc.Tokens) []string { return []string{"Bearer " + strings.Repeat("x", 8<<10+1)} },
		},
		{
			name: "AllowedRole", method: echo, want: codes.OK,
			authorization: func(m *rpc.Tokens) []string { return []string{bearer(m, user())} },
		},
		{
			name: "SchemeInLowerCase", method: echo, want: codes.OK,
			authorization: func(m *rpc.Tokens) []string { return []string{"b" + bearer(m, user())[1:]} },
		},
		{
			name: "RoleThatIsNotAllowed", method: echo, want: codes.PermissionDenied,
			authorization: func(m *rpc.Tokens) []string {
				return []string{bearer(m, rpc.Principal{Subject: "op", OrgID: org, Role: rpc.RoleOperator})}
			},
		},
		{
			name: "MethodWithoutARule", method: closed, want: codes.PermissionDenied,
			authorization: func(m *rpc.Tokens) []string { return []string{bearer(m, service())} },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, repeat)
			ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"authorization": tc.authorization(b.tokens)})

			_, err := call(ctx, b.plain(), tc.method, "hi")

			require.Equal(t, tc.want, status.Code(err))
			line := b.line()
			require.Equal(t, tc.want.String(), line["code"], "a refusal is logged like every other answer")
			require.Equal(t, tc.want == codes.Unauthenticated, line["refused"] != nil, "the log tells why")
			if tc.method == echo {
				require.InDelta(t, 1, b.counted(tc.want.String(), ""), 0, "and counted")
			}
		})
	}
}

func TestCallersWithoutAToken(t *testing.T) {
	t.Parallel()

	t.Run("R_18_NothingIsReadOfACallerWithoutAToken", func(t *testing.T) {
		t.Parallel()
		b := setup(t, repeat, func(cfg *rpc.ServerConfig) { cfg.MaxRequest = 3 << 20 })
		for _, size := range []int{1, 3 << 20, 4 << 20} {
			_, err := call(t.Context(), b.plain(), echo, strings.Repeat("x", size))
			require.Equal(t, codes.Unauthenticated, status.Code(err))
		}
		require.Zero(t, b.read.Load())

		_, err := call(metadata.AppendToOutgoingContext(t.Context(), "x-filler", strings.Repeat("x", 64<<10)), b.plain(), echo, "hi")
		require.Error(t, err)
		require.NotEqual(t, codes.Unauthenticated, status.Code(err), "headers are bounded before they are read")
	})

	for name, tc := range map[string]struct{ limit, fits, tooLarge int }{
		"SixtyFourKiB":       {0, 60 << 10, 64 << 10},
		"WhatTheServiceSays": {3 << 20, 2 << 20, 3 << 20},
	} {
		t.Run("R_18_AMessageHasAtMost"+name, func(t *testing.T) {
			t.Parallel()
			conn := setup(t, repeat, func(cfg *rpc.ServerConfig) { cfg.MaxRequest = tc.limit }).dial()
			_, err := call(t.Context(), conn, echo, strings.Repeat("x", tc.fits))
			require.NoError(t, err)
			_, err = call(t.Context(), conn, echo, strings.Repeat("x", tc.tooLarge)) // and the bytes around it
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
		})
	}

	t.Run("R_18_AStreamWithoutItsMessageIsEnded", func(t *testing.T) {
		t.Parallel()
		b := setup(t, repeat)
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		open := func(conn *grpc.ClientConn, method string) grpc.ClientStream {
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
			require.NoError(t, err)
			return s
		}
		for _, s := range []grpc.ClientStream{ // each sends its headers, and nothing more
			open(b.dial(), echo),
			open(b.plain(), healthpb.Health_Check_FullMethodName),
			open(b.plain(), healthpb.Health_Watch_FullMethodName),
			open(b.plain(), reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName),
		} {
			err := s.RecvMsg(new(wrapperspb.StringValue))
			require.Equal(t, codes.Canceled, status.Code(err), "%v", err)
		}
		require.NoError(t, ctx.Err(), "it was the server")
	})

	t.Run("R_18_OneStrangerTooManyEndsTheOldest", func(t *testing.T) {
		t.Parallel()
		b := setup(t, repeat)
		watch := func(conn *grpc.ClientConn) grpc.ServerStreamingClient[healthpb.HealthCheckResponse] {
			s, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
			require.NoError(t, err)
			_, err = s.Recv()
			require.NoError(t, err)
			return s
		}
		trusted := watch(b.dial())
		oldest := watch(b.plain())
		for range 7 {
			watch(b.plain())
		}
		_, err := healthpb.NewHealthClient(b.plain()).Check(t.Context(), &healthpb.HealthCheckRequest{})
		require.NoError(t, err, "a probe always has a place")
		_, err = oldest.Recv()
		require.Equal(t, codes.Canceled, status.Code(err))
		b.Health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		told, err := trusted.Recv()
		require.NoError(t, err, "who has a token is no stranger")
		require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, told.GetStatus())
	})

	t.Run("HealthAndReflectionAreOpenAndQuiet", func(t *testing.T) {
		t.Parallel()
		b := setup(t, repeat)
		spans := tracetest.NewSpanRecorder()
		b.tel.Tracer.RegisterSpanProcessor(spans)
		conn := b.plain()

		health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
		require.Equal(t, healthpb.HealthCheckResponse_SERVING, health.GetStatus())
		services, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		require.NoError(t, services.Send(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
		}))
		listed, err := services.Recv()
		require.NoError(t, err)
		require.NotEmpty(t, listed.GetListServicesResponse().GetService())
		require.NoError(t, services.CloseSend())

		require.Empty(t, b.lines(), "probes are logged at debug only")
		require.Empty(t, spans.Started(), "and not traced")
	})
}

func bearer(m *rpc.Tokens, p rpc.Principal) string {
	token, err := m.Mint(p, time.Minute)
	if err != nil {
		return err.Error()
	}
	return "Bearer " + token
}

func TestNewServer(t *testing.T) {
	t.Parallel()

	t.Run("RefusesToServeWithoutTokens", func(t *testing.T) {
		t.Parallel()
		_, err := rpc.NewServer(rpc.ServerConfig{Log: slog.New(slog.DiscardHandler)})
		require.ErrorContains(t, err, "required")
	})

	t.Run("AMethodWithoutARuleStopsTheStart", func(t *testing.T) {
		t.Parallel()
		err := setup(t, repeat).CheckRules()
		require.ErrorContains(t, err, "rules: "+closed+" has no option (paceline.method.v1.method)")
		require.ErrorContains(t, err, "ClosedService/WithoutCallers has no option")
		require.ErrorContains(t, err, "ClosedService/ForAnUnknownCaller names a caller that is none: 99")
		require.ErrorContains(t, err, "ClosedService/Unkept must say audit: AUDIT_CHANGE, AUDIT_READ or AUDIT_NONE")
		require.ErrorContains(t, err, "ClosedService/KeptOfServices must say audit")
		require.NotContains(t, err.Error(), "EchoService")
	})

	t.Run("CallsThatCannotBeKeptStopTheStart", func(t *testing.T) {
		t.Parallel()
		err := setup(t, repeat, func(cfg *rpc.ServerConfig) { cfg.Keep = nil }).CheckRules()
		require.ErrorContains(t, err, "calls are to be kept, and there is no Keep")
	})

	t.Run("AServiceWithoutADescriptorStopsTheStart", func(t *testing.T) {
		t.Parallel()
		server, err := rpc.NewServer(rpc.ServerConfig{
			Tokens: tokens(t), Log: slog.New(slog.DiscardHandler), TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(),
		})
		require.NoError(t, err)
		t.Cleanup(server.Stop)
		require.NoError(t, server.CheckRules(), "health and reflection need no rule")
		server.RegisterService(echoService(new(atomic.Int64), "GoneService", "Echo"), handler(repeat))
		require.ErrorContains(t, server.CheckRules(), "service paceline.test.v1.GoneService: ")
	})
}

func TestError(t *testing.T) {
	t.Parallel()

	t.Run("LogsItsCodeAndReason", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		err := error(&rpc.Error{Code: codes.NotFound, Reason: "SESSION_NOT_FOUND", Message: "no such session"})
		slog.New(slog.NewTextHandler(&out, nil)).Error("failed", "error", err)
		require.Contains(t, out.String(), `error.code=NotFound error.reason=SESSION_NOT_FOUND error.message="no such session"`)
	})

	t.Run("AnErrorOfNoServerHasNoReason", func(t *testing.T) {
		t.Parallel()
		for _, err := range []error{nil, errors.New("other"), &config.Problem{}} {
			reason, meta := rpc.Reason(err)
			require.Empty(t, reason)
			require.Nil(t, meta)
			require.Zero(t, rpc.RetryAfter(err))
		}
	})

	t.Run("TextThatCannotCrossTheWireLeavesTheCode", func(t *testing.T) {
		t.Parallel()
		err := &rpc.Error{Code: codes.NotFound, Reason: "\xff", Message: "no such session"}
		require.Equal(t, codes.NotFound, status.Code(err))
	})
}
