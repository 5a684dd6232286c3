package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	pathConnect = "/v1/devices/{device_id}/connect"

	// The streams of devices have connections of their own to onboarding, or a thousand of them would take the place of the callbacks. Each
	// connection goes to one replica. A stream costs 40 KiB, so 1,024 of them fit beside all that connections.go admits.
	streamConns    = 4
	streamsPerConn = 256

	// drainTimeout is what the devices get to be told where to go, and to answer.
	drainTimeout = 8 * time.Second
	// maxDeviceToken is far above a token's 47 characters.
	maxDeviceToken = 256
)

// devices are those that are connected to this process: a WebSocket each, and a stream to onboarding, which decides everything.
type devices struct {
	conns    []*grpc.ClientConn
	log      *slog.Logger
	now      func() time.Time // the machine's clock
	open     metric.Int64UpDownCounter
	ends     metric.Int64Counter
	draining chan struct{}   // closed when the process stops
	base     context.Context //nolint:containedctx // a hijacked connection has no context of its server's
	cut      context.CancelFunc

	mu      sync.Mutex
	used    []int // streams of each connection
	running sync.WaitGroup
}

// newDevices dials the connections, each of which connects when its first stream needs it.
func newDevices(client rpc.ClientConfig, meter metric.Meter, log *slog.Logger) (*devices, error) {
	d := &devices{log: log, now: time.Now, draining: make(chan struct{}), used: make([]int, streamConns)}
	var failed, problem error
	d.open, failed = meter.Int64UpDownCounter("device_streams", metric.WithDescription("Devices that are connected to this process."))
	d.ends, problem = meter.Int64Counter("device_stream_ends",
		metric.WithDescription("Streams of devices that ended, by the close code; 0 without one."))
	failed = errors.Join(failed, problem)
	client.Services = nil // no stream is tried again here: the device comes again
	for range streamConns {
		conn, err := rpc.Dial(client)
		if err != nil {
			return nil, errors.Join(failed, fmt.Errorf("onboarding's streams: %w", err), d.close())
		}
		d.conns = append(d.conns, conn)
	}
	d.base, d.cut = context.WithCancel(context.Background())
	return d, failed
}

// enter takes a place on the connection that has most of them; leave releases it.
func (d *devices) enter() (conn *grpc.ClientConn, leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	least := slices.Index(d.used, slices.Min(d.used))
	if d.used[least] >= streamsPerConn {
		return nil, nil, false
	}
	d.used[least]++
	return d.conns[least], func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.used[least]--
	}, true
}

// serve refuses a request as any other route does, or makes a WebSocket of it. From then on the connection is the stream's: the server,
// whose timeouts are for requests, is done with it.
func (d *devices) serve(w http.ResponseWriter, r *http.Request) {
	deviceID, token, refused := readConnect(w.Header(), r)
	if refused != nil {
		refused.write(r.Context(), w)
		return
	}
	eventFrom(r.Context()).add(slog.String("device_id", deviceID))
	if !d.begin() {
		answer{status: http.StatusServiceUnavailable, err: &rpc.Error{
			Code: codes.Unavailable, Reason: reasonUnavailable, Domain: domain, Message: "the gateway is stopping; connect again",
			RetryAfter: time.Second,
		}}.write(r.Context(), w)
		return
	}
	conn, err := websocket.Accept(w, r, nil) // compression is off, for it would let a small frame become a large one
	if err != nil {
		d.running.Done() // the connection broke, or cannot be taken over
		return
	}
	client, _ := r.Context().Value(connectionKey{}).(*connection)
	// The handler's end is the end of the request, for the log line, the span and the latencies; the stream has a line of its own.
	ctx, cancel := context.WithCancel(telemetry.WithRequestID(context.WithoutCancel(r.Context()), telemetry.RequestID(r.Context())))
	s := &deviceStream{of: d, conn: conn, client: client, deviceID: deviceID, token: token, cancel: cancel, began: d.now()}
	go s.run(ctx)
}

