package operations

import (
	"context"
	"net/http"
	"net/url"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const devicesShown = 50

// devicesPage is the data of pages/devices.html.
type devicesPage struct {
	Devices []*onboardingv1.Device
	People  map[string]*onboardingv1.Profile // by id; who cannot be read is not there
	Next    string                           // the address of the next page; empty on the last
}

// devices lists the devices of people, newest first.
func (p *Pages) devices(r *http.Request) (Page, error) {
	out, err := p.Goals.ListDevices(r.Context(), &onboardingv1.ListDevicesRequest{PageSize: devicesShown, PageToken: r.Form.Get("page")})
	if err != nil {
		return Page{}, err
	}
	var ids []string
	for _, d := range out.GetDevices() {
		ids = append(ids, d.GetProfileId())
	}
	shown := devicesPage{Devices: out.GetDevices(), People: p.Named(r.Context(), ids)}
	if token := out.GetNextPageToken(); token != "" {
		shown.Next = p.Root + "/devices?" + url.Values{"page": {token}}.Encode()
	}
	return Page{"devices", "devices.title", shown}, nil
}

// changeDevice replaces the token of a device, or removes it.
func (p *Pages) changeDevice(r *http.Request) (Notice, error) {
	id := r.PathValue("device")
	do, ok := map[string]func(ctx context.Context) (Notice, error){
		"rotate": func(ctx context.Context) (Notice, error) {
			out, err := p.Goals.RotateDevice(ctx, &onboardingv1.RotateDeviceRequest{DeviceId: id})
			n := said("devices.rotate.done")
			n.Secret = out.GetToken()
			return n, err
		},
		"delete": func(ctx context.Context) (Notice, error) {
			_, err := p.Goals.DeleteDevice(ctx, &onboardingv1.DeleteDeviceRequest{DeviceId: id})
			return said("devices.delete.done"), err
		},
	}[r.PathValue("deed")]
	if !ok {
		return Notice{}, errForm
	}
	return do(r.Context())
}
