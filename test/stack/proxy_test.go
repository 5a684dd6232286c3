package stack_test

import (
	"bytes"
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

// moment is the point at which a call loses its connection.
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

// seen returns how many calls crossed since arm.
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

// detour is an HTTP origin on the way to another one, which can lose calls.
type detour struct {
	breaker

	url string
}

// newDetour serves until the test ends.
func newDetour(t *testing.T, origin string) *detour {
	t.Helper()
	target, err := url.Parse(origin)
	require.NoError(t, err)
	d := &detour{}
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Transport:    transport,
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch d.cross() {
		case never:
			forward.ServeHTTP(w, r)
			return
		case after:
			forward.ServeHTTP(httptest.NewRecorder(), r)
		case before, during: // over HTTP/1 a server may or may not hear that its caller is gone; `after` is where it does not
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

// wire is a TCP address on the way to another one. It reads enough of what goes by to know one call from the next, and cuts
// the whole connection at one of them.
type wire struct {
	breaker

	addr          string
	network, dial string
	speak         func(c *carried, lost *breaker) // carries what the client says
	answer        func(c *carried)                // and the server
	connections   sync.WaitGroup
}

// newWire listens until the services of b have stopped.
func newWire(t *testing.T, b *bundle, w *wire) *wire {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.addr = listener.Addr().String()
	w.connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.carry(client)
		}
	})
	t.Cleanup(func() {
		b.stop(t)
		require.NoError(t, listener.Close())
		w.connections.Wait()
	})
	return w
}

// carry is one connection, from its beginning to its end or its cut.
func (w *wire) carry(client net.Conn) {
	server, err := new(net.Dialer).Dial(w.network, w.dial)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &carried{client: client, server: server}
	w.connections.Go(func() {
		defer c.cut()
		w.speak(c, &w.breaker)
	})
	w.connections.Go(func() {
		defer c.cut()
		w.answer(c)
	})
}

// carried is a connection on the wire.
type carried struct {
	client, server net.Conn

	mu     sync.Mutex
	doomed uint32 // the call that loses its answer, 0 for none
}

// cut ends both sides; what is under way is lost.
func (c *carried) cut() {
	_ = c.client.Close()
	_ = c.server.Close()
}

func (c *carried) doom(call uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doomed = call
}

func (c *carried) lost(call uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doomed == call
}

// grpcWire leads to a gRPC server: a call is a stream of HTTP/2.
func grpcWire(t *testing.T, b *bundle, addr string) *wire {
	t.Helper()
	return newWire(t, b, &wire{network: "tcp", dial: addr, speak: speakHTTP2, answer: answerHTTP2})
}

const (
	preface   = 24 // bytes that a client of HTTP/2 begins with
	headers   = 1  // the type of frame that begins a call, and its answer
	endStream = 1  // the flag that ends a side of a call
)

func speakHTTP2(c *carried, lost *breaker) {
	if _, err := io.CopyN(c.server, c.client, preface); err != nil {
		return
	}
	cutAfter := uint32(0)
	for {
		frame, err := readHTTP2(c.client)
		if err != nil {
			return
		}
		if frame.kind == headers {
			switch lost.cross() {
			case never:
			case before:
				return
			case during:
				cutAfter = frame.stream
			case after:
				c.doom(frame.stream)
			}
		}
		if _, err := c.server.Write(frame.bytes); err != nil || frame.stream == cutAfter && cutAfter != 0 && frame.flags&endStream != 0 {
			return
		}
	}
}

func answerHTTP2(c *carried) {
	for {
		frame, err := readHTTP2(c.server)
		if err != nil {
			return
		}
		if frame.kind == headers && c.lost(frame.stream) {
			return
		}
		if _, err := c.client.Write(frame.bytes); err != nil {
			return
		}
	}
}

// frame is one of HTTP/2, whole.
type frame struct {
	bytes       []byte
	kind, flags byte
	stream      uint32
}

// longest bounds what is taken for a frame or a message.
const longest = 1 << 20

func readHTTP2(from io.Reader) (frame, error) {
	const header = 9 // length, type, flags, stream
	f := frame{bytes: make([]byte, header)}
	if _, err := io.ReadFull(from, f.bytes); err != nil {
		return frame{}, err
	}
	length := int(f.bytes[0])<<16 | int(f.bytes[1])<<8 | int(f.bytes[2])
	if length > longest {
		return frame{}, errors.New("this is not HTTP/2")
	}
	f.kind, f.flags, f.stream = f.bytes[3], f.bytes[4], binary.BigEndian.Uint32(f.bytes[5:])&(1<<31-1)
	f.bytes = append(f.bytes, make([]byte, length)...)
	_, err := io.ReadFull(from, f.bytes[header:])
	return f, err
}

// sqlWire leads to Postgres: one call covers all that one Sync, or one simple query, asks for.
func sqlWire(t *testing.T, b *bundle, network, addr string) *wire {
	t.Helper()
	return newWire(t, b, &wire{network: network, dial: addr, speak: speakSQL, answer: answerSQL})
}

// wholeConnection is the call of a connection that speaks one at a time.
const wholeConnection = 1

// sslRequest asks whether the server speaks TLS. The services greet a server with it to learn whether it answers.
var sslRequest = []byte{0, 0, 0, 8, 4, 210, 22, 47}

func speakSQL(c *carried, lost *breaker) {
	message, err := readSQL(c.client, 0) // the first message has no type
	if err == nil && bytes.Equal(message, sslRequest) {
		if _, err = c.client.Write([]byte{'N'}); err == nil { // one byte, and no message: answerSQL could not carry it
			message, err = readSQL(c.client, 0)
		}
	}
	for err == nil {
		if message[0] == 'S' || message[0] == 'Q' {
			switch lost.cross() {
			case never:
			case before:
				return
			case during:
				_, _ = c.server.Write(message)
				return
			case after:
				c.doom(wholeConnection)
			}
		}
		if _, err = c.server.Write(message); err == nil {
			message, err = readSQL(c.client, 1)
		}
	}
}

func answerSQL(c *carried) {
	for {
		message, err := readSQL(c.server, 1)
		if err != nil {
			return
		}
		if message[0] == 'Z' && c.lost(wholeConnection) {
			return
		}
		if _, err := c.client.Write(message); err != nil {
			return
		}
	}
}

// readSQL reads one message: a type, if there is one, and a length that counts itself.
func readSQL(from io.Reader, kind int) ([]byte, error) {
	start := make([]byte, kind+4)
	if _, err := io.ReadFull(from, start); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(start[kind:])
	if length < 4 || length > longest {
		return nil, errors.New("this is not Postgres")
	}
	message := make([]byte, kind+int(length))
	copy(message, start)
	_, err := io.ReadFull(from, message[kind+4:])
	return message, err
}
