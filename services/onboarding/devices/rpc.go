package devices

import (
	"errors"
	"log/slog"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/goals"
)

// RPC serves GoalService: the calls of goals, and the streams of devices.
type RPC struct {
	*goals.RPC

	Hub    *Hub
	Answer func(err error) error // the table of errors, for a frame that has no status
}

// ConnectDevice is the stream of one device.
func (s *RPC) ConnectDevice(stream onboardingv1.GoalService_ConnectDeviceServer) error {
	return goals.Refusal(s.Hub.Connect(stream.Context(), deviceStream{s, stream}))
}

// deviceStream is a stream of gRPC as the hub sees it.
type deviceStream struct {
	*RPC

	grpc onboardingv1.GoalService_ConnectDeviceServer
}

// Receive waits for the next frame; nil is one that is not known here.
func (d deviceStream) Receive() (Frame, error) {
	in, err := d.grpc.Recv()
	if err != nil {
		return nil, err
	}
	switch {
	case in.GetHello() != nil:
		f := in.GetHello()
		rpc.Annotate(d.grpc.Context(), slog.String("device_id", f.GetDeviceId()))
		return Hello{DeviceID: f.GetDeviceId(), Token: f.GetToken(), Client: f.GetClient()}, nil
	case in.GetReport() != nil:
		f := in.GetReport()
		return Report{RunID: f.GetRunId(), State: RunState(f.GetState()), OK: f.GetOk(), Detail: f.GetDetail()}, nil
	case in.GetAcknowledge() != nil:
		return Acknowledge{RunID: in.GetAcknowledge().GetRunId()}, nil
	case in.GetProgress() != nil:
		return Progress{RunID: in.GetProgress().GetRunId(), Text: in.GetProgress().GetText()}, nil
	case in.GetEnd() != nil:
		f := in.GetEnd()
		return Ended{RunID: f.GetRunId(), OK: f.GetOk(), Detail: f.GetDetail()}, nil
	case in.GetGoal() != nil:
		f := in.GetGoal()
		return Said{Key: f.GetKey(), Goal: f.GetGoal(), Source: f.GetSource(), Zone: f.GetTimeZone()}, nil
	}
	return nil, nil //nolint:nilnil // the hub refuses it
}

// Send sends a command.
func (d deviceStream) Send(c Command) error { return d.grpc.Send(d.command(c)) }

func (d deviceStream) command(c Command) *onboardingv1.ConnectDeviceResponse {
	out := &onboardingv1.ConnectDeviceResponse{}
	switch c := c.(type) {
	case Welcome:
		out.Frame = &onboardingv1.ConnectDeviceResponse_Welcome{Welcome: &onboardingv1.DeviceWelcome{
			Epoch: c.Epoch, Runs: c.Runs, RunLeaseSeconds: int64(c.RunLease.Seconds()),
		}}
	case Offer:
		configuration := &structpb.Struct{}
		_ = protojson.Unmarshal(c.Configuration, configuration) // it was encoded from one
		out.Frame = &onboardingv1.ConnectDeviceResponse_Offer{Offer: &onboardingv1.DeviceOffer{
			RunId: c.RunID, GoalId: c.GoalID, Goal: c.Goal, ScheduledFor: timestamppb.New(c.ScheduledFor), Configuration: configuration,
		}}
	case StopRun:
		out.Frame = &onboardingv1.ConnectDeviceResponse_Stop{Stop: &onboardingv1.DeviceStop{RunId: c.RunID}}
	case Answer:
		given := &onboardingv1.DeviceGoalAnswer{Key: c.Key}
		if c.Err == nil {
			given.Goal = d.Goal(c.Goal)
		} else {
			given.Reason, given.Message = d.inWords(c.Err)
		}
		out.Frame = &onboardingv1.ConnectDeviceResponse_Goal{Goal: given}
	case Reconnect:
		out.Frame = &onboardingv1.ConnectDeviceResponse_Reconnect{Reconnect: &onboardingv1.DeviceReconnect{AfterMs: c.After.Milliseconds()}}
	case Refusal:
		reason, message := d.inWords(c.Err)
		out.Frame = &onboardingv1.ConnectDeviceResponse_Error{Error: &onboardingv1.DeviceError{Reason: reason, Message: message}}
	}
	return out
}

// inWords writes an error for a device. One that is not for callers is ours, and may pass.
func (s *RPC) inWords(err error) (reason, message string) {
	refusal := (*rpc.Error)(nil)
	if !errors.As(s.Answer(goals.Refusal(err)), &refusal) {
		refusal = &rpc.Error{Code: codes.Unavailable, Reason: onboardingv1.Reason_REASON_UNAVAILABLE.String(), Message: "try again"}
	}
	return strings.TrimPrefix(refusal.Reason, "REASON_"), refusal.Message
}
