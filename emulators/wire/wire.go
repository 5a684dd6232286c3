// Package wire is a TCP proxy that can fall silent without ending a connection.
package wire

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Manner is the way in which a wire is silent.
type Manner string

const (
	// Speaks is the wire that is not silent.
	Speaks Manner = ""
	// BothWays lets nothing through.
	BothWays Manner = "both ways"
	// TowardsServer lets answers through: requests do not arrive.
	TowardsServer Manner = "towards the server"
	// TowardsCaller lets requests through: their answers do not arrive.
	TowardsCaller Manner = "towards the caller"
	// MidMessage lets half of the next chunk of each connection go by, whichever side it comes from, and is silent both ways then.
	MidMessage Manner = "in the middle of a message"
)

// Manners lists the manners that Freeze takes.
var Manners = []Manner{BothWays, TowardsServer, TowardsCaller, MidMessage}

// Dead is a connection on which nothing is delivered again. Only its caller can end it.
const Dead Manner = "for ever"

// Wire is a TCP address on the way to another one, which can fall silent. The connections of a silent wire stay open: nothing is
// delivered, an end or a reset neither, and what a side writes is acknowledged as long as buffers last. So do a host that lost its power, a
// firewall that forgot a connection, and a stalled disk behind a kernel that is well.
type Wire struct {
	Addr     string // where it listens
	network  string
	turn     atomic.Uint32 // of the next connection
	listener net.Listener
	work     sync.WaitGroup

	mu sync.Mutex
	to []string
	// harmless reports whether a connection may say this before a silence begins for it, such as a greeting; nil: nothing, it begins at once.
	harmless func(said []byte) bool
	silent   Manner // of connections that are made now
	lines    map[*line]struct{}
	closed   bool
}

// Open listens on the loopback until Close. Of several servers, replicas of each other, each connection goes to the next one that takes it.
func Open(ctx context.Context, network string, to ...string) (*Wire, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a wire: %w", err)
	}
	w := &Wire{Addr: listener.Addr().String(), network: network, to: to, listener: listener, lines: map[*line]struct{}{}}
	w.work.Go(func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.connect(caller) })
		}
	})
	return w, nil
}

// Passes has a silence begin for a connection only with what is not harmless; for those that are made from now on.
func (w *Wire) Passes(harmless func(said []byte) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.harmless = harmless
}

// Freeze makes the wire silent: the connections that stand, and unless onlyStanding those that are made from now on.
func (w *Wire) Freeze(m Manner, onlyStanding bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !onlyStanding {
		w.silent = m
	}
	for l := range w.lines {
		l.fall(m)
	}
}

// Thaw ends the silence: what was held back is delivered now.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = Speaks
	for l := range w.lines {
		l.fall(Speaks)
	}
}

// Cut ends the silence, and with it every connection that was silent. What was held back is lost.
func (w *Wire) Cut() { w.sever((*line).isSilent) }

// CutSome cuts up to n connections, whichever they are, and reports how many.
func (w *Wire) CutSome(n int) (cut int) {
	w.sever(func(*line) bool {
		if cut == n {
			return false
		}
		cut++
		return true
	})
	return cut
}

// CutHeld cuts the connections that hold something back; the others go on as if nothing had been.
func (w *Wire) CutHeld() { w.sever((*line).holds) }

// Abandon ends the silence but for the connections that hold something back: they are dead, and what was held back is lost.
func (w *Wire) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = Speaks
	for l := range w.lines {
		if l.holds() {
			l.fall(Dead)
		} else {
			l.fall(Speaks)
		}
	}
}

// sever returns when the servers have let go of what was cut.
func (w *Wire) sever(doomed func(*line) bool) {
	var cut []*line
	w.mu.Lock()
	w.silent = Speaks
	for l := range w.lines {
		if doomed(l) {
			cut = append(cut, l)
		}
	}
	w.mu.Unlock()
	for _, l := range cut {
		l.cut()
	}
	last := time.AfterFunc(letGo, func() {
		for _, l := range cut {
			l.end()
		}
	})
	defer last.Stop()
	for _, l := range cut {
		<-l.done
	}
	w.Thaw()
}

// Struck reports whether a connection holds something back.
func (w *Wire) Struck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lines {
		if l.holds() {
			return true
		}
	}
	return false
}

// Close ends the wire and every connection on it.
func (w *Wire) Close() error {
	err := w.listener.Close()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.sever(func(*line) bool { return true })
	w.work.Wait()
	return err
}

// connect is one connection, from its beginning to its end. A silent wire does not pass on that a server refuses it.
func (w *Wire) connect(caller net.Conn) {
	server, err := w.dial()
	l := &line{caller: caller, server: server, done: make(chan struct{})}
	l.changed.L = &l.mu
	defer l.end()
	w.mu.Lock()
	l.harmless = w.harmless
	if w.closed {
		w.mu.Unlock()
		return
	}
	l.fall(w.silent)
	w.lines[l] = struct{}{}
	w.mu.Unlock()
	if err == nil {
		l.carry()
	} else {
		l.admit(TowardsCaller, 0)
	}
	w.mu.Lock()
	delete(w.lines, l)
	w.mu.Unlock()
	close(l.done)
}

// Lead has connections that are made from now on go to these servers.
func (w *Wire) Lead(to ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// dial connects to the server that has its turn, or to the next one that is there.
func (w *Wire) dial() (server net.Conn, err error) {
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	turn := int(w.turn.Add(1))
	for i := range to {
		//nolint:noctx // a wire has no caller; the bound is its own
		if server, err = net.DialTimeout(w.network, to[(turn+i)%len(to)], dialBound); err == nil {
			return server, nil
		}
	}
	return nil, err
}
