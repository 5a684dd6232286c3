// Package devices holds the streams of the devices that goals run on: it begins on a device what an alarm has called for, and takes what
// the device says of its runs. The rows of goals are the truth about a device and its runs; what is here is a copy.
package devices

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/onboarding/goals"
)

const (
	// MaxStreams bounds the streams of a process, unless its configuration says otherwise.
	MaxStreams = 2000

	// nodeLease is the time that the devices of a node count as connected after it was last heard of, and renewLease the interval at which it
	// says so.
	nodeLease  = 15 * time.Second
	renewLease = 5 * time.Second
	// keepEvery is the interval at which a node compares its streams with their rows, and looks for calls that it was not notified of.
	keepEvery = time.Second
	// idleEvery is the interval at which it does so while no stream is open: a connection that comes ends that rest.
	idleEvery = time.Minute

	// callTimeout bounds a call of the database, sayTimeout the creation of a goal, which may ask a model and publishes an alarm.
	callTimeout = 5 * time.Second
	sayTimeout  = 10 * time.Second
	// maxCalls and maxSaying bound how many streams are at such a call at once, so that devices leave connections to the conversations.
	maxCalls  = 8
	maxSaying = 8

	// reportWithin is the time that a device has for its reports: until then it is offered nothing.
	reportWithin = 10 * time.Second
	// renewBefore is the time between the replacement of a stream and the end of its token, spread over renewSpread.
	renewBefore = 30 * time.Second
	renewSpread = time.Minute
	// comeBack spreads the devices of a process that ends.
	comeBack = 5 * time.Second

	// maxClient bounds what a device says of itself, in characters.
	maxClient = 100
	// progressEvery is the interval at which the progress of a run is stored.
	progressEvery = time.Second
)

// The reasons for which a process ends a stream. Their texts are for who maintains the device.
var (
	ErrFrame    = errors.New("the frame is out of order")
	ErrSlow     = errors.New("the device does not read what it is sent; connect again")
	ErrFull     = errors.New("as many devices are connected as may be; try again")
	ErrDraining = errors.New("the process ends; connect again")
)

var errUnreported = fmt.Errorf("%w: a report of each run of the welcome did not come in time", ErrFrame)

// rows keeps the presence of devices and their runs. Each method is one guarded statement, or one transaction. goals.Store implements it
// and documents each.
type rows interface { //nolint:interfacebloat // each is one step of a stream that a crash may come after
	Connect(ctx context.Context, nodeID string, hello goals.Hello, opened time.Time) (goals.Connection, error)
	Disconnect(ctx context.Context, nodeID, deviceID string, epoch int64, at time.Time) error
	Renew(ctx context.Context, nodeID string, until, now time.Time) error
	Retire(ctx context.Context, nodeID string, at time.Time) error
	Held(ctx context.Context, nodeID string) (map[string]goals.HeldDevice, error)
	Calls(ctx context.Context, nodeID string, now time.Time) ([]goals.Call, error)
	Begin(ctx context.Context, nodeID string, c goals.Call, runID string, at time.Time) (goals.Offer, error)
	OfferAgain(ctx context.Context, nodeID string, c goals.Call, runID string, at time.Time) (goals.Offer, error)
	Acknowledge(ctx context.Context, deviceID, runID string, at time.Time) (bool, error)
	Hear(ctx context.Context, deviceID, runID, progress string, at time.Time) (bool, error)
}

// service takes the goals that are said to devices, and ends those that ran on them. goals.Service implements it.
type service interface {
	Create(ctx context.Context, n goals.New) (g goals.Goal, duplicate bool, err error)
	Offered(ctx context.Context, o goals.Offer)
	End(ctx context.Context, kind goals.Kind, e goals.End) (ended bool, err error)
}

// HubConfig configures a Hub.
type HubConfig struct {
	Store      rows
	Goals      service
	RunLease   time.Duration
	MaxStreams int // MaxStreams when 0
	Log        *slog.Logger
	Now        func() time.Time
}

// Hub holds the streams of one process, a node. What it knows of them is a copy: which node has a device, and what runs on it, is in the
// rows, so that a process may end at any point.
type Hub struct {
	HubConfig

	node   string
	wake   chan struct{}
	opened chan struct{}
	offers metric.Int64Counter // nil counts nothing
	calls  chan struct{}       // a place for each call of the database
	saying chan struct{}

	mu       sync.Mutex
	open     map[*stream]struct{}
	devices  map[string]*stream // those that have their device
	arriving map[string]int     // devices that may name this node in their rows already
	renewAt  time.Time
	draining bool
	empty    chan struct{} // closed once it drains and the last stream has ended
}

// NewHub returns the hub of a process that begins: its node is new.
func NewHub(cfg HubConfig) *Hub {
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = MaxStreams
	}
	return &Hub{
		HubConfig: cfg, node: uuid.NewString(), wake: make(chan struct{}, 1), opened: make(chan struct{}, 1),
		calls: make(chan struct{}, maxCalls), saying: make(chan struct{}, maxSaying), open: map[*stream]struct{}{},
		devices: map[string]*stream{}, arriving: map[string]int{},
		empty: make(chan struct{}),
	}
}

