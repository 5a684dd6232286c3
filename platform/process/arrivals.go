package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// arrivals counts the connections that have yet to bring their first request. http.Server.Shutdown alone drops such a request: it resets a
// connection that waits to be accepted, and closes one before its header is read.
type arrivals struct {
	backlog *backlog // nil where the listener has none

	mu    sync.Mutex
	fresh map[net.Conn]struct{}
	gone  chan struct{} // while stopping: closed once none is fresh
}

type arrivalKey struct{}

// watch follows the connections of a server. It returns the listener to serve.
func (a *arrivals) watch(server *http.Server, listener net.Listener) net.Listener {
	a.fresh = map[net.Conn]struct{}{}
	changed, opened, handler := server.ConnState, server.ConnContext, server.Handler
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if opened != nil {
			ctx = opened(ctx, conn)
		}
		return context.WithValue(ctx, arrivalKey{}, conn)
	}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if changed != nil {
			changed(conn, state)
		}
		switch state {
		case http.StateNew:
			a.came(conn)
		case http.StateClosed:
			a.left(conn)
		case http.StateActive, http.StateIdle, http.StateHijacked: // left when its handler began
		}
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(arrivalKey{}).(net.Conn); ok {
			a.left(conn)
		}
		handler.ServeHTTP(w, r)
	})
	if of, ok := listener.(socket); ok {
		a.backlog = &backlog{socket: of, empty: make(chan struct{}), closed: make(chan struct{})}
		return a.backlog
	}
	return listener
}

func (a *arrivals) came(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fresh[conn] = struct{}{}
}

func (a *arrivals) left(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.fresh, conn)
	if a.gone != nil && len(a.fresh) == 0 {
		close(a.gone)
		a.gone = nil
	}
}

// settle stops accepting, and waits until each client has begun its first request or has gone. It waits at most a second, because some
// clients connect early and send later.
func (a *arrivals) settle(ctx context.Context) error {
	if a.backlog != nil {
		if err := a.backlog.exhaust(ctx); err != nil {
			return err
		}
	}
	gone := make(chan struct{})
	a.mu.Lock()
	if len(a.fresh) == 0 {
		close(gone)
	} else {
		a.gone = gone
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	return nil
}

// backlog wraps a TCP listener and can empty its queue. The kernel connects clients before Accept takes them, and they may have sent their
// request by then. Close alone resets those that wait.
type backlog struct {
	socket
	empty  chan struct{} // closed when the server has accepted all that waited
	closed chan struct{}
	once   sync.Once
}

type socket interface {
	net.Listener
	syscall.Conn
	SetDeadline(t time.Time) error
}

// Accept implements net.Listener for one goroutine: http.Server knows of a connection when it asks for the next one.
func (b *backlog) Accept() (net.Conn, error) {
	conn, err := b.socket.Accept()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return conn, err
	}
	conn, err = b.waiting()
	if conn != nil || err != nil {
		return conn, err
	}
	close(b.empty)
	<-b.closed // an error before that would end Serve as a failure
	return nil, net.ErrClosed
}

// waiting accepts a connection without waiting for one. It returns nil where none is there.
func (b *backlog) waiting() (net.Conn, error) {
	raw, err := b.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var acceptErr error
	if err := raw.Control(func(listener uintptr) {
		for {
			fd, _, acceptErr = syscall.Accept(int(listener))
			if acceptErr != syscall.EINTR && acceptErr != syscall.ECONNABORTED { // the client has gone
				return
			}
		}
	}); err != nil {
		return nil, err
	}
	if acceptErr == syscall.EAGAIN {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if acceptErr != nil {
		return nil, fmt.Errorf("accept what waits: %w", acceptErr)
	}
	file := os.NewFile(uintptr(fd), "")
	defer func() { _ = file.Close() }() // FileConn has its own
	return net.FileConn(file)
}

// exhaust lets the server accept the connections that wait, and then no more.
func (b *backlog) exhaust(ctx context.Context) error {
	if err := b.SetDeadline(time.Unix(1, 0)); err != nil {
		return fmt.Errorf("stop accepting: %w", err)
	}
	select {
	case <-b.empty:
		return nil
	case <-b.closed: // the server failed
		return nil
	case <-ctx.Done():
		return fmt.Errorf("connections that waited were cut off: %w", ctx.Err())
	}
}

func (b *backlog) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.socket.Close()
}
