package devices_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/devices"
	"paceline.internal/services/onboarding/goals"
)

// node is GoalService behind gRPC, and its caller.
type node struct {
	*bundle

	hub    *devices.Hub
	client onboardingv1.GoalServiceClient
	person string
}

func listen(t *testing.T) *node {
	t.Helper()
	b := setup(t)
	log := slog.New(slog.DiscardHandler)
	n := &node{bundle: b, person: b.owner, hub: devices.NewHub(devices.HubConfig{
		Store: b.store, Goals: b.service, RunLease: runLease, MaxStreams: 3, Log: log, Now: b.clock.Now,
	})}
	require.NoError(t, n.hub.Keep(t.Context()))
	now := time.Now // tokens are on the machine's clock
	tokens, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret("0123456789abcdef0123456789abcdef")}, now)
	require.NoError(t, err)
	served, err := rpc.NewServer(rpc.ServerConfig{Tokens: tokens, Log: log, TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(), Keep: audit.New(b.pool, b.clock.Now).Keep, Answer: onboarding.Answer})
	require.NoError(t, err)
	onboardingv1.RegisterGoalServiceServer(served, &devices.RPC{Hub: n.hub, Answer: onboarding.Answer, RPC: &goals.RPC{
		Goals: b.service, Devices: b.registry(), Store: b.store, Now: b.clock.Now,
	}})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(served.Stop)
	conn, err := rpc.Dial(rpc.ClientConfig{
		Target: listener.Addr().String(), Tokens: tokens, Caller: rpc.Principal{Subject: "gateway", Role: rpc.RoleService},
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	n.client = onboardingv1.NewGoalServiceClient(conn)
	return n
}

// user is the context of the person's own calls.
func (n *node) user() context.Context {
	return rpc.WithPrincipal(n.t.Context(), rpc.Principal{Subject: n.person, Role: rpc.RoleUser, OrgID: orgID})
}

func (n *node) as(role rpc.Role, org string) context.Context {
	return rpc.WithPrincipal(n.t.Context(), rpc.Principal{Subject: "ada", Role: role, OrgID: org})
}

func (n *node) register(name string) *onboardingv1.RegisterDeviceResponse {
	n.t.Helper()
	configuration, err := structpb.NewStruct(map[string]any{"model": "small"})
	require.NoError(n.t, err)
	out, err := n.client.RegisterDevice(n.user(), &onboardingv1.RegisterDeviceRequest{Name: name, Configuration: configuration})
	require.NoError(n.t, err)
	return out
}

type streaming = onboardingv1.GoalService_ConnectDeviceClient

func (n *node) open(first *onboardingv1.ConnectDeviceRequest) streaming {
	n.t.Helper()
	s, err := n.client.ConnectDevice(n.t.Context())
	require.NoError(n.t, err)
	_ = s.Send(first) // io.EOF when it was refused already, which its end says
	return s
}

func hello(device, token string) *onboardingv1.ConnectDeviceRequest {
	return &onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Hello{
		Hello: &onboardingv1.DeviceHello{DeviceId: device, Token: token, Client: "test"},
	}}
}

func said(key, source string) *onboardingv1.ConnectDeviceRequest {
	return &onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Goal{
		Goal: &onboardingv1.DeviceGoal{Key: key, Goal: "open the door", Source: source},
	}}
}

func (n *node) connect(name string) streaming {
	n.t.Helper()
	d := n.register(name)
	s := n.open(hello(d.GetDevice().GetDeviceId(), d.GetToken()))
	in, err := s.Recv()
	require.NoError(n.t, err)
	require.Equal(n.t, int64(60), in.GetWelcome().GetRunLeaseSeconds())
	return s
}

