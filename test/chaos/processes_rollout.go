package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"paceline.internal/deploy/stack"
)

// Rollout is the part of a report that a rollout adds.
type Rollout struct {
	Replicas int            `json:"replicas"`
	Replaced int            `json:"replaced"` // processes
	Requests int64          `json:"requests"` // to the gateways, by the vendors, people and operators
	Refused  map[string]int `json:"refused"`  // those without an answer, or with 500 or more, by what happened
}

type rollout struct{ replaced int }

// retireBound limits the time in which a process ends after SIGTERM.
const retireBound = 30 * time.Second

// roll replaces processes until the time is over: a new one starts, gets what comes from then on, and the old one is asked to end.
func (s *site) roll(ctx context.Context, duration time.Duration) error {
	until := s.now().Add(duration)
	order := []string{stack.Messaging, stack.Onboarding, stack.Gateway}
	for n := 0; s.now().Before(until); n++ {
		if !pause(ctx, min(s.cfg.RollEvery, until.Sub(s.now()))) {
			return nil
		}
		name, i := order[n/len(s.replicas)%len(order)], n%len(s.replicas)
		if err := s.replace(ctx, name, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) replace(ctx context.Context, name string, i int) error {
	process := replica(name, i, len(s.replicas))
	fresh := s.began(name, i, s.spare)
	bound, cancel := context.WithTimeout(ctx, upBound)
	defer cancel()
	if !s.ready(bound, fresh) {
		fresh.close()
		return fmt.Errorf("the new %s did not become ready", process)
	}
	old := s.services[process]
	for _, of := range []func(*stack.Addresses, string) *string{at, opsAt} {
		*of(&s.replicas[i], name), *of(&s.spare, name) = *of(&s.spare, name), *of(&s.replicas[i], name)
	}
	s.services[process] = fresh
	var err error
	switch {
	case name == stack.Gateway && s.nginx != nil:
		err = s.nginx.lead(ctx, s.listening(name))
	case name == stack.Gateway:
		s.front.lead(s.listening(name))
	default:
		s.balancers[name].Lead(s.listening(name)...)
	}
	err = errors.Join(err, old.retire(retireBound))
	old.close()
	s.rollout.replaced++
	s.log.InfoContext(ctx, "chaos.replaced", "process", process)
	return err
}

func (s *site) measureRollout(r *Report) {
	if s.cfg.RollEvery == 0 {
		return
	}
	r.Rollout = &Rollout{Replicas: len(s.replicas), Replaced: s.rollout.replaced, Requests: s.front.requests.Load(), Refused: s.front.counts()}
	for _, what := range slices.Sorted(maps.Keys(r.Rollout.Refused)) {
		r.breakf(nil, "%d requests were refused during the rollout: %s", r.Rollout.Refused[what], what)
	}
}

// front stands before the gateways as an ingress does: each request goes to the next of those that serve, over a new connection. It
// repeats nothing, so what a rollout breaks is seen. Where nginx stands there, all go to it.
type front struct {
	addr     string
	server   *http.Server
	requests atomic.Int64
	turn     atomic.Uint32

	serving sync.RWMutex // held while a connection is made
	to      []string

	mu      sync.Mutex
	refused map[string]int
}

func openFront(ctx context.Context, to []string, ending *tls.Config) (*front, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the front of the gateways: %w", err)
	}
	f := &front{addr: listener.Addr().String(), to: to, refused: map[string]int{}}
	scheme := "http"
	if ending != nil {
		scheme = "https"
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = scheme, f.addr, r.In.Host // f.dial takes another
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: f.dial, TLSClientConfig: ending}, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil { // else the caller went away
				f.refuse(err.Error())
			}
			w.WriteHeader(http.StatusBadGateway)
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode >= http.StatusInternalServerError {
				f.refuse(fmt.Sprintf("%s %s: %d", r.Request.Method, r.Request.URL.Path, r.StatusCode))
			}
			return nil
		},
	}
	f.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = f.server.Serve(listener) }() // until close
	return f, nil
}

func (f *front) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	f.serving.RLock()
	defer f.serving.RUnlock()
	return new(net.Dialer).DialContext(ctx, network, f.to[int(f.turn.Add(1))%len(f.to)])
}

// lead has requests go to these from now on. When it returns, no connection to another is being made.
func (f *front) lead(to []string) {
	f.serving.Lock()
	defer f.serving.Unlock()
	f.to = to
}

func (f *front) refuse(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused[what]++
}

func (f *front) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.refused)
}

func (f *front) close() error {
	if err := f.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("close the front of the gateways: %w", err)
	}
	return nil
}
