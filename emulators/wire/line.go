package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// dialBound limits the time that a server has for a connection; they are all on this machine.
	dialBound = 5 * time.Second
	// letGo bounds the time that a server has to close its side of a connection that was cut.
	letGo = 5 * time.Second
)

// line is one connection.
type line struct {
	caller, server net.Conn // no server, where it refused
	harmless       func(said []byte) bool
	done           chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	silent  Manner
	next    Manner // with the first thing that its caller says and that is not harmless
	held    int    // chunks, and ends, that are held back
	severed bool
}

// carry copies until both sides have ended, or the line was cut.
func (l *line) carry() {
	var both sync.WaitGroup
	both.Go(func() { l.copy(TowardsServer, l.caller, l.server) })
	both.Go(func() { l.copy(TowardsCaller, l.server, l.caller) })
	both.Wait()
}

func (l *line) end() {
	_ = l.caller.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// copy carries what one side says. A side that cannot be written to any more says so itself, on its way back.
func (l *line) copy(way Manner, from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if way == TowardsServer && n > 0 {
			l.said(buffer[:n])
		}
		for rest := buffer[:n]; len(rest) > 0; {
			now, what := l.admit(way, len(rest))
			if what == severed {
				_, _ = io.Copy(io.Discard, from) // until it closes: cut has closed its other side
				return
			}
			if what == delivered {
				if _, err := to.Write(rest[:now]); err != nil {
					return
				}
			}
			rest = rest[now:]
		}
		if err != nil {
			l.pass(way, to, err)
			return
		}
	}
}

// pass carries the end of what one side says.
func (l *line) pass(way Manner, to net.Conn, end error) {
	switch _, what := l.admit(way, 0); {
	case what == lost && way == TowardsServer:
		l.end()
	case what != delivered:
	case errors.Is(end, syscall.ECONNRESET):
		l.reset()
	default:
		closeWrite(to)
	}
}

// fate is the outcome of sending bytes.
type fate int

const (
	delivered fate = iota
	lost           // and neither side sees an error
	severed        // with the connection
)

// admit returns how many of the next n bytes of one way may go by, once some may, or are lost; 0 bytes are the end of that way.
func (l *line) admit(way Manner, n int) (now int, what fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == MidMessage && n > 0 {
		l.silent = BothWays
		if n > 1 {
			return n / 2, delivered
		}
	}
	waited := false
	l.held++
	for ; l.silent == BothWays || l.silent == way; waited = true {
		l.changed.Wait()
	}
	l.held--
	switch {
	case l.severed:
		return n, severed
	case l.silent == Dead:
		return n, lost
	case waited && isReset(l.from(way)):
		l.severed = true
		l.reset()
		return n, severed
	default:
		return n, delivered
	}
}

// from returns who speaks in one way.
func (l *line) from(way Manner) net.Conn {
	if way == TowardsServer {
		return l.caller
	}
	return l.server
}

// isReset reports whether a side has reset its connection: it has discarded what it sent and was not delivered. One that was only closed
// has not, and its kernel would go on repeating it.
func isReset(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	problem := 0
	err = raw.Control(func(fd uintptr) { problem, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR) })
	return err == nil && syscall.Errno(problem) == syscall.ECONNRESET
}

// reset passes a reset on.
func (l *line) reset() {
	for _, side := range []net.Conn{l.caller, l.server} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	l.end()
}

func (l *line) fall(m Manner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.silent == Dead:
	case l.harmless != nil && m != Speaks && m != Dead:
		l.next = m
	default:
		l.silent, l.next = m, Speaks
		l.changed.Broadcast()
	}
}

// said begins the silence of a connection that was waiting for this.
func (l *line) said(what []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != Speaks && !l.harmless(what) {
		l.silent, l.next = l.next, Speaks
	}
}

// cut has the caller see the end at once. The server sees it, too, so that it has closed the connection when the line is done.
func (l *line) cut() {
	l.mu.Lock()
	l.severed, l.silent = true, Speaks
	l.changed.Broadcast()
	l.mu.Unlock()
	_ = l.caller.Close()
	if l.server != nil {
		closeWrite(l.server)
	}
}

// closeWrite ends one way of the connection. TCP and Unix sockets can.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be gone already
	}
}

func (l *line) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent != Speaks
}

func (l *line) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held > 0
}
