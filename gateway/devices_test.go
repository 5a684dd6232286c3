package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/gateway/stream"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	deviceID    = "01900000-0000-7000-8000-0000000000d1"
	deviceToken = "pld_of-a-device"
	aRun        = "01900000-0000-7000-8000-0000000000a1"
	saysHello   = `{"hello":{"client":"door 1.0"}}`
)

type deviceStreamServer = grpc.BidiStreamingServer[onboardingv1.ConnectDeviceRequest, onboardingv1.ConnectDeviceResponse]

// connects sets onboarding's side of a stream, which takes the hello and welcomes the device before.
func (s *services) connects(then func(deviceStreamServer, *onboardingv1.DeviceHello) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connect = func(stream deviceStreamServer) error {
		first, err := stream.Recv()
		if err != nil {
			return err
		}
		welcome := &onboardingv1.DeviceWelcome{Epoch: 1, Runs: []string{aRun}, RunLeaseSeconds: 60}
		if err := stream.Send(&onboardingv1.ConnectDeviceResponse{Frame: &onboardingv1.ConnectDeviceResponse_Welcome{Welcome: welcome}}); err != nil {
			return err
		}
		return then(stream, first.GetHello())
	}
}

// listens receives until the device, or the gateway, ends the stream.
func listens(stream deviceStreamServer, _ *onboardingv1.DeviceHello) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil //nolint:nilerr // it was to end
		}
	}
}

// device is one end of a WebSocket.
type device struct{ *websocket.Conn }

func (b *bench) device(t *testing.T) device { t.Helper(); return dialDevice(t, b.url) }

func dialDevice(t *testing.T, url string) device {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), url+strings.Replace(stream.PathConnect, "{device_id}", deviceID, 1), &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + deviceToken}},
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	t.Cleanup(func() { _ = conn.CloseNow() }) // most are closed already
	return device{conn}
}

func (d device) says(t *testing.T, frame string) {
	t.Helper()
	require.NoError(t, d.Write(t.Context(), websocket.MessageText, []byte(frame)))
}

func (d device) hears(t *testing.T) *onboardingv1.ConnectDeviceResponse {
	t.Helper()
	kind, body, err := d.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, websocket.MessageText, kind)
	frame := new(onboardingv1.ConnectDeviceResponse)
	require.NoError(t, protojson.Unmarshal(body, frame))
	return frame
}

// end reads to the end of the stream: the reason of the error frame, if there was one, and the close code.
func (d device) end(t *testing.T) (reason string, code websocket.StatusCode) {
	t.Helper()
	for {
		_, body, err := d.Read(t.Context())
		if err != nil {
			return reason, websocket.CloseStatus(err)
		}
		frame := new(onboardingv1.ConnectDeviceResponse)
		require.NoError(t, protojson.Unmarshal(body, frame))
		require.Empty(t, reason, "the error frame is the last")
		reason = frame.GetError().GetReason()
	}
}

func TestDeviceFramesPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.services.connects(func(stream deviceStreamServer, hello *onboardingv1.DeviceHello) error {
		caller, _ := rpc.PrincipalFrom(stream.Context())
		offer := &onboardingv1.DeviceOffer{RunId: aRun, Goal: hello.GetDeviceId() + " " + hello.GetToken() + " " + hello.GetClient() + " " + string(caller.Role)}
		if err := stream.Send(&onboardingv1.ConnectDeviceResponse{Frame: &onboardingv1.ConnectDeviceResponse_Offer{Offer: offer}}); err != nil {
			return err
		}
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		offer.Goal = frame.GetProgress().GetText()
		if err := stream.Send(&onboardingv1.ConnectDeviceResponse{Frame: &onboardingv1.ConnectDeviceResponse_Offer{Offer: offer}}); err != nil {
			return err
		}
		last, err := stream.Recv()
		if err != nil || last.GetEnd().GetDetail() != "done" {
			return status.Errorf(codes.Internal, "the last frame was %v, %v", last, err)
		}
		_, err = stream.Recv()
		if err != io.EOF { //nolint:errorlint // gRPC returns this value
			return status.Errorf(codes.Internal, "the stream did not end: %v", err)
		}
		return nil
	})
	d := b.device(t)
	d.says(t, saysHello)
	welcome := d.hears(t).GetWelcome()
	require.Equal(t, []string{aRun}, welcome.GetRuns())
	require.Equal(t, deviceID+" "+deviceToken+" door 1.0 service", d.hears(t).GetOffer().GetGoal())

	// Longer than the server lets a request be read, and an answer be written.
	waited := time.NewTimer(answerTime + 200*time.Millisecond)
	defer waited.Stop()
	<-waited.C
	d.says(t, `{"progress":{"run_id":"`+aRun+`","text":"open the door: half"}}`)
	require.Equal(t, "open the door: half", d.hears(t).GetOffer().GetGoal())
	d.says(t, `{"end":{"run_id":"`+aRun+`","ok":true,"detail":"done"}}`)
	require.NoError(t, d.Close(websocket.StatusNormalClosure, ""))

	require.Eventually(t, func() bool { // before the drain: a stream that had not read its device's end yet would end by the drain
		return strings.Contains(b.log.String(), `"gateway.device_stream_ended"`)
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, b.gateway.devices.Drain(t.Context()))
	require.Contains(t, b.log.String(), `"close_code":0,"reason":"","cause":"StatusNormalClosure","received":3,"sent":3`)
	b.checkPrivacy(t)
}

func TestDeviceFramesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		frames []string
		binary bool
		code   websocket.StatusCode
		reason string
	}{
		{name: "HelloIsTheFirst", frames: []string{`{"progress":{"run_id":"x"}}`}, code: websocket.StatusProtocolError, reason: "INVALID"},
		{name: "NotBinary", frames: []string{saysHello}, binary: true, code: websocket.StatusUnsupportedData, reason: "INVALID"},
		{name: "NotTooLarge", frames: []string{saysHello + strings.Repeat(" ", 16<<10)}, code: websocket.StatusMessageTooBig},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.services.connects(listens)
			d := b.device(t)
			for _, frame := range tt.frames {
				kind := websocket.MessageText
				if tt.binary {
					kind = websocket.MessageBinary
				}
				require.NoError(t, d.Write(t.Context(), kind, []byte(frame)))
			}
			reason, code := d.end(t)
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.reason, reason)
		})
	}
}

func TestDeviceStreamThatOnboardingEnds(t *testing.T) {
	t.Parallel()
	said := func(code codes.Code, reason string) error {
		return &rpc.Error{Code: code, Reason: reason, Domain: "paceline.test", Message: "in words"}
	}
	for _, tt := range []struct {
		name   string
		end    error
		code   websocket.StatusCode
		reason string
	}{
		{"ItStops", nil, websocket.StatusServiceRestart, ""},
		{"TheTokenIsWrong", said(codes.Unauthenticated, "REASON_UNAUTHENTICATED"), websocket.StatusCode(4401), "UNAUTHENTICATED"},
		{"OurOwnTokenHasExpired", said(codes.Unauthenticated, ""), websocket.StatusServiceRestart, ""},
		{"ANewerStreamCameOrTheTokenWasRotated", said(codes.Aborted, "REASON_CONFLICT"), websocket.StatusCode(4409), "CONFLICT"},
		{"AFrameIsOutOfOrder", said(codes.InvalidArgument, "REASON_INVALID"), websocket.StatusProtocolError, "INVALID"},
		{"TheDatabaseIsAway", said(codes.Unavailable, "REASON_UNAVAILABLE"), websocket.StatusTryAgainLater, "UNAVAILABLE"},
		{"SomethingIsWrong", said(codes.Internal, ""), websocket.StatusInternalError, "INTERNAL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.services.connects(func(deviceStreamServer, *onboardingv1.DeviceHello) error { return tt.end })
			d := b.device(t)
			d.says(t, saysHello)
			require.NotNil(t, d.hears(t).GetWelcome())
			reason, code := d.end(t)
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.reason, reason)
		})
	}

	t.Run("OnboardingCannotBeReached", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "ONBOARDING_ADDR", closedPort(t))
		d := b.device(t)
		d.says(t, saysHello)
		reason, code := d.end(t)
		require.Equal(t, websocket.StatusTryAgainLater, code)
		require.Equal(t, "UNAVAILABLE", reason)
	})

	t.Run("TheErrorFrameIsNotRepeated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.services.connects(func(stream deviceStreamServer, _ *onboardingv1.DeviceHello) error {
			_ = stream.Send(&onboardingv1.ConnectDeviceResponse{Frame: &onboardingv1.ConnectDeviceResponse_Error{
				Error: &onboardingv1.DeviceError{Reason: "INVALID", Message: "out of order"},
			}})
			return said(codes.InvalidArgument, "REASON_INVALID")
		})
		d := b.device(t)
		d.says(t, saysHello)
		reason, code := d.end(t)
		require.Equal(t, websocket.StatusProtocolError, code)
		require.Equal(t, "INVALID", reason)
	})
}

