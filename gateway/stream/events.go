package stream

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// PathEvents streams events.
	PathEvents = "/v1/events:stream"
	// SilentFor is the longest silence before a reader gets a comment: proxies on the way cut a connection that is silent for a minute.
	SilentFor = 20 * time.Second

	// eventTimeout bounds the time in which a reader has to take one event.
	eventTimeout = 5 * time.Second
	// beginTimeout bounds the wait for onboarding to begin a stream.
	beginTimeout = 10 * time.Second
)

// Events serves the readers of /v1/events:stream at this process. They have their own connection to onboarding, so that they take
// no room of a callback; onboarding bounds how many there are.
type Events struct {
	*gate

	conn   *grpc.ClientConn
	permit func(ctx context.Context, in *onboardingv1.StreamEventsRequest) error // reports whether the caller may read events
}

// NewEvents dials the connection, which connects when the first reader comes.
func NewEvents(client rpc.ClientConfig, permit func(context.Context, *onboardingv1.StreamEventsRequest) error) (*Events, error) {
	client.Services = nil // a reader comes again
	conn, err := rpc.Dial(client)
	if err != nil {
		return nil, fmt.Errorf("onboarding's events: %w", err)
	}
	return &Events{gate: newGate(), conn: conn, permit: permit}, nil
}

// Drain ends every stream after the event that it is at, and waits for that. Readers come again with Last-Event-ID.
func (s *Events) Drain(ctx context.Context) error {
	if err := s.drain(ctx); err != nil {
		return fmt.Errorf("readers of events: %w", err)
	}
	return nil
}

// Close ends the connection.
func (s *Events) Close() error { return s.conn.Close() }

// Serve answers with server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) until the reader goes away, the
// request's context ends or the process stops.
func (s *Events) Serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	in, err := readStream(r)
	if err == nil {
		err = s.permit(ctx, in)
	}
	var received <-chan *onboardingv1.Event
	if err == nil {
		received, err = s.receive(ctx, in)
	}
	if err != nil {
		route.EventFrom(ctx).Cause(err)
		refused := route.Public(err)
		route.WriteError(ctx, w, runtime.HTTPStatusFromCode(refused.Code), refused)
		return
	}
	sent := pass(ctx, w, received)
	route.EventFrom(ctx).Add(slog.Int("events", sent))
	cancel()
	for range received { // until the receiver has ended
	}
}

// receive begins to receive events. The channel is closed when the context ends, the process stops, or onboarding ends the stream.
func (s *Events) receive(ctx context.Context, in *onboardingv1.StreamEventsRequest) (<-chan *onboardingv1.Event, error) {
	if stopping := s.enter(); stopping != nil {
		return nil, stopping
	}
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.stopping, cancel)
	late := time.AfterFunc(beginTimeout, cancel)
	stream, err := onboardingv1.NewEventServiceClient(s.conn).StreamEvents(metadata.NewOutgoingContext(ctx, metadata.MD{}), in)
	if err == nil {
		_, err = stream.Recv() // the first answer says that it has begun
	}
	if late.Stop(); err != nil {
		unlink()
		cancel()
		s.running.Done()
		return nil, err
	}
	received := make(chan *onboardingv1.Event)
	go func() {
		defer s.running.Done()
		defer cancel()
		defer unlink()
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

// Follow returns the events from now on, for a page of the console, until the context ends or the process stops. A user may not read
// events: for them the channel has none, and ends alike.
func (s *Events) Follow(ctx context.Context) (<-chan *onboardingv1.Event, error) {
	in := &onboardingv1.StreamEventsRequest{}
	if principal, _ := rpc.PrincipalFrom(ctx); principal.Role != rpc.RoleUser {
		if err := s.permit(ctx, in); err != nil {
			return nil, err
		}
		return s.receive(ctx, in)
	}
	if stopping := s.enter(); stopping != nil {
		return nil, stopping
	}
	none := make(chan *onboardingv1.Event)
	go func() {
		defer s.running.Done()
		defer close(none)
		select {
		case <-s.stopping.Done():
		case <-ctx.Done():
		}
	}()
	return none, nil
}

// pass writes events as they come, and returns how many.
func pass(ctx context.Context, w http.ResponseWriter, received <-chan *onboardingv1.Event) (sent int) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would keep the events to itself
	control := http.NewResponseController(w)
	write := func(text string) bool {
		if control.SetWriteDeadline(time.Now().Add(eventTimeout)) != nil { //nolint:forbidigo // the deadline of a connection is the machine's
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	w.WriteHeader(http.StatusOK)
	silent := time.NewTicker(SilentFor)
	defer silent.Stop()
	for ok := write(": events\n\n"); ok; {
		select {
		case e, more := <-received:
			if !more {
				return sent
			}
			silent.Reset(SilentFor)
			if ok = write(frameOf(e)); ok {
				sent++
			}
		case <-silent.C:
			ok = write(": nothing new\n\n")
		case <-ctx.Done():
			return sent
		}
	}
	return sent
}

// frameOf formats an event as a frame of server-sent events: its id is the seq.
func frameOf(e *onboardingv1.Event) string {
	body, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(e)
	if err != nil { // a struct of valid UTF-8 has been read from JSON
		return ": unreadable\n\n"
	}
	return "id: " + strconv.FormatInt(e.GetSeq(), 10) + "\nevent: " + e.GetType() + "\ndata: " + string(body) + "\n\n"
}

// readStream reads the query, and the last event of a reader that comes again.
func readStream(r *http.Request) (*onboardingv1.StreamEventsRequest, error) {
	in := &onboardingv1.StreamEventsRequest{}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return in, route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "the query cannot be read")
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
			return in, route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "the query may have after, once, and types")
		}
	}
	if after == "" {
		return in, nil
	}
	seq, err := strconv.ParseInt(after, 10, 64)
	if err != nil || seq < 0 {
		return in, route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "after, or Last-Event-ID, must be 0 or a seq")
	}
	in.After = &seq
	return in, nil
}