// Wake has the hub look for goals to begin.
func (h *Hub) Wake() { signal(h.wake) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Connected counts the devices that are connected to this process.
func (h *Hub) Connected() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.devices)
}

// Connect serves one stream until it ends, and returns why: nil when it ended in order. The deadline of ctx, if any, is the end of its
// token: the device is asked to come back before.
func (h *Hub) Connect(ctx context.Context, w wire) error {
	s := newStream(ctx, h.Now())
	defer s.end(nil)
	if err := h.enter(s); err != nil {
		return err
	}
	defer h.leave(s)
	defer h.depart(s)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range s.write(w) {
			h.count(ctx, offerUnsent)
		}
	}()
	go s.read(w) // it ends with the stream of gRPC
	s.end(h.serve(s))
	<-written
	cause := context.Cause(s.ctx)
	if _, inOrder := errors.AsType[*leaving](cause); inOrder || errors.Is(cause, io.EOF) {
		return nil
	}
	return cause
}

func (h *Hub) enter(s *stream) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.draining:
		return ErrDraining
	case len(h.open) >= h.MaxStreams:
		return ErrFull
	}
	h.open[s] = struct{}{}
	signal(h.opened)
	return nil
}

func (h *Hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, s)
	if h.draining && len(h.open) == 0 {
		close(h.empty)
	}
}

// serve plays the server's part of the protocol. It always returns an error.
func (h *Hub) serve(s *stream) error {
	first, err := s.next()
	if err != nil {
		return err
	}
	if err := s.accept(first); err != nil {
		return err
	}
	hello, _ := first.(Hello)
	if err := h.arrive(s, hello); err != nil {
		return err
	}
	defer time.AfterFunc(s.life(), func() { s.end(&leaving{after: s.spread(time.Second)}) }).Stop()
	reports := time.AfterFunc(reportWithin, func() { s.end(errUnreported) })
	defer reports.Stop()
	for {
		if s.ready() && s.mayBegin.CompareAndSwap(false, true) {
			reports.Stop()
			h.Wake()
		}
		frame, err := s.next()
		if err != nil {
			return err
		}
		if err := s.accept(frame); err != nil {
			return err
		}
		if err := h.handle(s, frame); err != nil {
			return err
		}
	}
}

// arrive gives the stream its device, and welcomes it.
func (h *Hub) arrive(s *stream, hello Hello) error {
	if uuid.Validate(hello.DeviceID) != nil {
		return goals.ErrToken
	}
	hello.Client = brief(hello.Client, maxClient)
	h.expect(hello.DeviceID, 1)
	defer h.expect(hello.DeviceID, -1)
	var c goals.Connection
	err := h.call(s.ctx, func(ctx context.Context) (err error) {
		if err := h.renew(ctx, h.Now()); err != nil {
			return err
		}
		c, err = h.Store.Connect(ctx, h.node, goals.Hello(hello), s.opened)
		return err
	})
	if err != nil {
		return err
	}
	s.welcome(c.Runs)
	s.send(Welcome{Epoch: c.Epoch, Runs: c.Runs, RunLease: h.RunLease})
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Connection = c
	if older := h.devices[s.DeviceID]; older != nil {
		if older.Epoch > s.Epoch {
			return goals.ErrReplaced
		}
		older.end(goals.ErrReplaced)
	}
	h.devices[s.DeviceID] = s
	h.Log.InfoContext(s.ctx, "goals.device_connected", "device_id", s.DeviceID, "epoch", s.Epoch, "open_runs", len(s.Runs))
	return nil
}

// depart gives the device back. What fails here the loop does, or the end of the node's lease.
func (h *Hub) depart(s *stream) {
	if s.Epoch == 0 {
		return
	}
	h.mu.Lock()
	if h.devices[s.DeviceID] == s {
		delete(h.devices, s.DeviceID)
	}
	h.mu.Unlock()
	ctx := context.WithoutCancel(s.ctx)
	err := h.call(ctx, func(ctx context.Context) error {
		return h.Store.Disconnect(ctx, h.node, s.DeviceID, s.Epoch, h.Now())
	})
	h.Log.InfoContext(ctx, "goals.device_disconnected", "device_id", s.DeviceID, "epoch", s.Epoch, "cause", context.Cause(s.ctx).Error())
	if err != nil {
		h.Log.WarnContext(ctx, "goals.device_not_released", "device_id", s.DeviceID, "error", err)
	}
}

// expect notes that a device's row may name this node before its stream is known here.
func (h *Hub) expect(deviceID string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.arriving[deviceID] += n; h.arriving[deviceID] == 0 {
		delete(h.arriving, deviceID)
	}
}

// call makes one call of the database for a stream, once there is a place.
func (h *Hub) call(ctx context.Context, do func(ctx context.Context) error) error {
	return within(ctx, h.calls, callTimeout, do)
}

// within does something in one of the places, and within a time that begins with it.
func within(ctx context.Context, places chan struct{}, timeout time.Duration, do func(ctx context.Context) error) error {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return do(ctx)
}