// readConnect reads whose stream is asked for, or says why there is none. The token is taken from its header only: what is in a URL is
// logged on the way.
func readConnect(header http.Header, r *http.Request) (deviceID, token string, refused *answer) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	id, err := uuid.Parse(r.PathValue("device_id"))
	key, badKey := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.Header.Values("Origin") != nil:
		return "", "", &answer{status: http.StatusForbidden, err: refuse(
			codes.PermissionDenied, reasonPermissionDenied, "a browser is not a device")}
	case r.URL.RawQuery != "":
		return "", "", new(malformed(errors.New("this route takes no query; the token goes into the header Authorization")))
	case err != nil || len(r.PathValue("device_id")) != len(id.String()):
		return "", "", &answer{status: http.StatusNotFound, err: refuse(
			codes.NotFound, onboardingv1.Reason_REASON_DEVICE_NOT_FOUND.String(), "there is no such device")}
	case !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxDeviceToken || len(r.Header.Values("Authorization")) != 1:
		header.Set("WWW-Authenticate", "Bearer")
		return "", "", &answer{status: http.StatusUnauthorized, err: refuse(codes.Unauthenticated, reasonUnauthenticated,
			"send the header Authorization: Bearer <token of the device>")}
	case !offers(r.Header, "Connection", "upgrade") || !offers(r.Header, "Upgrade", "websocket") ||
		r.Header.Get("Sec-WebSocket-Version") != "13" || !r.ProtoAtLeast(1, 1) || r.Method != http.MethodGet:
		header.Set("Connection", "Upgrade")
		header.Set("Upgrade", "websocket")
		header.Set("Sec-WebSocket-Version", "13")
		return "", "", &answer{status: http.StatusUpgradeRequired, err: refuse(
			codes.InvalidArgument, reasonUpgrade, "this route is a WebSocket, version 13")}
	case badKey != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1 || r.ContentLength != 0:
		return "", "", new(malformed(errors.New("the handshake takes one Sec-WebSocket-Key of 16 bytes in base64, and no body")))
	}
	return id.String(), token, nil
}

// offers reports whether a header that is a list has a word.
func offers(header http.Header, name, word string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(header.Values(name), ","), ","), func(given string) bool {
		return strings.EqualFold(strings.TrimSpace(given), word)
	})
}

// begin counts a stream, unless the process stops.
func (d *devices) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.draining:
		return false
	default:
		d.running.Add(1)
		return true
	}
}

// ended is the one line of a stream, and its count.
func (d *devices) ended(ctx context.Context, s *deviceStream, e ending) {
	level := slog.LevelInfo
	if e.code == websocket.StatusInternalError {
		level = slog.LevelWarn
	}
	d.ends.Add(ctx, 1, metric.WithAttributes(attribute.Int("code", int(e.code))))
	d.log.LogAttrs(ctx, level, "gateway.device_stream_ended",
		slog.String("device_id", s.deviceID), slog.Int("close_code", int(e.code)), slog.String("reason", e.reason),
		slog.String("cause", clip(e.cause)), slog.Int64("received", s.received.Load()), slog.Int64("sent", s.sent.Load()),
		slog.Float64("duration_ms", float64(d.now().Sub(s.began).Microseconds())/1000),
	)
}

// drain tells every device to connect elsewhere, and waits until they are gone; who has not gone when ctx ends is cut off.
func (d *devices) drain(ctx context.Context) error {
	d.mu.Lock()
	select {
	case <-d.draining:
	default:
		close(d.draining)
	}
	d.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		d.running.Wait()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		d.cut()
		<-gone
		return fmt.Errorf("devices were cut off: %w", ctx.Err())
	}
}

// close ends the connections, once no stream is left.
func (d *devices) close() error {
	var problems []error
	for _, conn := range d.conns {
		problems = append(problems, conn.Close())
	}
	return errors.Join(problems...)
}
