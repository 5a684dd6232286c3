// Package seed fills the databases of both services with people who were here for a year, for looking at the console and at plans.
// Nothing that it writes is due: no loop of the product takes any of it up, and no message is sent for it.
package seed

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Config sets what is written, and where.
type Config struct {
	Onboarding, Messaging *pgx.Conn // of the owners of the tables; migrated
	Sessions, Messages    int       // of each session as many messages, rounded down
	Now                   time.Time
}

// Made counts what was written.
type Made struct{ People, Sessions, Messages int }

// ErrPeople is of a database that has people already.
var ErrPeople = errors.New("the onboarding database has people already")

// The organisation of all people, and the number that the messages came from.
const (
	orgID  = "00000000-0000-7000-8000-000000000001"
	sender = "+15005550006"
)

// chunk sets the number of people who are written in one transaction.
const chunk = 5_000

//nolint:gochecknoglobals // the statements, embedded
var (
	//go:embed onboarding.sql
	sqlOnboarding string
	//go:embed onboarding_troubles.sql
	sqlOnboardingTroubles string
	//go:embed messaging.sql
	sqlMessaging string
	//go:embed messaging_ledger.sql
	sqlLedger string
	//go:embed messaging_ledger_lines.sql
	sqlLedgerLines string
	//go:embed messaging_troubles.sql
	sqlMessagingTroubles string
)

// id is a UUIDv7 of the columns at and h.
const id = `(lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::uuid`

// People returns how many people there are for so many sessions: every fiftieth was never activated.
func People(sessions int) int { return sessions + (sessions-1)/49 }

// Run writes them.
func Run(ctx context.Context, cfg Config) (Made, error) {
	var there int
	if err := cfg.Onboarding.QueryRow(ctx, `select count(*) from profiles`).Scan(&there); err != nil {
		return Made{}, fmt.Errorf("look for people: %w", err)
	}
	people := People(cfg.Sessions)
	switch {
	case there > 0:
		return Made{}, ErrPeople
	case cfg.Sessions < 1 || cfg.Messages < cfg.Sessions:
		return Made{}, errors.New("there must be a session, and a message for each")
	case people > len(phones())*lines:
		return Made{}, fmt.Errorf("there are fictitious numbers for %d people", len(phones())*lines)
	}
	args := pgx.NamedArgs{
		"org": orgID, "sender": sender, "now": cfg.Now, "people": people, "each": cfg.Messages / cfg.Sessions,
		"salt": uuid.NewString(), "phones": phones(), "names": names(), "texts": texts(), "replies": replies(),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed [2]error
	var both sync.WaitGroup
	for i, d := range []database{
		{
			name: "onboarding", conn: cfg.Onboarding, silent: []string{"session_transitions session_transitions_told"},
			each: []string{sqlOnboarding}, last: []string{sqlOnboardingTroubles},
		},
		{
			name: "messaging", conn: cfg.Messaging, silent: []string{"sms_messages sms_messages_begun_told", "consent_events consent_events_told"},
			each: []string{sqlMessaging, sqlLedger, sqlLedgerLines}, last: []string{sqlMessagingTroubles},
		},
	} {
		both.Go(func() {
			if failed[i] = d.fill(ctx, args, people); failed[i] != nil {
				cancel() // one without the other is of no use
			}
		})
	}
	both.Wait()
	sessions := people - people/50
	return Made{People: people, Sessions: sessions, Messages: sessions * (cfg.Messages / cfg.Sessions)}, errors.Join(failed[:]...)
}

// database is one of the two databases, with what is written into it.
type database struct {
	name       string
	conn       *pgx.Conn
	silent     []string // tables with the trigger that tells the host application
	each, last []string // statements for each chunk, and behind all of them
}

func (d database) fill(ctx context.Context, args pgx.NamedArgs, people int) error {
	for from := 1; from <= people; from += chunk {
		to := min(from+chunk-1, people)
		if err := d.write(ctx, d.each, args, from, to); err != nil {
			return fmt.Errorf("fill %s: %w", d.name, err)
		}
	}
	if err := d.write(ctx, d.last, args, 1, people); err != nil {
		return fmt.Errorf("fill %s: %w", d.name, err)
	}
	if _, err := d.conn.Exec(ctx, `vacuum (analyze)`); err != nil {
		return fmt.Errorf("analyze %s: %w", d.name, err)
	}
	return nil
}

// write runs statements in one transaction, in which no event is written. Another writer of these tables waits for it, and has its events
// written.
func (d database) write(ctx context.Context, statements []string, args pgx.NamedArgs, first, last int) error {
	return pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		settings := []string{`set local synchronous_commit = off`, `set local jit = off`}
		var after []string
		for _, silent := range d.silent {
			table, trigger, _ := strings.Cut(silent, " ")
			settings = append(settings, `alter table `+table+` disable trigger `+trigger)
			after = append(after, `alter table `+table+` enable trigger `+trigger)
		}
		for _, sql := range settings {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		of := pgx.NamedArgs{"first": first, "last": last}
		maps.Copy(of, args)
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, strings.ReplaceAll(sql, "{id}", id), of); err != nil {
				return err
			}
		}
		for _, sql := range after {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}
