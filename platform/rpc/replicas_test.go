package rpc_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"paceline.internal/platform/rpc"
)

// freezer is a listener that reads no connection while it is frozen: the kernel acknowledges what is sent, as for a process that was
// stopped.
type freezer struct {
	net.Listener

	mu     sync.Mutex
	thawed chan struct{} // closed while it is not frozen
}

func newFreezer(t *testing.T) *freezer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &freezer{Listener: listener, thawed: make(chan struct{})}
	close(f.thawed)
	t.Cleanup(f.thaw)
	return f
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed = make(chan struct{})
}

func (f *freezer) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.thawed:
	default:
		close(f.thawed)
	}
}

func (f *freezer) gate() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.thawed
}

func (f *freezer) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &frozenConn{Conn: conn, of: f}, nil
}

type frozenConn struct {
	net.Conn

	of *freezer
}

func (c *frozenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	<-c.of.gate()
	return n, err
}

// replicas are two servers, and a client of both.
func replicas(t *testing.T, database func(of int) func(context.Context) error) (frozen [2]*freezer, served func() [2]int64, ask func() error) {
	t.Helper()
	var counts [2]atomic.Int64
	var addresses []resolver.Address
	var first *bench
	for i := range 2 {
		b := setup(t, func(context.Context, string) (string, error) {
			counts[i].Add(1)
			return "", nil
		}, func(cfg *rpc.ServerConfig) { cfg.Database = database(i) })
		frozen[i] = newFreezer(t)
		go func() { _ = b.Serve(frozen[i]) }()
		addresses = append(addresses, resolver.Address{Addr: frozen[i].Addr().String()})
		if first == nil {
			first = b
		}
	}
	scheme := "replicas" + frozen[0].Addr().String()[len("127.0.0.1:"):]
	named := manual.NewBuilderWithScheme(scheme)
	named.InitialState(resolver.State{Addresses: addresses})
	resolver.Register(named)
	conn := first.dial(func(cfg *rpc.ClientConfig) {
		cfg.Target, cfg.Services = scheme+":///service", []string{"paceline.test.v1.EchoService"}
	})
	served = func() [2]int64 { return [2]int64{counts[0].Load(), counts[1].Load()} }
	ask = func() error {
		_, err := call(t.Context(), conn, echo, "")
		return err
	}
	require.Eventually(t, func() bool { // both are connected
		require.NoError(t, ask())
		n := served()
		return n[0] > 0 && n[1] > 0
	}, 10*time.Second, time.Millisecond)
	return frozen, served, ask
}

func well(int) func(context.Context) error { return func(context.Context) error { return nil } }

//nolint:paralleltest // the resolvers are the process's
func TestReplicas(t *testing.T) {
	t.Run("TakeTurns", func(t *testing.T) {
		_, served, ask := replicas(t, well)
		require.Eventually(t, func() bool { // on a machine that is so slow that one is passed over, again
			before := served()
			for range 100 {
				require.NoError(t, ask())
			}
			after := served()
			return after[0]-before[0] == 50 && after[1]-before[1] == 50
		}, 30*time.Second, time.Millisecond)
	})

	t.Run("AFrozenOneIsLeftWithinTwoSecondsAndItsCallsGoToTheOther", func(t *testing.T) {
		frozen, served, ask := replicas(t, well)
		frozen[0].freeze()
		before, began := served(), time.Now()
		for range 4 { // one of the first two is sent to the frozen one, and waits until it is cut; on a slow machine the other one is cut, too
			require.Eventually(t, func() bool { return ask() == nil }, 10*time.Second, time.Millisecond)
		}
		require.Less(t, time.Since(began), 10*time.Second, "HTTP/2's own keepalive takes forty")
		t.Log("the calls took", time.Since(began))
		require.Equal(t, before[0], served()[0])
		frozen[0].thaw()
		require.Eventually(t, func() bool { return ask() == nil && served()[0] > before[0] }, 20*time.Second, time.Millisecond, "it is called again")
	})

	t.Run("OneWithoutItsDatabaseIsPassedOver", func(t *testing.T) {
		var away atomic.Bool
		_, served, ask := replicas(t, func(of int) func(context.Context) error {
			return func(context.Context) error {
				if of == 0 && away.Load() {
					return errors.New("away")
				}
				return nil
			}
		})
		away.Store(true)
		passed := func() bool {
			before := served()
			for range 4 {
				require.NoError(t, ask())
			}
			return served()[0] == before[0]
		}
		require.Eventually(t, passed, 20*time.Second, time.Millisecond)
		away.Store(false)
		require.Eventually(t, func() bool { return !passed() }, 20*time.Second, time.Millisecond)
	})
}
