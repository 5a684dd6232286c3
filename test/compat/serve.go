package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// served is a handler on a port of this machine.
type served struct {
	url    string
	server *http.Server
	ended  chan error
}

func serve(ctx context.Context, handler http.Handler) (*served, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &served{
		url: "http://" + listener.Addr().String(), ended: make(chan error, 1),
		server: &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { s.ended <- s.server.Serve(listener) }()
	return s, nil
}

// close drops what is open: the judge has ended.
func (s *served) close() error {
	err := s.server.Close()
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
