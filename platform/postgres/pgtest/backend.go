package pgtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// keptBackends bounds the idle connections of a lease by login.
	keptBackends = 4
	// resetTimeout bounds what the server takes to forget a client.
	resetTimeout = 5 * time.Second
	// startupVersion is the major version of the protocol in a start-up message; a request to cancel has another number in its place.
	startupVersion = 3
)

// ready ends an answer of the server outside of a transaction.
var ready = []byte{'Z', 0, 0, 0, 5, 'I'} //nolint:gochecknoglobals // a constant that the language cannot express

// backend is a connection to the server that serves one client after the other, because a new one costs as much as a test: the server
// forks and reads its catalogs again. To a client it looks like a new connection, from the start-up to the end.
type backend struct {
	net.Conn

	greeting []byte // the server's answer to the start-up message
}

// pid is the number of the server's process, which the greeting tells.
func (b *backend) pid() int32 {
	for m := b.greeting; len(m) >= 5; m = m[1+binary.BigEndian.Uint32(m[1:]):] {
		if m[0] == 'K' {
			return int32(binary.BigEndian.Uint32(m[5:])) //nolint:gosec // the server made it of one
		}
	}
	return 0
}

// reset has the server forget the client: its role, settings, channels, locks, statements and temporary tables.
func (b *backend) reset() error {
	if err := b.SetDeadline(time.Now().Add(resetTimeout)); err != nil { //nolint:forbidigo // the kernel compares it with its own clock
		return err
	}
	if _, err := b.Write([]byte("Q\x00\x00\x00\x10DISCARD ALL\x00")); err != nil {
		return err
	}
	var answer []byte
	for !bytes.HasSuffix(answer, ready) {
		part := make([]byte, 512)
		n, err := b.Read(part)
		if err != nil {
			return err
		}
		answer = append(answer, part[:n]...)
	}
	if answer[0] == 'E' {
		return errors.New("pgtest: the server refuses to forget a client")
	}
	return b.SetDeadline(time.Time{})
}

// client is a pool's end of a connection. Its first write tells what the connection is for, and then it gets a backend.
type client struct {
	*backend

	dial func() (net.Conn, error)
	take func() *backend // nil when there is none
	give func(*backend)

	mu       sync.Mutex
	chosen   sync.Cond // the backend is, or the client is closed
	greeting []byte    // what the client has not read of it
	greeted  bool
	tail     []byte // the last bytes that were read after the last write
	reading  int
	ended    bool
	closed   bool
}

// Read implements net.Conn.
func (c *client) Read(p []byte) (int, error) {
	c.mu.Lock()
	for c.Conn == nil && !c.closed { // pgx reads ahead when a write takes long
		c.chosen.Wait()
	}
	if len(c.greeting) > 0 {
		n := copy(p, c.greeting)
		c.greeting = c.greeting[n:]
		c.mu.Unlock()
		return n, nil
	}
	if c.ended || c.Conn == nil {
		c.mu.Unlock()
		return 0, io.EOF
	}
	c.reading++
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading--
	if !c.greeted {
		c.backend.greeting = append(c.backend.greeting, p[:n]...)
	}
	c.tail = append(c.tail, p[:n]...)
	c.tail = c.tail[max(0, len(c.tail)-len(ready)):]
	return n, err
}

// Write implements net.Conn.
func (c *client) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return 0, net.ErrClosed
	case c.Conn == nil:
		defer c.chosen.Broadcast()
		if b := c.reused(p); b != nil {
			c.backend, c.greeting, c.greeted, c.tail = b, b.greeting, true, ready
			return len(p), nil
		}
		conn, err := c.dial()
		if err != nil {
			return 0, err
		}
		c.Conn = conn
	case bytes.Equal(p, []byte{'X', 0, 0, 0, 4}) && c.reading == 0 && len(c.greeting) == 0 && bytes.Equal(c.tail, ready):
		c.ended = true
		return len(p), nil
	default:
		c.greeted = true
	}
	c.tail = nil
	return c.Conn.Write(p)
}

// reused returns a backend for a client that begins.
func (c *client) reused(p []byte) *backend {
	if len(p) < 8 || binary.BigEndian.Uint16(p[4:]) != startupVersion {
		return nil
	}
	return c.take()
}

// Close implements net.Conn.
func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed || c.Conn == nil: // there is nothing to close
	case c.ended && c.reading == 0 && bytes.HasSuffix(c.backend.greeting, ready) && c.backend.reset() == nil:
		c.give(c.backend)
	default:
		_ = c.Conn.Close() // it is of no use either way
	}
	c.closed, c.ended = true, true
	c.chosen.Broadcast()
	return nil
}

// SetDeadline implements net.Conn. It leaves a backend alone that may serve another client by now.
func (c *client) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.Conn == nil {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *client) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *client) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

// dialer returns how the pools of a login reach the database of the lease.
func (l *lease) dialer(login string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c := &client{
			backend: &backend{},
			dial:    func() (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, network, addr) },
			take: func() *backend {
				l.mu.Lock()
				defer l.mu.Unlock()
				n := len(l.idle[login])
				if n == 0 {
					return nil
				}
				b := l.idle[login][n-1]
				l.idle[login] = l.idle[login][:n-1]
				return b
			},
			give: func(b *backend) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if len(l.idle[login]) < keptBackends {
					l.idle[login] = append(l.idle[login], b)
				} else {
					_ = b.Close() // the server notices
				}
			},
		}
		c.chosen.L = &c.mu
		return c, nil
	}
}
