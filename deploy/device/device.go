// Package device connects a device to a gateway and runs the goals that it is offered, each once.
package device

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// TokenVariable holds the token where there is no file of it. The command of a run does not get it.
const TokenVariable = "PACELINE_DEVICE_TOKEN"

// What Config.Saw is told.
const (
	Connected    = "connected"
	Disconnected = "disconnected"
	Offered      = "offered" // a frame with an offer has come
)

// Config describes a device.
type Config struct {
	Gateway   *url.URL
	ID, Token string
	Execute   Execute                                            // runs a goal
	Book      *Book                                              // remembers the runs
	Goals     <-chan string                                      // goals that the device says; nil for none
	Out       io.Writer                                          // gets a line for each thing that happens
	Saw       func(what string, offer *onboardingv1.DeviceOffer) // the offer of Offered alone; may be nil
}

// client is a device that is connected, or about to be again.
type client struct {
	url, token string
	out        io.Writer
	saw        func(what string, offer *onboardingv1.DeviceOffer)
	runs       *runs
	said       <-chan string
	unanswered map[string]string // what was said, by its key, until it is answered
}

const (
	// The pause before the next try doubles, and differs by device, so that the devices of a gateway that was away do not come at once.
	firstPause, longestPause = 500 * time.Millisecond, 30 * time.Second
	// A device waits for a frame to be sent, or a connection to be made, for this long.
	frameTimeout = 10 * time.Second
	// maxUnanswered bounds what is said again after connecting again.
	maxUnanswered = 16
)

// Serve connects again and again until ctx ends, or the gateway says that it is of no use.
func Serve(ctx context.Context, cfg Config) error {
	d := &client{
		url: cfg.Gateway.JoinPath("v1/devices", cfg.ID, "connect").String(), token: cfg.Token, out: cfg.Out, saw: cfg.Saw,
		runs: newRuns(cfg.Execute, cfg.Book), said: cfg.Goals, unanswered: map[string]string{},
	}
	if d.saw == nil {
		d.saw = func(string, *onboardingv1.DeviceOffer) {}
	}
	return d.serve(ctx)
}

func (d *client) serve(ctx context.Context) error {
	defer d.runs.stopAll()
	pause, tries := firstPause, 0
	for {
		s := &session{device: d}
		err := s.play(ctx)
		if s.welcomed {
			d.saw(Disconnected, nil)
		}
		if ctx.Err() != nil {
			return nil // it was stopped
		}
		if useless(err) {
			return fmt.Errorf("the gateway does not want this device: %w", err)
		}
		if s.welcomed {
			pause = firstPause
		}
		wait := s.after
		if wait == 0 {
			tries++
			wait = pause/2 + d.spread(tries, pause)
			pause = min(2*pause, longestPause)
		}
		d.notef("disconnected: %v; again in %s", err, wait.Round(time.Millisecond))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// spread is a part of a pause, another for each device and try.
func (d *client) spread(tries int, pause time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, d.url, tries)              // never fails
	return time.Duration(h.Sum64() % uint64(pause)) //nolint:gosec // less than pause
}

// refusedError is an upgrade that was answered like any other request.
type refusedError struct{ status int }

func (e *refusedError) Error() string { return "the gateway answered " + http.StatusText(e.status) }

// useless reports whether coming again with the same token can only be refused again: the token, the device, or another process with both.
func useless(err error) bool {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden || refused.status == http.StatusNotFound
	}
	switch websocket.CloseStatus(err) {
	case 4401, 4409:
		return true
	default:
		return false
	}
}

func (d *client) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format+"\n", args...) // the failure has no reader
}

// session is one connection.
type session struct {
	device   *client
	conn     *websocket.Conn
	welcomed bool
	after    time.Duration // when to come back, as the gateway said
	beat     *time.Ticker  // nil before the welcome
}

// play connects, and answers what comes until the connection ends.
func (s *session) play(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	conn, response, err := websocket.Dial(dialing, s.device.url, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPHeader: http.Header{"Authorization": {"Bearer " + s.device.token}},
	})
	if err != nil {
		if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
			return &refusedError{response.StatusCode}
		}
		return err
	}
	s.conn = conn
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 10)
	if err := s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Hello{
		Hello: &onboardingv1.DeviceHello{Client: "paceline device"},
	}}); err != nil {
		return err
	}
	frames, failed := make(chan *onboardingv1.ConnectDeviceResponse), make(chan error, 1)
	reading, stop := context.WithCancel(context.WithoutCancel(ctx)) // the end of ctx is told to the gateway
	defer stop()
	go func() { failed <- s.read(reading, frames) }()
	defer func() {
		if s.beat != nil {
			s.beat.Stop()
		}
	}()
	return s.answer(ctx, frames, failed)
}