// ends returns the end of a stream: the frame with its reason, and the status.
func ends(t *testing.T, s streaming) (*onboardingv1.DeviceError, codes.Code) {
	t.Helper()
	var why *onboardingv1.DeviceError
	for {
		in, err := s.Recv()
		if err != nil {
			return why, status.Code(err)
		}
		if in.GetError() != nil {
			why = in.GetError()
		}
	}
}

func TestConnectDevice(t *testing.T) {
	t.Parallel()

	t.Run("S3_12_AGoalRunsOnItsDeviceWithTheConfigurationOfItsRow", func(t *testing.T) {
		t.Parallel()
		n := listen(t)
		s := n.connect("kitchen")
		require.NoError(t, s.Send(said("k", "voice")))
		in, err := s.Recv()
		require.NoError(t, err)
		g := in.GetGoal().GetGoal()
		require.Equal(t, "voice", g.GetSource())
		executed := make(chan error, 1)
		go func() {
			out, err := n.client.ExecuteGoal(n.t.Context(), &onboardingv1.ExecuteGoalRequest{GoalId: g.GetGoalId()})
			if err == nil && out.GetOutcome() != goals.OutcomeStarted {
				err = fmt.Errorf("it is %s", out.GetOutcome())
			}
			executed <- err
		}()
		require.Eventually(t, func() bool {
			require.NoError(t, n.hub.Offer(t.Context()))
			v, err := n.client.GetGoal(n.user(), &onboardingv1.GetGoalRequest{GoalId: g.GetGoalId()})
			return err == nil && v.GetGoal().GetStatus() == "running"
		}, 10*time.Second, 20*time.Millisecond)
		require.NoError(t, <-executed)
		in, err = s.Recv()
		require.NoError(t, err)
		offer := in.GetOffer()
		require.Equal(t, "open the door", offer.GetGoal())
		require.Equal(t, "small", offer.GetConfiguration().GetFields()["model"].GetStringValue())
		for _, frame := range []*onboardingv1.ConnectDeviceRequest{
			{Frame: &onboardingv1.ConnectDeviceRequest_Acknowledge{Acknowledge: &onboardingv1.DeviceAcknowledge{RunId: offer.GetRunId()}}},
			{Frame: &onboardingv1.ConnectDeviceRequest_Progress{Progress: &onboardingv1.DeviceProgress{RunId: offer.GetRunId(), Text: "half"}}},
			{Frame: &onboardingv1.ConnectDeviceRequest_End{End: &onboardingv1.DeviceEnd{RunId: offer.GetRunId(), Ok: true}}},
		} {
			require.NoError(t, s.Send(frame))
		}
		require.NoError(t, s.CloseSend())
		why, code := ends(t, s)
		require.Nil(t, why)
		require.Equal(t, codes.Unknown, code, "io.EOF: it ended in order")
		v, err := n.client.GetGoal(n.user(), &onboardingv1.GetGoalRequest{GoalId: g.GetGoalId()})
		require.NoError(t, err)
		require.Equal(t, "completed", v.GetGoal().GetStatus())
		require.Equal(t, "half", v.GetGoal().GetProgress())
		require.Zero(t, n.hub.Connected())
	})

	t.Run("S3_29_WithTheKillSwitchAGoalIsAcceptedAndSaysThatSchedulingIsPaused", func(t *testing.T) {
		t.Parallel()
		n := listen(t)
		out, err := n.client.CreateGoal(n.user(), &onboardingv1.CreateGoalRequest{Goal: "call John in 5 minutes", IdempotencyKey: "k"})
		require.NoError(t, err)
		require.Equal(t, "scheduled", out.GetGoal().GetStatus())
		require.True(t, out.GetGoal().GetSchedulingPaused())
	})

	t.Run("OnlyItsOwnTokenOpensAStream", func(t *testing.T) {
		t.Parallel()
		n := listen(t)
		mine, other := n.register("mine"), n.register("other")
		rotated, err := n.client.RotateDevice(n.user(), &onboardingv1.RotateDeviceRequest{DeviceId: mine.GetDevice().GetDeviceId()})
		require.NoError(t, err)
		id := mine.GetDevice().GetDeviceId()
		for name, first := range map[string]*onboardingv1.ConnectDeviceRequest{
			"rotated": hello(id, mine.GetToken()), "foreign": hello(id, other.GetToken()), "none": hello(id, ""),
			"unknown": hello(uuid.NewString(), rotated.GetToken()), "no id": hello("kitchen", rotated.GetToken()),
		} {
			why, code := ends(t, n.open(first))
			require.Equal(t, codes.Unauthenticated, code, name)
			require.NotEmpty(t, why.GetReason(), name)
		}
		in, err := n.open(hello(id, rotated.GetToken())).Recv()
		require.NoError(t, err)
		require.NotNil(t, in.GetWelcome())
	})

	t.Run("ARotatedTokenAndADeletedDeviceEndTheStreamAsReplaced", func(t *testing.T) {
		t.Parallel()
		n := listen(t)
		for name, take := range map[string]func(id string) error{
			"rotated": func(id string) error {
				_, err := n.client.RotateDevice(n.user(), &onboardingv1.RotateDeviceRequest{DeviceId: id})
				return err
			},
			"deleted": func(id string) error {
				_, err := n.client.DeleteDevice(n.user(), &onboardingv1.DeleteDeviceRequest{DeviceId: id})
				return err
			},
		} {
			d := n.register(name)
			s := n.open(hello(d.GetDevice().GetDeviceId(), d.GetToken()))
			_, err := s.Recv()
			require.NoError(t, err)
			require.NoError(t, take(d.GetDevice().GetDeviceId()))
			require.NoError(t, n.hub.Keep(t.Context()))
			why, code := ends(t, s)
			require.Equal(t, codes.Aborted, code, "which the gateway closes by 4409: %s", name)
			require.Equal(t, "CONFLICT", why.GetReason())
		}
	})

	t.Run("AFrameOutOfOrderEndsTheStream", func(t *testing.T) {
		t.Parallel()
		n := listen(t)
		report := &onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Report{
			Report: &onboardingv1.DeviceRun{RunId: uuid.NewString(), State: "started"},
		}}
		noID := &onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_End{End: &onboardingv1.DeviceEnd{RunId: "1"}}}
		for i, frame := range []*onboardingv1.ConnectDeviceRequest{hello(uuid.NewString(), ""), report, noID, {}} {
			s := n.connect(fmt.Sprint(i))
			require.NoError(t, s.Send(frame))
			why, code := ends(t, s)
			require.Equal(t, codes.InvalidArgument, code)
			require.Equal(t, "INVALID", why.GetReason())
		}
		_, code := ends(t, n.open(report))
		require.Equal(t, codes.InvalidArgument, code, "hello comes first")
	})

	t.Run("AProcessHoldsSoManyStreamsAndEndsThemInOrder", func(t *testing.T) {
		t.Parallel()
		n := listen(t)
		held := []streaming{n.connect("1"), n.connect("2"), n.connect("3")}
		_, code := ends(t, n.open(hello(uuid.NewString(), "")))
		require.Equal(t, codes.ResourceExhausted, code)
		drained := make(chan error, 1)
		go func() { drained <- n.hub.Drain(context.WithoutCancel(t.Context())) }()
		for _, s := range held {
			in, err := s.Recv()
			require.NoError(t, err)
			require.NotNil(t, in.GetReconnect())
			why, _ := ends(t, s)
			require.Nil(t, why)
		}
		require.NoError(t, <-drained)
		_, code = ends(t, n.open(hello(uuid.NewString(), "")))
		require.Equal(t, codes.Unavailable, code)
	})

	t.Run("ADeviceThatDoesNotReadIsDropped", func(t *testing.T) {
		t.Parallel()
		n := listen(t)
		s := n.connect("deaf")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for s.Send(said(strings.Repeat("k", 200), "loud")) == nil { // each is answered; until the server has had enough
			}
		}()
		require.Eventually(t, func() bool { return n.hub.Connected() == 0 }, 30*time.Second, 10*time.Millisecond)
		_, code := ends(t, s) // its status comes behind the answers that were not read
		require.Contains(t, []codes.Code{codes.Canceled, codes.ResourceExhausted}, code)
		<-sent
	})
}

