package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// A client calls all replicas of a service in turn: all addresses that the name of its target has. While there are two or more it asks each
// of them, on a connection for that alone, whether it answers and has its database:
//   - One that does not answer in time is frozen, or its host is gone. Its connections are cut, so calls on it fail at once and go to
//     another replica where they may be repeated. HTTP/2's own keepalive takes 40 s for that.
//   - One that says that its database is away is passed over while another one is well.
//
// gRPC's outlier detection is not used: to it our every refusal, such as NotFound, is a failure.
const (
	// probeEvery and probeTimeout together bound the calls of a frozen replica: 1.5 s.
	probeEvery   = 500 * time.Millisecond
	probeTimeout = time.Second
	// silentFor is the time for which one that did not answer is passed over, unless it answers before.
	silentFor = 10 * time.Second

	replicasPolicy = "paceline_replicas"
)

func init() { //nolint:gochecknoinits // where gRPC wants its policies registered
	balancer.Register(base.NewBalancerBuilder(replicasPolicy, pickers{}, base.Config{}))
}

// unwell has the addresses of replicas that are passed over, and until when; the zero time is until they are asked again. It is of all
// clients of the process.
var unwell sync.Map

// machineNow is the machine's clock: how long a connection has been silent is nothing that a test's clock could tell.
var machineNow = time.Now

func passedOver(addr string) bool {
	until, marked := unwell.Load(addr)
	if !marked {
		return false
	}
	if end, _ := until.(time.Time); !end.IsZero() && machineNow().After(end) {
		unwell.CompareAndDelete(addr, until)
		return false
	}
	return true
}

// pickers makes the pickers of gRPC's balancer.
type pickers struct{}

// Build implements base.PickerBuilder.
func (pickers) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{}
	for conn, of := range info.ReadySCs {
		p.replicas = append(p.replicas, replica{conn, of.Address.Addr})
	}
	return p
}

type replica struct {
	conn balancer.SubConn
	addr string
}

// picker gives the connected replicas their turns.
type picker struct {
	replicas []replica
	turn     atomic.Uint32
}

// Pick implements balancer.Picker: the next one that is well, or where none is, the next one.
func (p *picker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	first := int(p.turn.Add(1))
	for i := range p.replicas {
		r := p.replicas[(first+i)%len(p.replicas)]
		if !passedOver(r.addr) {
			return balancer.PickResult{SubConn: r.conn}, nil
		}
	}
	return balancer.PickResult{SubConn: p.replicas[first%len(p.replicas)].conn}, nil
}

// prober knows the connections of one client, by address, and probes the addresses while there are connections to them.
type prober struct {
	authority string
	tls       *tls.Config
	within    func(ctx context.Context) (net.Conn, error) // nil over the network

	mu    sync.Mutex
	conns map[string]map[*probedConn]struct{}
	stops map[string]context.CancelFunc
	heard map[string]bool // which addresses answered when they were asked last
}

func newProber(authority string, config *tls.Config, within func(ctx context.Context) (net.Conn, error)) *prober {
	return &prober{
		authority: authority, tls: config, within: within,
		conns: map[string]map[*probedConn]struct{}{}, stops: map[string]context.CancelFunc{}, heard: map[string]bool{},
	}
}

// dial makes a connection of gRPC's, which the prober knows until it is closed.
func (p *prober) dial(ctx context.Context, addr string) (net.Conn, error) {
	made, err := p.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := &probedConn{Conn: made, of: p, addr: addr}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[addr] == nil {
		p.conns[addr] = map[*probedConn]struct{}{}
		probing, stop := context.WithCancel(context.Background())
		p.stops[addr] = stop
		go p.probe(probing, addr)
	}
	p.conns[addr][conn] = struct{}{}
	return conn, nil
}

func (p *prober) connect(ctx context.Context, addr string) (net.Conn, error) {
	if p.within != nil {
		return p.within(ctx)
	}
	network, to := "tcp", addr
	if path, unix := strings.CutPrefix(addr, "unix:"); unix {
		network, to = "unix", strings.TrimPrefix(path, "//")
	}
	return new(net.Dialer).DialContext(ctx, network, to)
}

// probedConn tells its prober when it is closed.
type probedConn struct {
	net.Conn

	of   *prober
	addr string
}

// Close implements net.Conn.
func (c *probedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns[c.addr], c)
	if stop := c.of.stops[c.addr]; stop != nil && len(c.of.conns[c.addr]) == 0 {
		stop()
		delete(c.of.stops, c.addr)
		delete(c.of.conns, c.addr)
		delete(c.of.heard, c.addr)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// alone reports whether no other replica is connected: then there is none to go to.
func (p *prober) alone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) < 2
}

// probe asks one replica again and again, until its last connection is closed.
func (p *prober) probe(ctx context.Context, addr string) {
	silent := false
	defer func() {
		if !silent {
			unwell.Delete(addr)
		}
	}()
	pause := time.NewTicker(probeEvery)
	defer pause.Stop()
	var asking *grpc.ClientConn
	defer func() {
		if asking != nil {
			_ = asking.Close() // it holds nothing
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if p.alone() {
			unwell.Delete(addr)
			continue
		}
		if asking == nil {
			var err error
			if asking, err = grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(transport(p.tls)), grpc.WithAuthority(p.authority),
				grpc.WithNoProxy(), grpc.WithDisableServiceConfig()); err != nil {
				continue
			}
		}
		answered, well := ask(ctx, asking)
		switch others := p.hears(addr, answered); {
		case ctx.Err() != nil:
			return
		case !answered && !others: // it is this process that is slow, or all of them: there is none to go to
		case !answered:
			silent = true
			unwell.Store(addr, machineNow().Add(silentFor)) // it may be gone for good, and no probe would say so
			p.cut(addr)
		case well:
			silent = false
			unwell.Delete(addr)
		default:
			silent = false
			unwell.Store(addr, time.Time{})
		}
	}
}

// hears notes whether an address has answered, and reports whether another one did when it was asked last.
func (p *prober) hears(addr string, answered bool) (others bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[addr] != nil { // else its last connection was closed meanwhile
		p.heard[addr] = answered
	}
	for of, did := range p.heard {
		others = others || did && of != addr
	}
	return others
}

// ask reports whether a replica answers in time, and whether it serves and has its database. A replica with a shut port has answered.
func ask(ctx context.Context, conn *grpc.ClientConn) (answered, well bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for _, name := range []string{"", HealthDatabase} {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			return ctx.Err() == nil, false
		}
		if answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			return true, false
		}
	}
	return true, true
}

// cut ends the connections to a replica that does not answer.
func (p *prober) cut(addr string) {
	p.mu.Lock()
	var doomed []*probedConn
	for conn := range p.conns[addr] {
		doomed = append(doomed, conn)
	}
	p.mu.Unlock()
	for _, conn := range doomed {
		_ = conn.Conn.Close() // gRPC meets the end of it, and closes it itself
	}
}