// answer does one thing after the other until the connection ends.
func (s *session) answer(ctx context.Context, frames <-chan *onboardingv1.ConnectDeviceResponse, failed <-chan error) (err error) {
	for {
		var beat <-chan time.Time
		if s.beat != nil {
			beat = s.beat.C
		}
		var said <-chan string
		if s.welcomed && len(s.device.unanswered) < maxUnanswered {
			said = s.device.said
		}
		select {
		case <-ctx.Done():
			s.device.runs.stopAll()
			return errors.Join(s.tellEnds(), s.conn.Close(websocket.StatusNormalClosure, ""))
		case err := <-failed:
			return err
		case frame := <-frames:
			err = s.take(frame)
		case <-beat:
			err = s.beatAll()
		case <-s.device.runs.changed:
			err = s.tellEnds()
		case words := <-said:
			key := uuid.NewString()
			s.device.unanswered[key] = words
			err = s.say(key, words)
		}
		if err != nil {
			return err
		}
	}
}

// read hands over the frames that come.
func (s *session) read(ctx context.Context, frames chan<- *onboardingv1.ConnectDeviceResponse) error {
	for {
		_, body, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		frame := new(onboardingv1.ConnectDeviceResponse)
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, frame); err != nil { // a newer gateway may say more
			return err
		}
		select {
		case frames <- frame:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take answers one frame.
func (s *session) take(frame *onboardingv1.ConnectDeviceResponse) error {
	switch f := frame.GetFrame().(type) {
	case *onboardingv1.ConnectDeviceResponse_Welcome:
		return s.welcome(f.Welcome)
	case *onboardingv1.ConnectDeviceResponse_Offer:
		return s.offer(f.Offer)
	case *onboardingv1.ConnectDeviceResponse_Stop:
		s.device.runs.stop(f.Stop.GetRunId())
	case *onboardingv1.ConnectDeviceResponse_Goal:
		delete(s.device.unanswered, f.Goal.GetKey())
		if g := f.Goal.GetGoal(); g != nil {
			s.device.notef("goal %s is %s, for %s", g.GetGoalId(), g.GetStatus(), g.GetScheduledFor().AsTime().Format(time.RFC3339))
		} else {
			s.device.notef("not taken: %s: %s", f.Goal.GetReason(), f.Goal.GetMessage())
		}
	case *onboardingv1.ConnectDeviceResponse_Reconnect:
		s.after = max(time.Millisecond, time.Duration(f.Reconnect.GetAfterMs())*time.Millisecond)
	case *onboardingv1.ConnectDeviceResponse_Error:
		s.device.notef("the gateway says %s: %s", f.Error.GetReason(), f.Error.GetMessage())
	}
	return nil
}

// welcome reports what is known of each run that the server believes to be open, and repeats what was not answered.
func (s *session) welcome(w *onboardingv1.DeviceWelcome) error {
	s.welcomed = true
	if s.beat == nil {
		s.beat = time.NewTicker(max(time.Second, time.Duration(w.GetRunLeaseSeconds())*time.Second/3))
	}
	s.device.notef("connected (stream %d of this device)", w.GetEpoch())
	s.device.saw(Connected, nil)
	for _, id := range w.GetRuns() {
		known := s.device.runs.book.find(id)
		report := &onboardingv1.DeviceRun{RunId: id, State: string(known.State), Ok: known.OK, Detail: known.Detail}
		if err := s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Report{Report: report}}); err != nil {
			return err
		}
	}
	for key, words := range s.device.unanswered {
		if err := s.say(key, words); err != nil {
			return err
		}
	}
	return s.tellEnds()
}

// offer begins a run that is new, once it is on disk; the acknowledgement says that it is.
func (s *session) offer(o *onboardingv1.DeviceOffer) error {
	s.device.saw(Offered, o)
	fresh, err := s.device.runs.note(o.GetRunId())
	if err != nil { // what is not on disk is not begun: it is reported as never seen, and offered again
		return fmt.Errorf("the run cannot be noted: %w", err)
	}
	sent := s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Acknowledge{
		Acknowledge: &onboardingv1.DeviceAcknowledge{RunId: o.GetRunId()},
	}})
	if fresh { // also if it could not be acknowledged: the report after connecting again does
		s.device.notef("run %s begins", o.GetRunId())
		s.device.runs.begin(o)
	} else if known := s.device.runs.book.find(o.GetRunId()); sent == nil && known.State == runEnded {
		sent = s.end(o.GetRunId(), known)
	}
	return sent
}

// beatAll is a sign of life of each run.
func (s *session) beatAll() error {
	for _, id := range s.device.runs.going() {
		if err := s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Progress{
			Progress: &onboardingv1.DeviceProgress{RunId: id},
		}}); err != nil {
			return err
		}
	}
	return nil
}

// tellEnds reports how runs ended. One that is lost on the way is reported after connecting again.
func (s *session) tellEnds() error {
	if !s.welcomed {
		return nil
	}
	for _, id := range s.device.runs.takeEnded() {
		known := s.device.runs.book.find(id)
		s.device.notef("run %s ended, ok=%t", id, known.OK)
		if err := s.end(id, known); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) end(id string, known notedRun) error {
	return s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_End{
		End: &onboardingv1.DeviceEnd{RunId: id, Ok: known.OK, Detail: known.Detail},
	}})
}

func (s *session) say(key, words string) error {
	return s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Goal{
		Goal: &onboardingv1.DeviceGoal{Key: key, Goal: words},
	}})
}

// send is one frame within its time.
func (s *session) send(frame *onboardingv1.ConnectDeviceRequest) error {
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(frame)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), frameTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, body)
}
