package pgtest

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Proxy stands before a database and can fall silent, like a host that acknowledges whatever it is sent and answers nothing.
type Proxy struct {
	network, address string
	listener         net.Listener
	closed           chan struct{}
	work             sync.WaitGroup

	mu     sync.Mutex
	silent bool
	flows  chan struct{} // closed when what flows now falls silent
}

// StartProxy returns a proxy before the database of a URL, and the URL of the database behind it.
func StartProxy(tb testing.TB, databaseURL string) (*Proxy, string) {
	tb.Helper()
	cfg, err := pgx.ParseConfig(databaseURL)
	check(tb, err)
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	check(tb, err)
	p := &Proxy{listener: listener, closed: make(chan struct{}), flows: make(chan struct{})}
	p.network, p.address = pgconn.NetworkAddress(cfg.Host, cfg.Port)
	p.work.Go(p.accept)
	tb.Cleanup(p.Close)
	through, err := url.Parse(databaseURL)
	check(tb, err)
	host, port, err := net.SplitHostPort(listener.Addr().String())
	check(tb, err)
	through.Host = ""
	query := through.Query()
	query.Set("host", host)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	through.RawQuery = query.Encode()
	return p, through.String()
}

// Freeze has every connection fall silent, in both directions and for ever, and every one that is made until Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.silent {
		p.silent = true
		close(p.flows)
	}
}

// Thaw lets new connections through. Those that are silent stay so.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		p.silent, p.flows = false, make(chan struct{})
	}
}

// Close cuts all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	p.mu.Unlock()
	_ = p.listener.Close() // the second time it is closed already
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		flows := p.flows
		p.mu.Unlock()
		p.work.Go(func() { p.serve(client, flows) })
	}
}

func (p *Proxy) serve(client net.Conn, flows <-chan struct{}) {
	defer func() { _ = client.Close() }() // whichever end was closed first
	server, err := new(net.Dialer).Dial(p.network, p.address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	over := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		p.work.Go(func() {
			p.copy(way[1], way[0], flows)
			over <- struct{}{}
		})
	}
	select {
	case <-over:
	case <-p.closed:
	}
}

// copy ends with either connection, but not while it is silent.
func (p *Proxy) copy(to, from net.Conn, flows <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-flows:
			<-p.closed
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