func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	return listener.Addr().String()
}

func TestDevicesThatHoldAStream(t *testing.T) {
	t.Parallel()

	t.Run("OneThatSaysNothingIsDropped", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		reason, code := b.device(t).end(t)
		require.Equal(t, websocket.StatusPolicyViolation, code)
		require.Equal(t, "INVALID", reason)
	})

	t.Run("OneThatDoesNotReadIsDropped", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ended := make(chan error, 1)
		b.services.connects(func(stream deviceStreamServer, _ *onboardingv1.DeviceHello) error {
			offer := &onboardingv1.DeviceOffer{RunId: aRun, Goal: strings.Repeat("x", 16<<10)}
			for {
				if err := stream.Send(&onboardingv1.ConnectDeviceResponse{Frame: &onboardingv1.ConnectDeviceResponse_Offer{Offer: offer}}); err != nil {
					ended <- err
					return err
				}
			}
		})
		b.device(t).says(t, saysHello)
		require.Error(t, <-ended)
	})

	t.Run("AConnectionCountsUntilItsHelloHasCome", func(t *testing.T) {
		t.Parallel()
		cs := &connections{open: map[net.Conn]*connection{}}
		conn := new(fakeConn)
		c, ok := cs.opened(t.Context(), conn).Value(connectionKey{}).(*connection)
		require.True(t, ok)
		cs.changed(conn, http.StateActive)
		c.Complete()
		cs.changed(conn, http.StateHijacked)
		require.Zero(t, cs.held)
		c.Await()
		require.Equal(t, int64(connectionCost), cs.held)
		for range maxWaiting / connectionCost {
			other := new(fakeConn)
			cs.opened(t.Context(), other)
			cs.changed(other, http.StateNew)
		}
		require.True(t, conn.closed, "it has waited longest")
		c.Complete()
		require.Equal(t, int64(maxWaiting), cs.held)
	})
}

func TestDevicesAtTheEndOfTheProcess(t *testing.T) {
	t.Parallel()
	services := startServices(t)
	services.connects(listens)
	r := start(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", services.addr)
	var connected []device
	for range 3 {
		d := dialDevice(t, r.url)
		d.says(t, saysHello)
		require.NotNil(t, d.hears(t).GetWelcome())
		connected = append(connected, d)
	}
	silent := dialDevice(t, r.url) // has not said hello, and is told all the same
	r.stop()
	for _, d := range append(connected, silent) {
		after := time.Duration(d.hears(t).GetReconnect().GetAfterMs()) * time.Millisecond
		require.Less(t, after, 5*time.Second)
		_, code := d.end(t)
		require.Equal(t, websocket.StatusServiceRestart, code)
	}
	require.NoError(t, <-r.ended)
}

func TestADeviceThatComesDuringTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.gateway.devices.Drain(t.Context()))
	_, response, err := websocket.Dial(t.Context(), b.url+strings.Replace(stream.PathConnect, "{device_id}", deviceID, 1), &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + deviceToken}},
	})
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "1", response.Header.Get("Retry-After"))
}

func TestADeviceThatDoesNotHeedTheEndIsCutOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.services.connects(listens)
	d := b.device(t)
	d.says(t, saysHello)
	require.NotNil(t, d.hears(t).GetWelcome())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, b.gateway.devices.Drain(ctx), "devices were cut off")
}
