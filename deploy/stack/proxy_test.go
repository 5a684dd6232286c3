package stack_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// moment is when a call loses its connection.
type moment int

const (
	never  moment = iota
	before        // the call is never made
	during        // the call arrives, and its caller is gone
	after         // the call is made, and its answer is lost
)

// breaker counts the calls that cross a boundary and says which one of them is cut.
type breaker struct {
	mu    sync.Mutex
	calls int
	at    int
	when  moment
}

// arm begins to count anew. The call with this number, from 0 on, will be cut.
func (b *breaker) arm(at int, when moment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.at, b.when = 0, at, when
}

// seen is how many calls crossed since arm.
func (b *breaker) seen() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// cross counts one call and says what happens to it.
func (b *breaker) cross() moment {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.calls
	b.calls++
	if n == b.at {
		return b.when
	}
	return never
}

// destination is an address that is known only once the stack runs. Calls wait for it.
type destination struct {
	known chan struct{}
	addr  string
}

func newDestination() *destination { return &destination{known: make(chan struct{})} }

func (d *destination) is(addr string) {
	d.addr = addr
	close(d.known)
}

func (d *destination) wait() string {
	<-d.known
	return d.addr
}

// detour is an HTTP origin on the way to another one, which can lose calls.
type detour struct {
	breaker
	*destination

	url string
}

// newDetour serves until the test ends. instead may answer a request in the other's place and be nil.
func newDetour(t *testing.T, instead func(http.ResponseWriter, *http.Request) bool) *detour {
	t.Helper()
	d := &detour{destination: newDestination()}
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Transport:    transport,
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: d.wait()}) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch d.cross() {
		case never:
			if instead == nil || !instead(w, r) {
				forward.ServeHTTP(w, r)
			}
			return
		case after:
			forward.ServeHTTP(httptest.NewRecorder(), r)
		case before, during: // an HTTP server hears of a lost caller or not, as it happens: `after` covers both
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	d.url = server.URL
	return d
}

// wire is a TCP address on the way to a gRPC server. It reads the frames of HTTP/2 that go by, to know one call from the
// next, and cuts the whole connection at one of them.
type wire struct {
	breaker
	*destination

	addr string
	done sync.WaitGroup
}

func newWire(t *testing.T) *wire {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{destination: newDestination(), addr: listener.Addr().String()}
	w.done.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.done.Go(func() { w.carry(client) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		w.done.Wait()
	})
	return w
}

// carry is one connection, from its beginning to its end or its cut.
func (w *wire) carry(client net.Conn) {
	server, err := new(net.Dialer).Dial("tcp", w.wait())
	if err != nil {
		_ = client.Close()
		return
	}
	c := &carried{client: client, server: server, doomed: -1}
	w.done.Go(func() {
		defer c.cut()
		c.answers()
	})
	defer c.cut()
	c.calls(&w.breaker)
}

// carried is a connection on the wire.
type carried struct {
	client, server net.Conn

	mu     sync.Mutex
	doomed int64 // the stream whose answer is lost, -1 for none
}

// cut ends both sides; what is under way is lost.
func (c *carried) cut() {
	_ = c.client.Close()
	_ = c.server.Close()
}

const (
	preface   = 24 // bytes that a client begins with
	header    = 9  // bytes of a frame's header: length, type, flags, stream
	headers   = 1  // the type of frame that begins a call, and its answer
	endStream = 1  // the flag that ends a side of a call
)

// calls carries what the client sends.
func (c *carried) calls(b *breaker) {
	if _, err := io.CopyN(c.server, c.client, preface); err != nil {
		return
	}
	cutAfter := int64(-1)
	for {
		frame, kind, flags, stream, err := next(c.client)
		if err != nil {
			return
		}
		if kind == headers {
			switch b.cross() {
			case never:
			case before:
				return
			case during:
				cutAfter = stream
			case after:
				c.mu.Lock()
				c.doomed = stream
				c.mu.Unlock()
			}
		}
		if _, err := c.server.Write(frame); err != nil || stream == cutAfter && flags&endStream != 0 {
			return
		}
	}
}

// answers carries what the server sends.
func (c *carried) answers() {
	for {
		frame, kind, _, stream, err := next(c.server)
		if err != nil {
			return
		}
		c.mu.Lock()
		lost := kind == headers && stream == c.doomed
		c.mu.Unlock()
		if lost {
			return
		}
		if _, err := c.client.Write(frame); err != nil {
			return
		}
	}
}

// next reads one frame.
func next(from io.Reader) (frame []byte, kind, flags byte, stream int64, err error) {
	frame = make([]byte, header)
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, 0, 0, 0, err
	}
	length := int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2])
	if length > 1<<20 {
		return nil, 0, 0, 0, errors.New("not HTTP/2")
	}
	frame = append(frame, make([]byte, length)...)
	if _, err := io.ReadFull(from, frame[header:]); err != nil {
		return nil, 0, 0, 0, err
	}
	return frame, frame[3], frame[4], int64(binary.BigEndian.Uint32(frame[5:header]) & (1<<31 - 1)), nil
}
