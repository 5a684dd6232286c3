package messaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// opens keeps a process from starting that cannot use the senders that are stored. A database that cannot be reached, or is not migrated
// yet, is said by /readyz; no message of a stored sender is sent meanwhile.
func opens(ctx context.Context, known *senders.Directory, log *slog.Logger) error {
	const undefinedTable = "42P01"
	err := known.Opens(ctx)
	refused, isAnswer := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sms.ErrUnavailable), isAnswer && refused.Code == undefinedTable:
		log.WarnContext(ctx, "messaging.senders_not_checked", "error", err)
		return nil
	}
	return fmt.Errorf("the credentials of the stored senders: %w", err)
}

// openSenders makes the client of the environment's account and the directory of a process that starts; see opens.
func openSenders(
	ctx context.Context, cfg Config, pool postgres.DB, deps process.Deps,
) (carrier *twilio.Client, known *senders.Directory, err error) {
	if carrier, err = twilio.New(cfg.carrier()); err != nil {
		return nil, nil, err
	}
	if known, err = cfg.directory(pool, carrier, deps.Now); err == nil {
		err = opens(ctx, known, deps.Log)
	}
	if err != nil {
		carrier.Close()
		return nil, nil, err
	}
	return carrier, known, nil
}

// Own are the verbs that messaging alone has.
func Own() map[string]func(ctx context.Context, cfg Config, out io.Writer) error {
	return map[string]func(ctx context.Context, cfg Config, out io.Writer) error{
		"keyset": Keyset, "promote": Promote, "reseal": Reseal,
	}
}

// Reseal seals the credentials of all stored senders with the primary key of SENDER_KEYSET, so that its other keys may be dropped.
func Reseal(ctx context.Context, cfg Config, out io.Writer) error {
	ctx = postgres.AcrossOrganisations(ctx)
	return withSenders(ctx, cfg, func(known *senders.Directory) error {
		n, err := known.Reseal(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "the credentials of %d senders are sealed with the primary key of SENDER_KEYSET\n", n)
		return err
	})
}

// Keyset prints a keyset for SENDER_KEYSET: a first one, or the one that is set with a further key, which only opens. Once every replica
// has that, Promote has it seal.
func Keyset(_ context.Context, cfg Config, out io.Writer) error {
	return printKeyset(senders.NextKeyset, cfg, out)
}

// Promote prints the keyset that is set, with its newest key as the one that seals. Every replica must have that key by then.
func Promote(_ context.Context, cfg Config, out io.Writer) error {
	return printKeyset(senders.PromoteKeyset, cfg, out)
}

func printKeyset(change func(string) (string, error), cfg Config, out io.Writer) error {
	next, err := change(cfg.SenderKeyset.Reveal())
	if err != nil {
		return fmt.Errorf("SENDER_KEYSET %w", err)
	}
	_, err = fmt.Fprintln(out, next)
	return err
}

// withSenders opens the directory for a command.
func withSenders(ctx context.Context, cfg Config, do func(*senders.Directory) error) error {
	pool, err := postgres.OpenFor(ctx, name, cfg.database())
	if err != nil {
		return err
	}
	defer pool.Close()
	carrier, err := twilio.New(cfg.carrier())
	if err != nil {
		return err
	}
	defer carrier.Close()
	known, err := cfg.directory(pool, carrier, time.Now) //nolint:forbidigo // a command's own clock
	if err != nil {
		return err
	}
	return do(known)
}
