package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/test/chaos"
)

// deviceTokenVariable holds the token where there is no file of it. The command of a run does not get it.
const deviceTokenVariable = "PACELINE_DEVICE_TOKEN"

// deviceCommand is a stream device that runs a command for each goal.
type deviceCommand struct {
	URL       string `name:"url" help:"The gateway. Default: PUBLIC_BASE_URL, or that of the paceline up on this machine."`
	Device    string `required:"" help:"The device_id that POST /v1/devices answered."`
	TokenFile string `type:"existingfile" help:"The file that holds the device's token; else PACELINE_DEVICE_TOKEN does."`
	Exec      string `required:"" help:"The program to run for each goal."`
	State     string `required:"" help:"The file that remembers runs across restarts, so that none begins twice."`
	Say       string `help:"A goal for this device, such as \"in 5 minutes open the door\"."`
}

// Help is what --help says after the first line.
func (c *deviceCommand) Help() string {
	return "The program gets the goal on its standard input, and PACELINE_RUN_ID, PACELINE_GOAL_ID, PACELINE_SCHEDULED_FOR and " +
		"PACELINE_CONFIGURATION in its environment. It is asked to end by SIGTERM, and killed 10 s later. It has succeeded when it exits " +
		"with 0; its last line is what the goal ends with. Each line of the standard input is a goal as of --say. " +
		"docs/goals.md, A device of your own."
}

// Run serves until it is stopped, or cannot serve any more.
func (c *deviceCommand) Run(ctx context.Context, t terminal) error {
	token := t.environ[deviceTokenVariable]
	if c.TokenFile != "" {
		content, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(content))
	}
	if token == "" || uuid.Validate(c.Device) != nil {
		return fmt.Errorf("give --token-file or %s, and a --device that can be read", deviceTokenVariable)
	}
	environ, err := deploymentEnviron(t.environ, "")
	if err != nil {
		return err
	}
	where, err := gatewayAt(c.URL, environ)
	if err != nil {
		return err
	}
	book, err := openRunBook(c.State)
	if err != nil {
		return err
	}
	defer func() { _ = book.Close() }() // each change was synced
	d := &streamDevice{
		url: where.JoinPath("v1/devices", c.Device, "connect").String(), token: token, out: t.out,
		saw:  func(string, *onboardingv1.DeviceOffer) {},
		runs: newRuns(program(c.Exec), book), said: make(chan string, 16), unanswered: map[string]string{},
	}
	if c.Say != "" {
		d.said <- c.Say
	}
	if t.in != nil {
		go d.listen(ctx, t.in) // it ends with the process: a read of a terminal cannot be interrupted
	}
	return d.serve(ctx)
}

// streamDevice is a device that is connected, or about to be again.
type streamDevice struct {
	url, token string
	out        io.Writer
	saw        func(what string, offer *onboardingv1.DeviceOffer) // told of what a fleet measures; the offer of that alone
	runs       *runs
	said       chan string
	unanswered map[string]string // what was said, by its key, until it is answered

	printing sync.Mutex
}

const (
	// The pause before the next try doubles, and differs by device, so that the devices of a gateway that was away do not come at once.
	firstPause, longestPause = 500 * time.Millisecond, 30 * time.Second
	// A device waits for a frame to be sent, or a connection to be made, for this long.
	deviceTimeout = 10 * time.Second
	// maxUnanswered bounds what is said again after connecting again.
	maxUnanswered = 16
)

// serve connects again and again until ctx ends, or the gateway says that it is of no use.
func (d *streamDevice) serve(ctx context.Context) error {
	defer d.runs.stopAll()
	pause, tries := firstPause, 0
	for {
		s := &deviceSession{device: d}
		err := s.play(ctx)
		if s.welcomed {
			d.saw(chaos.DeviceDisconnected, nil)
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
func (d *streamDevice) spread(tries int, pause time.Duration) time.Duration {
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

// listen takes each line for a goal.
func (d *streamDevice) listen(ctx context.Context, in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			select {
			case d.said <- line:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (d *streamDevice) notef(format string, args ...any) {
	d.printing.Lock()
	defer d.printing.Unlock()
	_, _ = fmt.Fprintf(d.out, format+"\n", args...) // the failure has no reader
}

// deviceSession is one connection.
type deviceSession struct {
	device   *streamDevice
	conn     *websocket.Conn
	welcomed bool
	after    time.Duration // when to come back, as the gateway said
	beat     *time.Ticker  // nil before the welcome
}

// play connects, and answers what comes until the connection ends.
func (s *deviceSession) play(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, deviceTimeout)
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
func (s *deviceSession) answer(ctx context.Context, frames <-chan *onboardingv1.ConnectDeviceResponse, failed <-chan error) (err error) {
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
func (s *deviceSession) read(ctx context.Context, frames chan<- *onboardingv1.ConnectDeviceResponse) error {
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
func (s *deviceSession) take(frame *onboardingv1.ConnectDeviceResponse) error {
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

// welcome says what is known of each run that the server believes to be open, and says again what was not answered.
func (s *deviceSession) welcome(w *onboardingv1.DeviceWelcome) error {
	s.welcomed = true
	if s.beat == nil {
		s.beat = time.NewTicker(max(time.Second, time.Duration(w.GetRunLeaseSeconds())*time.Second/3))
	}
	s.device.notef("connected (stream %d of this device)", w.GetEpoch())
	s.device.saw(chaos.DeviceConnected, nil)
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
func (s *deviceSession) offer(o *onboardingv1.DeviceOffer) error {
	s.device.saw(chaos.DeviceOffered, o)
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
func (s *deviceSession) beatAll() error {
	for _, id := range s.device.runs.going() {
		if err := s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Progress{
			Progress: &onboardingv1.DeviceProgress{RunId: id},
		}}); err != nil {
			return err
		}
	}
	return nil
}

// tellEnds says how runs ended. One that is lost on the way is reported after connecting again.
func (s *deviceSession) tellEnds() error {
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

func (s *deviceSession) end(id string, known notedRun) error {
	return s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_End{
		End: &onboardingv1.DeviceEnd{RunId: id, Ok: known.OK, Detail: known.Detail},
	}})
}

func (s *deviceSession) say(key, words string) error {
	return s.send(&onboardingv1.ConnectDeviceRequest{Frame: &onboardingv1.ConnectDeviceRequest_Goal{
		Goal: &onboardingv1.DeviceGoal{Key: key, Goal: words},
	}})
}

// send is one frame within its time.
func (s *deviceSession) send(frame *onboardingv1.ConnectDeviceRequest) error {
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(frame)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deviceTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, body)
}
