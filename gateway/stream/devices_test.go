package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lastFrame reads to the end of a stream and returns the reason of the last frame, and the close code.
func lastFrame(t *testing.T, conn *websocket.Conn) (reason string, code websocket.StatusCode) {
	t.Helper()
	for {
		_, body, err := conn.Read(t.Context())
		if err != nil {
			return reason, websocket.CloseStatus(err)
		}
		frame := new(onboardingv1.ConnectDeviceResponse)
		require.NoError(t, protojson.Unmarshal(body, frame))
		require.Empty(t, reason, "the error frame is the last")
		reason = frame.GetError().GetReason()
	}
}

func TestNothingFollowsTheErrorFrameOfADevice(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			failed <- err
			return
		}
		s := &device{conn: conn}
		last := &onboardingv1.ConnectDeviceResponse_Error{Error: &onboardingv1.DeviceError{Reason: "INVALID"}}
		failed <- errors.Join(
			s.writeLast(r.Context(), &onboardingv1.ConnectDeviceResponse{Frame: last}),
			s.write(r.Context(), new(onboardingv1.ConnectDeviceResponse)), // what onboarding said meanwhile
			conn.Close(websocket.StatusProtocolError, ""))
	}))
	defer server.Close()
	conn, response, err := websocket.Dial(t.Context(), server.URL, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	reason, code := lastFrame(t, conn)
	require.Equal(t, "INVALID", reason)
	require.Equal(t, websocket.StatusProtocolError, code)
	require.NoError(t, <-failed)
}

// devicesOf returns devices in front of an onboarding that is not there.
func devicesOf(t *testing.T) *Devices {
	t.Helper()
	tokens, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret("a service secret of at least 32 bytes")}, func() time.Time { return time.Unix(1_800_000_000, 0) })
	require.NoError(t, err)
	d, err := NewDevices(rpc.ClientConfig{
		Target: "127.0.0.1:1", Tokens: tokens, Caller: rpc.Principal{Subject: rpc.Gateway, Role: rpc.RoleService}, TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(), Timeout: time.Second,
	}, noop.NewMeterProvider().Meter(""), slog.New(slog.DiscardHandler), func(context.Context) Client { return nil })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(d.Drain(context.Background()), d.Close())) })
	return d
}

func TestTheConnectionsToOnboardingShareTheStreams(t *testing.T) {
	t.Parallel()
	d := devicesOf(t)
	for range streamConns * 3 {
		_, release, ok := d.acquire()
		require.True(t, ok)
		defer release()
	}
	require.Equal(t, []int{3, 3, 3, 3}, d.used)
}

func TestOneDeviceTooManyComesAgain(t *testing.T) {
	t.Parallel()
	d := devicesOf(t)
	for range streamConns * streamsPerConn {
		_, release, ok := d.acquire()
		require.True(t, ok)
		defer release()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathConnect, d.Serve)
	server := httptest.NewServer(mux)
	defer server.Close()
	conn, response, err := websocket.Dial(t.Context(), server.URL+"/v1/devices/01900000-0000-7000-8000-0000000000d1/connect",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer pld_of-a-device"}}})
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"hello":{"client":"door 1.0"}}`)))
	reason, code := lastFrame(t, conn)
	require.Equal(t, "UNAVAILABLE", reason)
	require.Equal(t, websocket.StatusTryAgainLater, code)
}

func TestDeviceFramesThatAreRefused(t *testing.T) {
	t.Parallel()
	const hello = `{"hello":{"client":"door 1.0"}}`
	for _, tc := range []struct {
		name, frame string
		later       bool
		code        websocket.StatusCode
	}{
		{name: "HelloIsTheFirst", frame: `{"progress":{"run_id":"x"}}`, code: websocket.StatusProtocolError},
		{name: "HelloIsNoOther", frame: hello, later: true, code: websocket.StatusProtocolError},
		{name: "NoDeviceInHello", frame: `{"hello":{"device_id":"01900000-0000-7000-8000-0000000000d1"}}`, code: websocket.StatusProtocolError},
		{name: "NoTokenInHello", frame: `{"hello":{"token":"x"}}`, code: websocket.StatusProtocolError},
		{name: "NoUnknownField", frame: `{"hello":{"clients":"x"}}`, code: websocket.StatusInvalidFramePayloadData},
		{name: "NotTwoFramesInOne", frame: hello + hello, code: websocket.StatusInvalidFramePayloadData},
		{name: "NotNothing", code: websocket.StatusInvalidFramePayloadData},
		{name: "NotAnEmptyFrame", frame: "{}", later: true, code: websocket.StatusInvalidFramePayloadData},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, refused := decodeFrame([]byte(tc.frame), !tc.later)
			require.NotNil(t, refused)
			require.Equal(t, tc.code, refused.code)
			require.Equal(t, "INVALID", refused.reason)
		})
	}
}

// FuzzDeviceFrame holds every frame that is passed on to what onboarding may get from a device.
func FuzzDeviceFrame(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte, first bool) {
		frame, refused := decodeFrame(body, first)
		if refused != nil {
			require.Nil(t, frame)
			require.NotZero(t, refused.code)
			require.NotEmpty(t, refused.reason)
			require.NotEmpty(t, refused.text)
			return
		}
		require.NotNil(t, frame.GetFrame())
		require.Equal(t, first, frame.GetHello() != nil)
		require.Empty(t, frame.GetHello().GetDeviceId()+frame.GetHello().GetToken())
		again, err := protojson.Marshal(frame)
		require.NoError(t, err)
		repeated, refused := decodeFrame(again, first)
		require.Nil(t, refused, fmt.Sprint(refused))
		require.Equal(t, frame.String(), repeated.String())
	})
}

func FuzzReadStream(f *testing.F) {
	f.Add("after=7&types=session.advanced", "")
	f.Add("types=a,b&types=c", "9")
	f.Add("after=%31", "x")
	f.Fuzz(func(t *testing.T, query, last string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway"+PathEvents, nil)
		require.NoError(t, err)
		r.URL.RawQuery = query
		r.Header.Set("Last-Event-ID", last)
		in, err := readStream(r)
		if err == nil && in.After != nil {
			require.GreaterOrEqual(t, in.GetAfter(), int64(0))
		}
	})
}
