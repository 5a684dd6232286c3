package stream

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// maxFrame is the largest frame of a device.
	maxFrame = 16 << 10
	// helloTimeout bounds the silence of a device before it has said hello.
	helloTimeout = 5 * time.Second
	// welcomeTimeout bounds the time in which onboarding answers it.
	welcomeTimeout = 10 * time.Second
	// frameTimeout bounds the time in which a device reads one frame. Nothing is kept for it meanwhile: a slow one is dropped.
	frameTimeout = 5 * time.Second
	// PingEvery is the interval of pings. A device that answers none within pongTimeout is gone. Proxies on the way cut a connection
	// that is silent for a minute.
	PingEvery   = 20 * time.Second
	pongTimeout = 10 * time.Second
	// settleTimeout bounds the time in which onboarding takes the last frames of a device that went away.
	settleTimeout = 2 * time.Second
	// reconnectWindow is the time over which the devices of a process that stops spread their return.
	reconnectWindow = 5 * time.Second
)

// Close codes that no standard has; docs/goals.md lists all of them.
const (
	closeToken    websocket.StatusCode = 4401
	closeReplaced websocket.StatusCode = 4409
)

// device is one connected device.
type device struct {
	of       *Devices
	conn     *websocket.Conn
	client   Client // nil in a server that does not count them
	deviceID string
	token    string
	cancel   context.CancelFunc // of everything
	began    time.Time

	received, sent atomic.Int64 // frames
	writing        sync.Mutex
	said           bool // the last frame; guarded by writing
	work           sync.WaitGroup
	ends           chan ending
}

// ending is the end of a stream and its reason. The code is 0 when the device is gone: there is no close frame.
type ending struct {
	code   websocket.StatusCode
	reason string // of the error frame, a Reason without its prefix; empty for no such frame
	text   string // for the device
	cause  string // for the log, without anything that a person wrote
}

// run serves the device until one side or the process ends the stream.
func (s *device) run(ctx context.Context) {
	defer s.of.running.Done()
	defer s.cancel()
	defer context.AfterFunc(s.of.base, s.abandon)()
	s.of.open.Add(ctx, 1)
	defer s.of.open.Add(ctx, -1)
	s.conn.SetReadLimit(maxFrame)
	s.ends = make(chan ending, 8) // of up, down twice, keepalive, and the timer of hello and of welcome; no sender waits for a reader
	awake, rest := context.WithCancel(ctx)
	defer rest()
	if s.client != nil {
		s.client.Await()
		defer s.client.Complete()
	}
	late := time.AfterFunc(helloTimeout, s.late)
	s.safely(ctx, func() ending { return s.up(ctx, late) })
	s.safely(ctx, func() ending { return s.keepalive(awake) })
	var end ending
	select {
	case end = <-s.ends:
	case <-s.of.stopping.Done():
		_ = s.writeLast(ctx, &onboardingv1.ConnectDeviceResponse{Frame: &onboardingv1.ConnectDeviceResponse_Reconnect{
			Reconnect: &onboardingv1.DeviceReconnect{AfterMs: reconnectAfter(s.deviceID).Milliseconds()},
		}}) // a device that does not get it is told by the close code
		end = ending{code: websocket.StatusServiceRestart, text: "the gateway is stopping; connect again"}
	}
	late.Stop()
	rest()
	s.close(ctx, end)
	settle := time.AfterFunc(settleTimeout, s.cancel)
	s.work.Wait()
	settle.Stop()
	s.of.ended(ctx, s, end)
}

// late ends a stream that did not begin in time.
func (s *device) late() {
	if s.received.Load() == 0 {
		s.ends <- ending{code: websocket.StatusPolicyViolation, reason: "INVALID", text: "hello did not come in time"}
		return
	}
	s.ends <- comeAgain("no welcome")
}

