package onboarding

import (
	"context"
	"errors"
	"fmt"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/messaging"
)

// connect opens what the service stands on: messaging and the database.
func connect(
	ctx context.Context, cfg Config, deps process.Deps, tel *telemetry.Telemetry, tokens *rpc.Tokens, files rpc.TLS,
) (*wired, error) {
	conn, err := rpc.Dial(rpc.ClientConfig{
		Target: cfg.MessagingAddr.String(), Tokens: tokens, Caller: rpc.Principal{Subject: rpc.Onboarding, Role: rpc.RoleService},
		TracerProvider: tel.Tracer, MeterProvider: tel.Meter, TLS: files.Client, Timeout: messaging.Timeout, Services: messaging.Services,
		Dial: deps.DialTo("messaging"),
	})
	if err != nil {
		return nil, fmt.Errorf("messaging: %w", err)
	}
	database := cfg.database()
	database.TracerProvider, database.Watch = tel.Tracer, tel.Log
	pool, err := postgres.OpenFor(ctx, name, database)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stored := NewStores(pool)
	if stored.QuietByDefault, err = hours.ParseWindow(cfg.QuietHoursDefault); err != nil {
		pool.Close()
		return nil, errors.Join(err, conn.Close())
	}
	return &wired{
		pool: pool, store: stored, messaging: conn,
		wakeJobs: make(chan struct{}, 1), wakeOutreach: make(chan struct{}, 1), wakeRelay: make(chan struct{}, 1),
		wakeGoals: make(chan struct{}, 1),
	}, nil
}

// guard keeps the reservations of failure callbacks in the database, or in Redis when there is one.
func (w *wiring) guard() (err error) {
	if w.cfg.RedisURL.IsZero() {
		w.failures, err = dedup.New(&dedup.Postgres{Pool: w.pool}, dedup.Lock, w.deps.Log, w.deps.Now)
		return err
	}
	if w.redis, err = dedup.OpenRedis(w.cfg.RedisURL.Reveal()); err != nil {
		return err
	}
	w.failures, err = dedup.New(w.redis, dedup.Lock, w.deps.Log, w.deps.Now)
	return err
}

func (s *wired) close() error {
	if s.grpc != nil {
		s.grpc.Stop() // its goroutines are there from the start
	}
	s.pool.Close()
	err := s.messaging.Close()
	if s.redis != nil {
		err = errors.Join(err, s.redis.Close())
	}
	if s.courier != nil {
		s.courier.Close()
	}
	if s.closeReader != nil {
		s.closeReader()
	}
	return err
}
