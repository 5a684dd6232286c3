package stack_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/qstash"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// TestReplay is an operator who executes a step by hand, as with grpcurl, and the repeats of every alarm that was delivered.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	// Also: S0-19, S0-30, S0-64, S0-66
	t.Run("S0_56_OfAStepWhoseAlarmWasLostAndOfEveryOtherAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		recorded := record(b, 1) // that of message 2 is lost
		p := b.begin(t)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1)
		conn, err := grpc.NewClient(b.services.Addresses.Onboarding, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		requireServed(t, conn, "paceline.onboarding.v1.OnboardingService")
		steps := onboardingv1.NewOnboardingServiceClient(conn)
		operator := b.as(t, rpc.Principal{Subject: "ada", OrgID: stack.OrgID, Role: rpc.RoleOperator})
		// again repeats every alarm by QStash's own callback and by gRPC. It must change nothing.
		again := func(reason string, n int) {
			session, timeline := p.session(t), p.timeline(t)
			require.Len(t, recorded(), n)
			for _, body := range recorded() {
				code, _, answer := b.ring(t, body, qstash.DevCurrentKey)
				require.Equal(t, http.StatusOK, code)
				require.JSONEq(t, `{"ok":true,"outcome":"skipped","reason":"`+reason+`"}`, answer)
				skipped, err := steps.ExecuteStep(operator, requestOf(t, body))
				require.NoError(t, err)
				require.Equal(t, reason, skipped.GetSkipReason())
			}
			require.Equal(t, session, p.session(t))
			require.Equal(t, timeline, p.timeline(t))
		}

		lost := requestOf(t, recorded()[1])
		b.clock.Advance(time.Minute)
		_, err = steps.ExecuteStep(t.Context(), lost)
		require.Equal(t, codes.Unauthenticated, status.Code(err))
		_, err = steps.ExecuteStep(b.as(t, rpc.Principal{Subject: p.id, OrgID: stack.OrgID, Role: rpc.RoleUser}), lost)
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = steps.ExecuteStep(b.as(t, rpc.Principal{Subject: "stranger", OrgID: otherOrg, Role: rpc.RoleOperator}), lost)
		require.Equal(t, codes.NotFound, status.Code(err), "another organisation's session does not exist")
		answer, err := steps.ExecuteStep(operator, lost)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, answer.GetOutcome())
		require.Equal(t, "onboarding_message_3", answer.GetNextStepId())
		again("stale", 2)
		p.requireWhole(t)
		again("session_inactive", 4)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	})
}

// requestOf is the call that an alarm makes of its body.
func requestOf(t *testing.T, body string) *onboardingv1.ExecuteStepRequest {
	t.Helper()
	var request onboardingv1.ExecuteStepRequest
	require.NoError(t, protojson.Unmarshal([]byte(body), &request))
	return &request
}

// record keeps the body of every alarm that QStash delivers, and of one that it loses instead.
func record(b *bundle, lost int) func() []string {
	var mu sync.Mutex
	var bodies []string
	b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: func(d qstash.Delivery) qstash.DeliverFault {
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(d.Message.Body))
		return qstash.DeliverFault{Lose: d.N == lost}
	}})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), bodies...)
	}
}

// as returns a context with a token for a principal in its calls.
func (b *bundle) as(t *testing.T, p rpc.Principal) context.Context {
	t.Helper()
	token, err := b.services.Secrets.ServiceToken(p, b.clock.Now, time.Hour)
	require.NoError(t, err)
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
}

// requireServed asks for health and for the description of a service without any token, as probes and grpcurl do.
func requireServed(t *testing.T, conn *grpc.ClientConn, service string) {
	t.Helper()
	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, health.GetStatus())
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	require.Contains(t, names, service)
}
