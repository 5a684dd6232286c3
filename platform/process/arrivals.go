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

// arrivals are the connections of clients that have yet to bring their first request. http.Server.Shutdown alone drops a request that
// comes with a connection of these, although its client was let in: the connection waits to be accepted, or its header is not read yet.
type arrivals struct {
	backlog *backlog // nil where the listener has none

	mu    sync.Mutex
	fresh map[net.Conn]struct{}
	gone  chan struct{} // while stopping: closed once none is fresh
}

type arrivalKey struct{}

// watch has a server tell of its connections. It returns the listener to serve.
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
		case http.StateActive, http.StateIdle, http.StateHijacked: // the handler has told of its request, or will
		}
	}
	if handler == nil {
		handler = http.DefaultServeMux
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

// settle lets nobody in any more, and waits until every client has begun its first request or has gone: at most a second, because one may
// have connected to have a connection at hand.
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

// backlog is a TCP listener that can be emptied. A client is connected once the kernel has its connection in the listener's queue, and may
// have sent its request. Closing a listener resets all that wait there.
type backlog struct {
	socket
	empty  chan struct{} // closed once nothing waits any more, and the server has all that waited
	closed chan struct{}
	once   sync.Once
}

type socket interface {
	net.Listener
	syscall.Conn
	SetDeadline(t time.Time) error
}

// Accept is called by one goroutine.
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
	<-b.closed // http.Server.Serve ends as it should only when its server closes the listener
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

// exhaust has the server accept what waits, and returns once it has. The listener accepts nothing afterwards.
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
