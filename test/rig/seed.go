package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
	"paceline.internal/test/seed"
)

// seedCommand fills both databases with people who were never here.
type seedCommand struct {
	Sessions int `default:"1000000" help:"How many sessions."`
	Messages int `default:"10000000" help:"How many messages; each session gets as many as the other."`
}

// Help returns what --help says after the first line.
func (c *seedCommand) Help() string {
	return `ONBOARDING_DATABASE_URL and MESSAGING_DATABASE_URL name the databases, or ONBOARDING_DATABASE_MIGRATE_URL and
MESSAGING_DATABASE_MIGRATE_URL where another login owns the tables; ". environ.sh" in the data folder of paceline up
sets them while it runs. They are migrated first.

Nothing that is written is due: no message is sent for it. The numbers are of exchange 555, which has no subscribers. It refuses a
database with people in it, and one that is not on this machine.`
}

// Run writes them.
func (c *seedCommand) Run(ctx context.Context, t terminal) (err error) {
	open := func(variable string, migrate func(ctx context.Context, url string) error) (*pgx.Conn, error) {
		url := cmp.Or(t.environ[strings.TrimSuffix(variable, "URL")+"MIGRATE_URL"], t.environ[variable])
		if url == "" {
			return nil, fmt.Errorf("%s is not set; \". environ.sh\" in the data folder of paceline up sets it while it runs", variable)
		}
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read", variable) // the error may have the password
		}
		if !onThisMachine(&cfg.Config) {
			return nil, fmt.Errorf("%s is not on this machine", variable)
		}
		if err := migrate(ctx, url); err != nil {
			return nil, err
		}
		return pgx.ConnectConfig(ctx, cfg)
	}
	people, err := open("ONBOARDING_DATABASE_URL", onboarding.Migrations().Up)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, people.Close(context.WithoutCancel(ctx))) }()
	messages, err := open("MESSAGING_DATABASE_URL", messaging.Migrations().Up)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, messages.Close(context.WithoutCancel(ctx))) }()
	began := time.Now()
	made, err := seed.Run(ctx, seed.Config{
		Onboarding: people, Messaging: messages, Sessions: c.Sessions, Messages: c.Messages, Now: began,
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%d people, %d sessions, %d messages in %s. Nothing of it is due.\n",
		made.People, made.Sessions, made.Messages, time.Since(began).Round(time.Second))
	return err
}

// onThisMachine reports whether all hosts of a connection are loopback addresses or sockets.
func onThisMachine(cfg *pgconn.Config) bool {
	hosts := []string{cfg.Host}
	for _, other := range cfg.Fallbacks {
		hosts = append(hosts, other.Host)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); host != "localhost" && !strings.HasPrefix(host, "/") && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
