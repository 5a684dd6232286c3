package goals

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"
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
	return &onboardingv1.RegisterDeviceResponse{Device: device(registered), Token: token}, Refusal(err)
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
		return nil, Refusal(err)
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
	return &onboardingv1.RotateDeviceResponse{Device: device(d), Token: token}, Refusal(err)
}

// DeleteDevice removes a device.
func (s *RPC) DeleteDevice(ctx context.Context, in *onboardingv1.DeleteDeviceRequest) (*onboardingv1.DeleteDeviceResponse, error) {
	if err := request.ID("device_id", in.GetDeviceId()); err != nil {
		return nil, err
	}
	ctx, c := s.caller(ctx)
	return &onboardingv1.DeleteDeviceResponse{}, Refusal(s.Devices.Remove(ctx, c, in.GetDeviceId()))
}

func device(d Device) *onboardingv1.Device {
	return &onboardingv1.Device{
		DeviceId: d.ID, OrgId: d.OrgID, ProfileId: d.ProfileID, Name: d.Name, Kind: string(d.Kind), Online: d.Online,
		ConnectedAt: request.Stamp(d.ConnectedAt), CreatedAt: timestamppb.New(d.CreatedAt),
	}
}
