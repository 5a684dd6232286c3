package goals

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// RegisterDevice makes a device known.
func (s *RPC) RegisterDevice(ctx context.Context, in *onboardingv1.RegisterDeviceRequest) (*onboardingv1.RegisterDeviceResponse, error) {
	ctx, c := s.caller(ctx)
	profile, err := c.person(in.GetProfileId())
	if err != nil {
		return nil, err
	}
	if err := request.ID("profile_id", profile); err != nil {
		return nil, err
	}
	d := Device{OrgID: c.OrgID, ProfileID: profile, Name: in.GetName(), Kind: Kind(in.GetKind())}
	if given := in.GetConfiguration(); given != nil {
		encoded, err := protojson.Marshal(given)
		if err != nil {
			return nil, request.Invalid("configuration must be JSON")
		}
		d.Configuration = encoded
	}
	registered, token, err := s.Devices.Register(ctx, d)
	return &onboardingv1.RegisterDeviceResponse{Device: device(registered), Token: token}, goalError(err)
}

// ListDevices lists devices that the caller may see.
func (s *RPC) ListDevices(ctx context.Context, in *onboardingv1.ListDevicesRequest) (*onboardingv1.ListDevicesResponse, error) {
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	ctx, c := s.caller(ctx)
	profile, err := c.person(in.GetProfileId())
	if err != nil {
		return nil, err
	}
	if profile != "" && !request.IsID(profile) {
		return nil, request.Invalid("profile_id must be a UUID")
	}
	found, err := s.Store.Devices(ctx, profile, before, wanted+1, s.Now())
	if err != nil {
		return nil, goalError(err)
	}
	out := &onboardingv1.ListDevicesResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, d := range found {
		out.Devices = append(out.Devices, device(d))
	}
	return out, nil
}

// RotateDevice replaces the token of a device.
func (s *RPC) RotateDevice(ctx context.Context, in *onboardingv1.RotateDeviceRequest) (*onboardingv1.RotateDeviceResponse, error) {
	if err := request.ID("device_id", in.GetDeviceId()); err != nil {
		return nil, err
	}
	ctx, c := s.caller(ctx)
	d, token, err := s.Devices.Rotate(ctx, c, in.GetDeviceId())
	return &onboardingv1.RotateDeviceResponse{Device: device(d), Token: token}, goalError(err)
}

// DeleteDevice removes a device.
func (s *RPC) DeleteDevice(ctx context.Context, in *onboardingv1.DeleteDeviceRequest) (*onboardingv1.DeleteDeviceResponse, error) {
	if err := request.ID("device_id", in.GetDeviceId()); err != nil {
		return nil, err
	}
	ctx, c := s.caller(ctx)
	return &onboardingv1.DeleteDeviceResponse{}, goalError(s.Devices.Remove(ctx, c, in.GetDeviceId()))
}

func device(d Device) *onboardingv1.Device {
	return &onboardingv1.Device{
		DeviceId: d.ID, OrgId: d.OrgID, ProfileId: d.ProfileID, Name: d.Name, Kind: string(d.Kind), Online: d.Online,
		ConnectedAt: request.Stamp(d.ConnectedAt), CreatedAt: timestamppb.New(d.CreatedAt),
	}
}

// ConnectDevice is the stream of one device.
func (s *RPC) ConnectDevice(stream onboardingv1.GoalService_ConnectDeviceServer) error {
	return goalError(s.Hub.Connect(stream.Context(), deviceStream{s, stream}))
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
			given.Goal = d.goal(c.Goal)
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
	if !errors.As(s.Answer(goalError(err)), &refusal) {
		refusal = &rpc.Error{Code: codes.Unavailable, Reason: onboardingv1.Reason_REASON_UNAVAILABLE.String(), Message: "try again"}
	}
	return strings.TrimPrefix(refusal.Reason, "REASON_"), refusal.Message
}
