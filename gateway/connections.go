package gateway

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxWaiting bounds what is held for clients that have not yet sent what they began, or have nothing to send: 2,048
	// connections without a body. connectionCost is one of them: its stack, its buffers and its header; 27 KiB were measured.
	maxWaiting     = 64 << 20
	connectionCost = 32 << 10

	// A body has bodyPause, and longer as it arrives: bodyRate is the slowest that is accepted. bodyMost ends any body:
	// Twilio waits four seconds for an answer and Shopify five.
	bodyPause = time.Second
	bodyRate  = 64 << 10 // bytes a second
	bodyMost  = 3 * time.Second

	// answerTime bounds the time in which a client reads its answer, of 64 KiB or less but for lists.
	answerTime = 5 * time.Second
)

// connections bounds the memory of connections that wait for their client to send a request, its header or its body. When they use
// too much, the one that has waited longest is closed. That is one that dribbles, or that is kept open and idle; it is never a
// callback, which arrives within milliseconds. To refuse the newest instead would let strangers keep every vendor out.
type connections struct {
	mu      sync.Mutex
	held    int64
	waiting list.List // of *connection, the one that was waited for longest in front
	open    map[net.Conn]*connection
}

// connection is one client's.
type connection struct {
	net.Conn

	of    *connections
	place *list.Element // among those that are waited for
	cost  int64
}

type connectionKey struct{}

// opened implements http.Server.ConnContext.
func (cs *connections) opened(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{Conn: conn, of: cs}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open[conn] = c
	return context.WithValue(ctx, connectionKey{}, c)
}

// changed implements http.Server.ConnState. A connection is waited for anew from the first byte of a request on: one that was
// idle for long is not to be closed for the callback that it brings.
func (cs *connections) changed(conn net.Conn, state http.ConnState) {
	cs.mu.Lock()
	c := cs.open[conn]
	c.leave()
	switch state {
	case http.StateNew, http.StateActive, http.StateIdle:
		c.place = cs.waiting.PushBack(c)
		c.grow(connectionCost)
	case http.StateClosed, http.StateHijacked:
		delete(cs.open, conn)
	}
	excess := cs.excess()
	cs.mu.Unlock()
	closeAll(excess)
}

// received counts a part of a body that came.
func (c *connection) received(n int) {
	c.of.mu.Lock()
	if c.place != nil {
		c.grow(int64(n))
	}
	excess := c.of.excess()
	c.of.mu.Unlock()
	closeAll(excess)
}

// Complete notes that the request has arrived: the client is not waited for any more.
func (c *connection) Complete() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.leave()
}

// Await notes that the client of a connection that the server has given away has yet to show who it is. Complete ends that, because the
// server does not.
func (c *connection) Await() {
	c.of.mu.Lock()
	c.place = c.of.waiting.PushBack(c)
	c.grow(connectionCost)
	excess := c.of.excess()
	c.of.mu.Unlock()
	closeAll(excess)
}

// grow and leave are called with the lock.
func (c *connection) grow(n int64) {
	c.cost += n
	c.of.held += n
}

func (c *connection) leave() {
	if c.place != nil {
		c.of.waiting.Remove(c.place)
		c.of.held -= c.cost
		c.place, c.cost = nil, 0
	}
}

// excess removes, with the lock, the connections to close, those that have waited longest first.
func (cs *connections) excess() (gone []*connection) {
	for cs.held > maxWaiting {
		oldest, ok := cs.waiting.Front().Value.(*connection)
		if !ok {
			break
		}
		oldest.leave()
		gone = append(gone, oldest)
	}
	return gone
}

func closeAll(connections []*connection) {
	for _, c := range connections {
		_ = c.Close() // a reader of it gets an error
	}
}

// timely gives the body of each request its first deadline, also when its handler does not read it: then the server does, before
// it answers.
func timely(now func() time.Time, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			if r.Body == http.NoBody { // and no deadline: the server reads on already, to notice a client that goes away
				c.Complete()
			} else {
				body := &arriving{ReadCloser: r.Body, connection: c, began: now()}
				body.extend()
				r.Body = body
			}
		}
		next.ServeHTTP(&prompt{ResponseWriter: w, now: now}, r)
	})
}

// prompt has the client read its answer in time: WriteTimeout allows for the longest call before the answer, and a client that reads
// nothing would hold it, and its connection, for as long.
type prompt struct {
	http.ResponseWriter

	now     func() time.Time
	started bool
}

// WriteHeader implements http.ResponseWriter.
func (p *prompt) WriteHeader(status int) {
	if !p.started {
		p.started = true
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(p.now().Add(answerTime)) // a test's recorder has none
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *prompt) Write(body []byte) (int, error) {
	if !p.started {
		p.WriteHeader(http.StatusOK)
	}
	return p.ResponseWriter.Write(body)
}

// Unwrap lets http.ResponseController find what is below.
func (p *prompt) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// arriving is a body that has to keep arriving.
type arriving struct {
	io.ReadCloser

	connection *connection
	began      time.Time
	received   int64
}

// Read implements io.Reader. The deadline is set before and never after: from the end of the body on the server reads without
// one, and would take its end for a client that went away.
func (b *arriving) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	b.received += int64(n)
	b.connection.received(n)
	if errors.Is(err, io.EOF) {
		b.connection.Complete()
	}
	return n, err
}

func (b *arriving) extend() {
	most := min(bodyPause+time.Duration(b.received)*time.Second/bodyRate, bodyMost)
	_ = b.connection.SetReadDeadline(b.began.Add(most)) // on a closed connection the read fails
}
