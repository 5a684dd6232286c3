package stack_test

import (
	"context"
	"net/http"
	"regexp"
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

	"paceline.internal/emulators/qstash"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/test/stack"
)

// sessionID finds the id of the session in an answer.
var sessionID = regexp.MustCompile(`"session_id":\s*"[^"]+"`)

// TestReplay repeats every alarm of a conversation in the ways that an operator or a fault can.
func TestReplay(t *testing.T) {
	t.Parallel()

	// Also: S0-30, S0-66
	t.Run("S0_19_ByQStashsOwnCallback", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		recorded := record(b)
		p := b.begin(t)
		p.requireWhole(t)
		end, timeline := p.session(t), p.timeline(t)
		require.Len(t, recorded(), 4)
		for _, body := range recorded() {
			for range 2 {
				code, _, answer := b.ring(t, body, qstash.DevCurrentKey)
				require.Equal(t, http.StatusOK, code)
				require.JSONEq(t, `{"ok":true,"outcome":"skipped","reason":"session_inactive"}`, answer)
			}
		}
		b.rest(t)
		require.Equal(t, end, p.session(t))
		require.Equal(t, timeline, p.timeline(t))
		p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	})
	// Also: S0-66
	t.Run("S0_30_AfterEveryStep", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		recorded := record(b)
		p := b.begin(t)
		for n := 3; n <= 6; n++ {
			p.hears(t, n)
			before := p.session(t)
			for _, body := range recorded() {
				code, _, answer := b.ring(t, body, qstash.DevCurrentKey)
				require.Equal(t, http.StatusOK, code, answer)
				require.JSONEq(t, `{"ok":true,"outcome":"skipped","reason":"stale"}`, answer)
			}
			require.Equal(t, before, p.session(t))
		}
		p.requireWhole(t)
	})
	// Also: S0-56, S0-66
	t.Run("S0_30_ByGRPCAsAnOperatorWouldWithGrpcurl", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		recorded := record(b)
		p := b.begin(t)
		p.requireWhole(t)
		end := p.session(t)
		conn, err := grpc.NewClient(b.services.Addresses.Onboarding, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		requireServed(t, conn, "paceline.onboarding.v1.OnboardingService")
		steps := onboardingv1.NewOnboardingServiceClient(conn)
		for _, body := range recorded() {
			var request onboardingv1.ExecuteStepRequest
			require.NoError(t, protojson.Unmarshal([]byte(body), &request))

			_, err := steps.ExecuteStep(t.Context(), &request)
			require.Equal(t, codes.Unauthenticated, status.Code(err))
			_, err = steps.ExecuteStep(b.as(t, rpc.Principal{Subject: p.id, OrgID: stack.OrgID, Role: rpc.RoleUser}), &request)
			require.Equal(t, codes.PermissionDenied, status.Code(err))
			_, err = steps.ExecuteStep(b.as(t, rpc.Principal{Subject: "somebody", OrgID: otherOrg, Role: rpc.RoleOperator}), &request)
			require.Equal(t, codes.NotFound, status.Code(err), "another organisation's session does not exist")
			for _, role := range []rpc.Role{rpc.RoleService, rpc.RoleOperator} {
				answer, err := steps.ExecuteStep(b.as(t, rpc.Principal{Subject: "ada", OrgID: stack.OrgID, Role: role}), &request)
				require.NoError(t, err)
				require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED, answer.GetOutcome())
				require.Equal(t, "session_inactive", answer.GetSkipReason())
			}
		}
		b.rest(t)
		require.Equal(t, end, p.session(t))
		p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	})
	// Also: S0-64
	t.Run("S0_56_OfAStepWhoseAlarmWasLost", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: func(d qstash.Delivery) qstash.DeliverFault {
			return qstash.DeliverFault{Lose: d.N == 1} // that of message 2
		}})
		p := b.begin(t)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1)
		stuck := p.session(t)
		conn, err := grpc.NewClient(b.services.Addresses.Onboarding, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		var request onboardingv1.ExecuteStepRequest
		require.NoError(t, protojson.Unmarshal([]byte(p.payload(t, stuck.SessionID, stuck.NextStepID)), &request))
		steps := onboardingv1.NewOnboardingServiceClient(conn)
		operator := b.as(t, rpc.Principal{Subject: "ada", OrgID: stack.OrgID, Role: rpc.RoleOperator})
		b.clock.Advance(time.Minute)
		answer, err := steps.ExecuteStep(operator, &request)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, answer.GetOutcome())
		require.Equal(t, "onboarding_message_3", answer.GetNextStepId())
		answer, err = steps.ExecuteStep(operator, &request)
		require.NoError(t, err)
		require.Equal(t, "stale", answer.GetSkipReason())
		p.requireWhole(t)
	})
}

// record keeps the body of every alarm that QStash delivers.
func record(b *bundle) func() []string {
	var mu sync.Mutex
	var bodies []string
	b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: func(d qstash.Delivery) qstash.DeliverFault {
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(d.Message.Body))
		return qstash.DeliverFault{}
	}})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), bodies...)
	}
}

// as is a context whose calls carry a token for somebody.
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