// safely runs a part of the stream, so that its panic does not end the process, and reports its end.
func (s *device) safely(ctx context.Context, part func() ending) {
	s.work.Go(func() {
		end := ending{code: websocket.StatusInternalError, text: "something went wrong on our side", cause: "panic"}
		defer func() {
			if cause := recover(); cause != nil {
				s.of.log.ErrorContext(ctx, "gateway.device_stream_panic",
					"device_id", s.deviceID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			}
			s.ends <- end
		}()
		end = part()
	})
}

// close tells the device why, if it is still there, and ends the connection, which ends what reads from it.
func (s *device) close(ctx context.Context, end ending) {
	if end.reason != "" {
		_ = s.writeLast(ctx, &onboardingv1.ConnectDeviceResponse{Frame: &onboardingv1.ConnectDeviceResponse_Error{
			Error: &onboardingv1.DeviceError{Reason: end.reason, Message: shorten(end.text, 300)},
		}})
	}
	if end.code == 0 {
		_ = s.conn.CloseNow() // it is gone, whatever this says
		return
	}
	_ = s.conn.Close(end.code, shorten(end.text, 120)) // waits for the device's own close frame for five seconds at most
}

// abandon ends the stream without a word: the process cannot wait for it.
func (s *device) abandon() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.cancel()
}

// up passes on the frames of the device: its hello first, which opens the stream to onboarding.
func (s *device) up(ctx context.Context, late *time.Timer) ending {
	first, end := s.read(ctx, true)
	if end != nil {
		return *end
	}
	late.Reset(welcomeTimeout)
	if s.client != nil {
		s.client.Complete()
	}
	conn, release, ok := s.of.acquire()
	if !ok {
		return ending{code: websocket.StatusTryAgainLater, reason: "UNAVAILABLE", text: "too many devices are connected; connect again later"}
	}
	first.GetHello().DeviceId, first.GetHello().Token = s.deviceID, s.token
	stream, err := onboardingv1.NewGoalServiceClient(conn).ConnectDevice(ctx)
	if err != nil {
		release()
		return endOf(err)
	}
	s.safely(ctx, func() ending {
		defer release()
		return s.down(ctx, stream, late)
	})
	defer func() { _ = stream.CloseSend() }() // a stream that has ended says why to down
	for frame := first; end == nil; frame, end = s.read(ctx, false) {
		_ = stream.Send(frame) // when it fails, down knows why
	}
	return *end
}

// read returns the next frame of the device, or the end of the stream.
func (s *device) read(ctx context.Context, first bool) (*onboardingv1.ConnectDeviceRequest, *ending) {
	kind, body, err := s.conn.Read(ctx)
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return nil, &ending{code: websocket.StatusMessageTooBig} // which the library has told it
	case err != nil:
		return nil, &ending{cause: websocket.CloseStatus(err).String()}
	case kind != websocket.MessageText:
		return nil, &ending{code: websocket.StatusUnsupportedData, reason: "INVALID", text: "frames are text"}
	}
	s.received.Add(1)
	frame, refused := decodeFrame(body, first)
	return frame, refused
}

// decodeFrame reads a frame as strictly as /v1 reads a body.
func decodeFrame(body []byte, first bool) (*onboardingv1.ConnectDeviceRequest, *ending) {
	frame := new(onboardingv1.ConnectDeviceRequest)
	if err := protojson.Unmarshal(body, frame); err != nil || frame.GetFrame() == nil { // devices in the field may write camel case
		text := "a frame holds one of hello, report, acknowledge, progress, end and goal"
		if err != nil && len(body) > 0 {
			text = strings.Replace(route.Plain(route.DecodeBody(body, new(onboardingv1.ConnectDeviceRequest))), "the body", "the frame", 1)
		}
		return nil, &ending{code: websocket.StatusInvalidFramePayloadData, reason: "INVALID", text: text}
	}
	hello := frame.GetHello()
	switch {
	case first != (hello != nil):
		return nil, &ending{code: websocket.StatusProtocolError, reason: "INVALID", text: "hello is the first frame, and no other"}
	case hello.GetDeviceId() != "" || hello.GetToken() != "":
		return nil, &ending{code: websocket.StatusProtocolError, reason: "INVALID", text: "the device is in the path and its token in the header"}
	}
	return frame, nil
}

