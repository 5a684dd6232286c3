package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	pathEvents = "/v1/events:stream"

	// eventTime is what a reader has to take one event, and silentFor how long it hears nothing before it gets a comment: proxies on the way
	// cut what is silent for a minute.
	eventTime = 5 * time.Second
	silentFor = 20 * time.Second
	// streamBegins bounds the wait for onboarding to begin a stream.
	streamBegins = 10 * time.Second
)

// eventStreams are the readers of /v1/events:stream at this process. They have a connection to onboarding of their own, so that they take
// no place of a callback; onboarding bounds how many there are.
type eventStreams struct {
	conn     *grpc.ClientConn
	rule     rpc.Rule
	draining chan struct{} // closed when the process stops

	mu      sync.Mutex
	running sync.WaitGroup
}

// newEventStreams dials the connection, which connects when the first reader comes.
func newEventStreams(client rpc.ClientConfig) (*eventStreams, error) {
	rules, err := rulesOf([]string{onboardingv1.EventService_ServiceDesc.ServiceName})
	client.Services = nil // a reader comes again
	conn, dialErr := rpc.Dial(client)
	if err := errors.Join(err, dialErr); err != nil {
		return nil, fmt.Errorf("onboarding's events: %w", err)
	}
	return &eventStreams{conn: conn, rule: rules[onboardingv1.EventService_StreamEvents_FullMethodName], draining: make(chan struct{})}, nil
}

// begin counts a reader, unless the process stops.
func (s *eventStreams) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.draining:
		return false
	default:
		s.running.Add(1)
		return true
	}
}

// drain ends every stream after the event that it is at, and waits for that. Readers come again with Last-Event-ID.
func (s *eventStreams) drain(ctx context.Context) error {
	s.mu.Lock()
	select {
	case <-s.draining:
	default:
		close(s.draining)
	}
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.running.Wait()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("readers of events: %w", ctx.Err())
	}
}

func (s *eventStreams) close() error { return s.conn.Close() }

// serve answers with server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) until the reader goes away, its
// token ends or the process stops.
func (s *eventStreams) serve(w http.ResponseWriter, r *http.Request) {
	eventFrom(r.Context()).at(r, pathEvents)
	life, _ := r.Context().Value(tokenLifeKey{}).(time.Duration)
	ctx, cancel := context.WithTimeout(r.Context(), life)
	defer cancel()
	in, err := readStream(r)
	principal, _ := rpc.PrincipalFrom(ctx)
	if err == nil {
		err = permit(s.rule, principal, in)
	}
	if err == nil && !s.begin() {
		err = refuse(codes.Unavailable, reasonUnavailable, "the gateway is stopping; connect again")
	}
	if err != nil {
		answerEvents(ctx, w, err)
		return
	}
	defer s.running.Done()
	received, err := s.receive(ctx, in)
	if err != nil {
		answerEvents(ctx, w, err)
		return
	}
	sent := s.pass(ctx, w, received)
	eventFrom(ctx).add(slog.Int("events", sent))
	cancel()
	for range received { // until the receiver has ended
	}
}

// receive begins to receive events. The channel is closed when the context ends, or onboarding ends the stream.
func (s *eventStreams) receive(ctx context.Context, in *onboardingv1.StreamEventsRequest) (<-chan *onboardingv1.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(streamBegins, cancel)
	stream, err := onboardingv1.NewEventServiceClient(s.conn).StreamEvents(metadata.NewOutgoingContext(ctx, metadata.MD{}), in)
	if err == nil {
		_, err = stream.Recv() // the first answer says that it has begun
	}
	if late.Stop(); err != nil {
		cancel()
		return nil, err
	}
	received := make(chan *onboardingv1.Event)
	go func() {
		defer cancel()
		defer close(received)
		for {
			next, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case received <- next.GetEvent():
			case <-ctx.Done():
				return
			}
		}
	}()
	return received, nil
}

