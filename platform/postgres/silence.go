package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// A server that is frozen keeps its connections open and answers nothing: without the watch every caller waits for its own bound. The two
// bounds of the watch add up to at most 2.5 s from the first silence until every connection is closed.
const (
	// watchInterval is the pause between two pings.
	watchInterval = 500 * time.Millisecond
	// watchTimeout bounds the answer to a ping, and the answer to a greeting on a new connection.
	watchTimeout = time.Second
	// deadAfter is the time that the kernel waits for a peer's acknowledgement: a host that has gone, a firewall that forgot the
	// connection.
	deadAfter = 3 * time.Second
)

// forgottenAfter is the number of greetings without an answer for which a server is remembered, ten minutes or more: after failovers a name
// has other addresses, and the old ones never answer.
const forgottenAfter = 600

// ErrSilent is returned for a connection to a server that was given up. It ends when the server answers again.
var ErrSilent = errors.New("postgres: the server does not answer")

// sslRequest asks a server, or a pooler, whether it speaks TLS. It answers with one byte before anybody logs in ("SSLRequest" in the
// manual's chapter on the protocol).
var sslRequest = []byte{0, 0, 0, 8, 4, 210, 22, 47}

// address is one server, as a connection was made to it.
type address struct{ network, addr string }

// dialer makes the connections of a pool and keeps them, so that all that lead to one server can be closed at once.
type dialer struct {
	mu     sync.Mutex
	open   map[*line]struct{}
	silent map[address]int // how often each did not answer since it was given up
}

// line is one connection.
type line struct {
	net.Conn

	to   address
	from *dialer
}

func newDialer() *dialer { return &dialer{open: map[*line]struct{}{}, silent: map[address]int{}} }

// Dial connects, unless the server was given up. It implements pgconn.DialFunc.
func (d *dialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	to := address{network, addr}
	if d.isSilent(to) {
		return nil, ErrSilent
	}
	conn, err := tcp.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, to: to, from: d}
	d.mu.Lock()
	_, silent := d.silent[to]
	if !silent {
		d.open[l] = struct{}{}
	}
	d.mu.Unlock()
	if silent {
		return nil, errors.Join(ErrSilent, conn.Close())
	}
	return l, nil
}

// tcp has the kernel end a connection when its peer acknowledges nothing, also while only an answer is waited for.
var tcp = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2},
	Control:         endUnacknowledged,
}

// Close closes the connection.
func (l *line) Close() error {
	l.from.mu.Lock()
	delete(l.from.open, l)
	l.from.mu.Unlock()
	return l.Conn.Close()
}

func (d *dialer) isSilent(to address) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, silent := d.silent[to]
	return silent
}

// addresses returns the silent servers, and all others that connections lead to.
func (d *dialer) addresses() (silent, others []address) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := range d.silent {
		silent = append(silent, a)
	}
	for l := range d.open {
		if !slices.Contains(others, l.to) {
			others = append(others, l.to)
		}
	}
	return silent, others
}

// giveUp closes the connections to a server and has Dial refuse new ones.
func (d *dialer) giveUp(to address) (closed int) {
	var lines []*line
	d.mu.Lock()
	d.silent[to] = 0
	for l := range d.open {
		if l.to == to {
			lines = append(lines, l)
		}
	}
	d.mu.Unlock()
	for _, l := range lines {
		_ = l.Close() // its caller gets the error of the read that this ends
	}
	return len(lines)
}

// missed counts another greeting without an answer, and forgets a server after many.
func (d *dialer) missed(to address) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch n, silent := d.silent[to]; {
	case !silent: // it has answered the other watch meanwhile
	case n >= forgottenAfter:
		delete(d.silent, to)
	default:
		d.silent[to] = n + 1
	}
}

// welcome lets connections to a server be made again.
func (d *dialer) welcome(to address) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.silent, to)
}

// watch pings the server over one connection until stop. When a ping and then a greeting on a new connection have no answer within 2.5 s in
// all, it closes every connection to that server, those of Listen included: callers get an error at once, and connect to the next host of
// the URL, or are refused, until the server answers again. A server that is busy answers greetings, so it is never given up; nor is one
// behind a pooler that answers them for it.
func (p *Pool) watch(log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background()) // it ends with Close: calls that are being finished need it still
	var work sync.WaitGroup
	work.Go(func() { p.dialer.watch(ctx, p.listen, log) })
	if p.pooler {
		work.Go(func() { p.dialer.watch(ctx, p.login.Config().ConnConfig, log) })
	}
	return func() {
		cancel()
		work.Wait()
	}
}

func (d *dialer) watch(ctx context.Context, to *pgx.ConnConfig, log *slog.Logger) {
	for {
		d.pingWhileAnswered(ctx, to, log)
		if ctx.Err() != nil {
			return
		}
		silent, others := d.addresses()
		d.judge(ctx, append(silent, others...), log)
		if !pause(ctx, watchInterval) {
			return
		}
	}
}

// pingWhileAnswered returns when a connection could not be made, did not answer in time, or ctx has ended. Meanwhile it looks whether other
// servers, which were silent, answer again.
func (d *dialer) pingWhileAnswered(ctx context.Context, to *pgx.ConnConfig, log *slog.Logger) {
	connecting, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, to)
	if err != nil {
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), watchTimeout)
		defer cancel()
		_ = conn.Close(ctx) // it is closed either way
	}()
	for pause(ctx, watchInterval) {
		pinging, cancel := context.WithTimeout(ctx, watchTimeout)
		err := conn.Ping(pinging)
		cancel()
		if err != nil {
			return
		}
		silent, _ := d.addresses()
		d.judge(ctx, silent, log)
	}
}

// judge greets servers all at once, gives up those that do not answer, and welcomes those that do.
func (d *dialer) judge(ctx context.Context, servers []address, log *slog.Logger) {
	var work sync.WaitGroup
	for _, server := range servers {
		work.Go(func() {
			err := greet(ctx, server)
			switch silent := d.isSilent(server); {
			case ctx.Err() != nil:
			case err != nil && !silent:
				log.ErrorContext(ctx, "postgres.server_silent", "server", server.addr, "closed", d.giveUp(server))
			case err != nil:
				d.missed(server)
			case silent:
				d.welcome(server)
				log.InfoContext(ctx, "postgres.server_answers", "server", server.addr)
			}
		})
	}
	work.Wait()
}

// greet returns an error when a server does not answer in time. One that refuses the connection answers: callers see that themselves.
func greet(ctx context.Context, server address) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	conn, err := tcp.DialContext(ctx, server.network, server.addr)
	if err == nil {
		defer func() { _ = conn.Close() }() // nothing was asked for that could be lost
		deadline, _ := ctx.Deadline()
		err = conn.SetDeadline(deadline)
	}
	if err == nil {
		_, err = conn.Write(sslRequest)
	}
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("%w: %w", ErrSilent, err)
	}
	return nil
}