func TestDevices(t *testing.T) {
	t.Parallel()
	n := listen(t)
	d := n.register("kitchen")
	require.True(t, strings.HasPrefix(d.GetToken(), "pld_"))
	refused := func(ctx context.Context, in *onboardingv1.RegisterDeviceRequest, want codes.Code) {
		_, err := n.client.RegisterDevice(ctx, in)
		require.Equal(t, want, status.Code(err), "%v", err)
	}
	refused(n.user(), &onboardingv1.RegisterDeviceRequest{Name: "kitchen"}, codes.AlreadyExists)
	refused(n.user(), &onboardingv1.RegisterDeviceRequest{Name: " "}, codes.InvalidArgument)
	refused(n.user(), &onboardingv1.RegisterDeviceRequest{Name: "p", Kind: "phone"}, codes.InvalidArgument)
	refused(n.user(), &onboardingv1.RegisterDeviceRequest{Name: "x", ProfileId: uuid.NewString()}, codes.PermissionDenied)
	refused(n.as(rpc.RoleOperator, orgID), &onboardingv1.RegisterDeviceRequest{Name: "x", ProfileId: uuid.NewString()}, codes.NotFound)
	refused(n.as(rpc.RoleOperator, uuid.NewString()), &onboardingv1.RegisterDeviceRequest{Name: "x", ProfileId: n.person}, codes.NotFound)
	large, err := structpb.NewStruct(map[string]any{"much": strings.Repeat("x", 4<<10)})
	require.NoError(t, err)
	refused(n.user(), &onboardingv1.RegisterDeviceRequest{Name: "x", Configuration: large}, codes.InvalidArgument)

	list := func() []*onboardingv1.Device {
		out, err := n.client.ListDevices(n.user(), &onboardingv1.ListDevicesRequest{})
		require.NoError(t, err)
		return out.GetDevices()
	}
	require.Len(t, list(), 1)
	require.False(t, list()[0].GetOnline())
	n.open(hello(d.GetDevice().GetDeviceId(), d.GetToken()))
	require.Eventually(t, func() bool { return list()[0].GetOnline() }, 10*time.Second, 10*time.Millisecond)

	id := d.GetDevice().GetDeviceId()
	_, err = n.client.DeleteDevice(n.as(rpc.RoleOperator, uuid.NewString()), &onboardingv1.DeleteDeviceRequest{DeviceId: id})
	require.Equal(t, codes.NotFound, status.Code(err), "of another organisation")
	stranger := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: uuid.NewString(), Role: rpc.RoleUser, OrgID: orgID})
	_, err = n.client.RotateDevice(stranger, &onboardingv1.RotateDeviceRequest{DeviceId: id})
	require.Equal(t, codes.NotFound, status.Code(err), "of another person")
	for range 2 {
		_, err = n.client.DeleteDevice(n.user(), &onboardingv1.DeleteDeviceRequest{DeviceId: id})
		require.NoError(t, err, "a repeat is answered alike")
	}
	require.Empty(t, list())
	_, err = n.client.RotateDevice(n.user(), &onboardingv1.RotateDeviceRequest{DeviceId: id})
	require.Equal(t, codes.NotFound, status.Code(err))
	n.register("kitchen") // the name is free again
	for i := range goals.MaxDevices - 1 {
		n.register(fmt.Sprint(i))
	}
	refused(n.user(), &onboardingv1.RegisterDeviceRequest{Name: "one too many"}, codes.InvalidArgument)
}
