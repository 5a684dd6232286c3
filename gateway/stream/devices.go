package stream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// PathConnect connects a device.
	PathConnect = "/v1/devices/{device_id}/connect"
	// DrainTimeout bounds the time in which the devices are told where to go, and answer.
	DrainTimeout = 8 * time.Second

	// The streams of devices have their own connections to onboarding, or a thousand of them would take the room of the callbacks. Each
	// connection goes to one replica. A stream costs 40 KiB, so 1,024 of them fit next to all that connections.go admits.
	streamConns    = 4
	streamsPerConn = 256
	// maxDeviceToken is far above a token's 47 characters.
	maxDeviceToken = 256
)

// Client is the connection of a device, which the server counts until the device has said hello.
type Client interface {
	Await()    // the device has yet to show who it is
	Complete() // it has shown that, or has gone
	Close() error
}

// Devices are the devices that are connected to this process: a WebSocket each, and a stream to onboarding, which decides everything.
type Devices struct {
	*gate

	conns  []*grpc.ClientConn
	client func(ctx context.Context) Client // of a request; nil when the server counts none
	log    *slog.Logger
	now    func() time.Time // the machine's clock
	open   metric.Int64UpDownCounter
	ends   metric.Int64Counter
	base   context.Context //nolint:containedctx // a hijacked connection has no context of its server's
	cut    context.CancelFunc

	used []int // streams of each connection, guarded by mu
}

// NewDevices dials the connections, each of which connects when its first stream needs it.
func NewDevices(
	client rpc.ClientConfig, meter metric.Meter, log *slog.Logger, clientOf func(ctx context.Context) Client,
) (*Devices, error) {
	d := &Devices{gate: newGate(), client: clientOf, log: log, now: time.Now, used: make([]int, streamConns)}
	var failed, problem error
	d.open, failed = meter.Int64UpDownCounter("paceline_device_streams", metric.WithDescription("Devices that are connected to this process."))
	d.ends, problem = meter.Int64Counter("paceline_device_streams_ended_total",
		metric.WithDescription("Streams of devices that ended, by the close code; 0 without one."))
	if failed = errors.Join(failed, problem); failed == nil {
		d.open.Add(context.Background(), 0) // shown from the start: without it no rule could tell that no gateway runs
	}
	client.Services = nil // no stream is tried again here: the device comes again
	for range streamConns {
		conn, err := rpc.Dial(client)
		if err != nil {
			return nil, errors.Join(failed, fmt.Errorf("onboarding's streams: %w", err), d.Close())
		}
		d.conns = append(d.conns, conn)
	}
	d.base, d.cut = context.WithCancel(context.Background())
	return d, failed
}

