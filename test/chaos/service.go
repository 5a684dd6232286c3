package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"paceline.internal/platform/process"
)

// running is one service of a world, which can be stopped and started again. Its ports stay open meanwhile, so that callers
// wait for it as they do behind a balancer, and do not fall into pauses of reconnecting.
type running struct {
	name    string
	loops   int // that rest when there is nothing to do
	run     func(ctx context.Context, deps process.Deps) error
	deps    process.Deps // without listeners
	port    *os.File
	ops     *os.File
	addr    string
	opsAddr string

	cancel context.CancelFunc
	ended  chan error
}

// reserve opens the ports of a service.
func reserve(name string, loops int) (*running, error) {
	s := &running{name: name, loops: loops}
	var err error
	if s.port, s.addr, err = socket(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.ops, s.opsAddr, err = socket(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), s.port.Close())
	}
	return s, nil
}

func socket() (*os.File, string, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	file, err := listener.(*net.TCPListener).File() //nolint:forcetypeassert // "tcp" gives no other
	return file, listener.Addr().String(), errors.Join(err, listener.Close())
}

// start returns once the service serves.
func (s *running) start(ctx context.Context) error {
	deps := s.deps
	var err error
	if deps.Listener, err = net.FileListener(s.port); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if deps.OpsListener, err = net.FileListener(s.ops); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", s.name, err), deps.Listener.Close())
	}
	ready := make(chan struct{})
	deps.Ready = func() { close(ready) }
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- s.run(run, deps) }()
	select {
	case <-ready:
		return nil
	case err := <-s.ended:
		s.ended <- err
		return fmt.Errorf("%s did not start: %w", s.name, err)
	}
}

// stop ends the service as SIGTERM does.
func (s *running) stop() error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	s.cancel = nil
	return <-s.ended
}

func (s *running) close() error { return errors.Join(s.stop(), s.port.Close(), s.ops.Close()) }
