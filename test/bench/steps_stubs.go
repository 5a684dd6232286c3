package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
)

// stubs take the place of QStash and Twilio. The emulators remember every message, make timers and call back, which is work on the
// machine that is measured; these only answer.
type stubs struct {
	qstash, twilio string        // their origins
	takes          time.Duration // of Twilio
	taken          atomic.Int64
	published      atomic.Int64
	servers        []*http.Server
	served         chan error
	clock          *alarmClock // nil takes alarms and delivers none
}

func startStubs(ctx context.Context, takes time.Duration) (*stubs, error) {
	s := &stubs{takes: takes, served: make(chan error, 2)}
	for _, stub := range []struct {
		origin *string
		handle http.HandlerFunc
	}{{&s.qstash, s.publish}, {&s.twilio, s.take}} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		*stub.origin = "http://" + listener.Addr().String()
		server := &http.Server{Handler: stub.handle, ReadHeaderTimeout: time.Minute}
		s.servers = append(s.servers, server)
		go func() { s.served <- server.Serve(listener) }()
	}
	return s, nil
}

func (s *stubs) reset() {
	s.taken.Store(0)
	s.published.Store(0)
}

// publish takes an alarm.
func (s *stubs) publish(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16)) // the connection is used again
	if s.clock != nil {
		s.clock.published(r, body)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"messageId":"msg_%d"}`, s.published.Add(1)) // a client that has gone tries again
}

// take accepts a message. Any other request is answered with 404.
func (s *stubs) take(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16)) // the connection is used again
	if s.clock != nil && r.Method == http.MethodPost {
		s.clock.taken(phoneOf(body))
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if !process.RestOnMachineClock(r.Context(), s.takes, nil) {
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"sid":"SM%032x","status":"queued","from":%q,"num_segments":"1"}`, s.taken.Add(1), stack.FromNumber)
}

func (s *stubs) close() error {
	var problems []error
	for _, server := range s.servers {
		problems = append(problems, server.Close())
		if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