type upstreamOfDevice = grpc.BidiStreamingClient[onboardingv1.ConnectDeviceRequest, onboardingv1.ConnectDeviceResponse]

// down passes on the frames of onboarding, and returns the reason of their end. A frame for a device that is gone is dropped.
func (s *device) down(ctx context.Context, stream upstreamOfDevice, late *time.Timer) ending {
	var last *onboardingv1.ConnectDeviceResponse
	for gone := false; ; {
		frame, err := stream.Recv()
		if err != nil {
			end := endOf(err)
			if last.GetError() != nil { // it knows already
				end.reason = ""
			}
			return end
		}
		last = frame
		late.Stop()
		if !gone && s.write(ctx, frame) != nil {
			gone = true
			s.ends <- ending{cause: "it does not read"}
		}
	}
}

// write sends one frame of onboarding within its time, unless the last one has been sent: any later one is dropped.
func (s *device) write(ctx context.Context, frame *onboardingv1.ConnectDeviceResponse) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.said {
		return nil
	}
	return s.send(ctx, frame)
}

// writeLast sends the frame after which none is sent.
func (s *device) writeLast(ctx context.Context, frame *onboardingv1.ConnectDeviceResponse) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.said = true
	return s.send(ctx, frame)
}

func (s *device) send(ctx context.Context, frame *onboardingv1.ConnectDeviceResponse) error {
	body, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(frame)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	s.sent.Add(1)
	return s.conn.Write(ctx, websocket.MessageText, body)
}

// keepalive ends a stream when its device is not there any more.
func (s *device) keepalive(ctx context.Context) ending {
	tick := time.NewTicker(PingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ending{}
		case <-tick.C:
		}
		waiting, cancel := context.WithTimeout(ctx, pongTimeout)
		err := s.conn.Ping(waiting)
		cancel()
		if err != nil {
			return ending{cause: "it does not answer"}
		}
	}
}

// endOf turns the end of onboarding's stream into the end that the device is told.
func endOf(err error) ending {
	e, ok := rpc.ErrorFrom(err)
	if !ok { // nothing but io.EOF: onboarding has said reconnect
		return ending{code: websocket.StatusServiceRestart, text: "connect again"}
	}
	end := ending{reason: strings.TrimPrefix(e.Reason, "REASON_"), text: e.Message}
	switch e.Code {
	case codes.Unauthenticated:
		if e.Reason == "" { // it was our own token, which lives as long as a stream may
			return ending{code: websocket.StatusServiceRestart, text: "connect again", cause: e.Message}
		}
		end.code = closeToken
	case codes.Aborted:
		end.code = closeReplaced
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists:
		end.code = websocket.StatusProtocolError
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled:
		return comeAgain(e.Message)
	case codes.OK, codes.Unknown, codes.NotFound, codes.PermissionDenied, codes.Unimplemented, codes.Internal, codes.DataLoss:
		fallthrough
	default:
		return ending{code: websocket.StatusInternalError, reason: "INTERNAL", text: "something went wrong on our side", cause: e.Message}
	}
	return end
}

// comeAgain returns the end of a stream that can be served a little later.
func comeAgain(cause string) ending {
	return ending{
		code: websocket.StatusTryAgainLater, reason: "UNAVAILABLE", text: "a service cannot be reached right now; connect again", cause: cause,
	}
}

// reconnectAfter spreads the devices over the window, each always at the same place.
func reconnectAfter(deviceID string) time.Duration {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(deviceID)) // never fails
	return time.Duration(sum.Sum64() % uint64(reconnectWindow))
}

// shorten cuts a text; a close frame has room for 123 bytes.
func shorten(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