// acquire takes a stream of the connection with the fewest; release gives it back.
func (d *Devices) acquire() (conn *grpc.ClientConn, release func(), ok bool) {
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

// Serve refuses a request as any other route does, or makes a WebSocket of it. From then on the connection is the stream's: the server,
// with its timeouts for requests, is done with it.
func (d *Devices) Serve(w http.ResponseWriter, r *http.Request) {
	deviceID, token, refused := readConnect(w.Header(), r)
	if refused != nil {
		refused.Write(r.Context(), w)
		return
	}
	route.EventFrom(r.Context()).Add(slog.String("device_id", deviceID))
	if stopping := d.enter(); stopping != nil {
		stopping.RetryAfter = time.Second
		route.Answer{Status: http.StatusServiceUnavailable, Err: stopping}.Write(r.Context(), w)
		return
	}
	conn, err := websocket.Accept(w, r, nil) // compression is off, for it would let a small frame become a large one
	if err != nil {
		d.running.Done() // the connection broke, or cannot be taken over
		return
	}
	// The handler's end is the end of the request, for the log line, the span and the latencies; the stream has another line.
	ctx, cancel := context.WithCancel(telemetry.WithRequestID(context.WithoutCancel(r.Context()), telemetry.RequestID(r.Context())))
	s := &device{of: d, conn: conn, client: d.client(r.Context()), deviceID: deviceID, token: token, cancel: cancel, began: d.now()}
	go s.run(ctx)
}

// readConnect reads which device asks for a stream, or returns the refusal. The token is taken from its header only: a URL is logged on the
// way.
func readConnect(header http.Header, r *http.Request) (deviceID, token string, refused *route.Answer) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	id, err := uuid.Parse(r.PathValue("device_id"))
	key, badKey := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.Header.Values("Origin") != nil:
		return "", "", &route.Answer{Status: http.StatusForbidden, Err: route.Refuse(
			codes.PermissionDenied, route.ReasonPermissionDenied, "a browser is not a device")}
	case r.URL.RawQuery != "":
		return "", "", new(route.Malformed(errors.New("this route takes no query; the token goes into the header Authorization")))
	case err != nil || len(r.PathValue("device_id")) != len(id.String()):
		return "", "", &route.Answer{Status: http.StatusNotFound, Err: route.Refuse(
			codes.NotFound, onboardingv1.Reason_REASON_DEVICE_NOT_FOUND.String(), "there is no such device")}
	case !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxDeviceToken || len(r.Header.Values("Authorization")) != 1:
		header.Set("WWW-Authenticate", "Bearer")
		return "", "", &route.Answer{Status: http.StatusUnauthorized, Err: route.Refuse(codes.Unauthenticated, route.ReasonUnauthenticated,
			"send the header Authorization: Bearer <token of the device>")}
	case !offers(r.Header, "Connection", "upgrade") || !offers(r.Header, "Upgrade", "websocket") ||
		r.Header.Get("Sec-WebSocket-Version") != "13" || !r.ProtoAtLeast(1, 1) || r.Method != http.MethodGet:
		header.Set("Connection", "Upgrade")
		header.Set("Upgrade", "websocket")
		header.Set("Sec-WebSocket-Version", "13")
		return "", "", &route.Answer{Status: http.StatusUpgradeRequired, Err: route.Refuse(
			codes.InvalidArgument, route.ReasonUpgrade, "this route is a WebSocket, version 13")}
	case badKey != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1 || r.ContentLength != 0:
		return "", "", new(route.Malformed(errors.New("the handshake takes one Sec-WebSocket-Key of 16 bytes in base64, and no body")))
	}
	return id.String(), token, nil
}

// offers reports whether a header that is a list has a word.
func offers(header http.Header, name, word string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(header.Values(name), ","), ","), func(given string) bool {
		return strings.EqualFold(strings.TrimSpace(given), word)
	})
}

// ended writes the one line of a stream, and counts it.
func (d *Devices) ended(ctx context.Context, s *device, e ending) {
	level := slog.LevelInfo
	if e.code == websocket.StatusInternalError {
		level = slog.LevelWarn
	}
	d.ends.Add(ctx, 1, metric.WithAttributes(attribute.Int("code", int(e.code))))
	d.log.LogAttrs(ctx, level, "gateway.device_stream_ended",
		slog.String("device_id", s.deviceID), slog.Int("close_code", int(e.code)), slog.String("reason", e.reason),
		slog.String("cause", route.Clip(e.cause)), slog.Int64("received", s.received.Load()), slog.Int64("sent", s.sent.Load()),
		slog.Float64("duration_ms", float64(d.now().Sub(s.began).Microseconds())/1000),
	)
}

// Drain tells every device to connect elsewhere, and waits until they are gone. When ctx ends it cuts off the rest.
func (d *Devices) Drain(ctx context.Context) error {
	if err := d.drain(ctx); err != nil {
		d.cut()
		d.running.Wait()
		return fmt.Errorf("devices were cut off: %w", err)
	}
	return nil
}

// Close ends the connections, once no stream is left.
func (d *Devices) Close() error {
	var problems []error
	for _, conn := range d.conns {
		problems = append(problems, conn.Close())
	}
	return errors.Join(problems...)
}