// follow is what happens from now on, for a page of the console, until the context ends or the process stops. A user may not read events:
// for them it has none, and ends alike.
func (s *eventStreams) follow(ctx context.Context) (<-chan *onboardingv1.Event, error) {
	in := &onboardingv1.StreamEventsRequest{}
	principal, _ := rpc.PrincipalFrom(ctx)
	silent := principal.Role == rpc.RoleUser
	if err := permit(s.rule, principal, in); err != nil && !silent {
		return nil, err
	}
	if !s.begin() {
		return nil, refuse(codes.Unavailable, reasonUnavailable, "the gateway is stopping; connect again")
	}
	if silent {
		return s.ending(ctx), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	received, err := s.receive(ctx, in)
	if err != nil {
		cancel()
		s.running.Done()
		return nil, err
	}
	passed := make(chan *onboardingv1.Event)
	go func() {
		defer s.running.Done()
		defer close(passed)
		defer func() {
			cancel()
			for range received { // until the receiver has ended
			}
		}()
		for {
			select {
			case e, more := <-received:
				if !more {
					return
				}
				select {
				case passed <- e:
				case <-s.draining:
					return
				case <-ctx.Done():
					return
				}
			case <-s.draining:
				return
			}
		}
	}()
	return passed, nil
}

// ending has no events. It is closed when the context ends or the process stops.
func (s *eventStreams) ending(ctx context.Context) <-chan *onboardingv1.Event {
	none := make(chan *onboardingv1.Event)
	go func() {
		defer s.running.Done()
		defer close(none)
		select {
		case <-s.draining:
		case <-ctx.Done():
		}
	}()
	return none
}

// pass writes events as they come, and reports how many.
func (s *eventStreams) pass(ctx context.Context, w http.ResponseWriter, received <-chan *onboardingv1.Event) (sent int) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would keep the events to itself
	control := http.NewResponseController(w)
	write := func(text string) bool {
		if control.SetWriteDeadline(time.Now().Add(eventTime)) != nil { //nolint:forbidigo // the deadline of a connection is the machine's
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	w.WriteHeader(http.StatusOK)
	silent := time.NewTicker(silentFor)
	defer silent.Stop()
	for ok := write(": events\n\n"); ok; {
		select {
		case e, more := <-received:
			if !more {
				return sent
			}
			silent.Reset(silentFor)
			if ok = write(frameOf(e)); ok {
				sent++
			}
		case <-silent.C:
			ok = write(": nothing new\n\n")
		case <-s.draining:
			return sent
		case <-ctx.Done():
			return sent
		}
	}
	return sent
}

// frameOf is an event as a frame of server-sent events: its id is the seq.
func frameOf(e *onboardingv1.Event) string {
	body, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(e)
	if err != nil { // a struct of valid UTF-8 has been read from JSON
		return ": unreadable\n\n"
	}
	return "id: " + strconv.FormatInt(e.GetSeq(), 10) + "\nevent: " + e.GetType() + "\ndata: " + string(body) + "\n\n"
}

// readStream reads the query, and where a reader that comes again was.
func readStream(r *http.Request) (*onboardingv1.StreamEventsRequest, error) {
	in := &onboardingv1.StreamEventsRequest{}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return in, refuse(codes.InvalidArgument, reasonInvalid, "the query cannot be read")
	}
	after := r.Header.Get("Last-Event-ID")
	for name, values := range query {
		switch {
		case name == "types":
			in.Types = strings.Split(strings.Join(values, ","), ",")
		case name == "after" && len(values) == 1:
			if after == "" {
				after = values[0]
			}
		default:
			return in, refuse(codes.InvalidArgument, reasonInvalid, "the query may have after, once, and types")
		}
	}
	if after == "" {
		return in, nil
	}
	seq, err := strconv.ParseInt(after, 10, 64)
	if err != nil || seq < 0 {
		return in, refuse(codes.InvalidArgument, reasonInvalid, "after, or Last-Event-ID, must be 0 or a seq")
	}
	in.After = &seq
	return in, nil
}

// answerEvents answers a request that became no stream.
func answerEvents(ctx context.Context, w http.ResponseWriter, err error) {
	eventFrom(ctx).cause(err)
	answer := public(err)
	writeError(ctx, w, runtime.HTTPStatusFromCode(answer.Code), answer)
}
