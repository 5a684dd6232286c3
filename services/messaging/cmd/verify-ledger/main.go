// Command verify-ledger checks consent ledgers. Without a flag it calls no service: it reads the answers of GET /v1/consents/{phone}, all
// pages of one phone, from its standard input. With --anchors and --public-key it also holds that ledger, or by --database all ledgers of
// MESSAGING_DATABASE_URL, against what was signed and written outside the database. What is left of erased ledgers it reads with
// PSEUDONYM_KEY.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/anchor"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, export io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("verify-ledger", flag.ContinueOnError)
	anchors := flags.String("anchors", "", "the folder with the files of LEDGER_ANCHOR_DIR, of all replicas together")
	publicKey := flags.String("public-key", "", "a file with the public keys of LEDGER_SIGNING_KEY, old ones too, in PEM")
	all := flags.Bool("database", false, "all ledgers of MESSAGING_DATABASE_URL instead of an export")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *anchors == "" && *publicKey == "" && !*all:
		_, err := verify(export, out)
		return err
	case *anchors == "" || *publicKey == "":
		return errors.New("give both --anchors and --public-key")
	}
	text, err := os.ReadFile(*publicKey)
	if err != nil {
		return err
	}
	keys, err := anchor.ParsePublicKeys(text)
	if err != nil {
		return err
	}
	check := anchor.Check{Dir: *anchors, Keys: keys}
	if *all {
		return whole(ctx, getenv, check, out)
	}
	lines, err := verify(export, out)
	if err != nil {
		return err
	}
	return one(ctx, check, lines, out)
}

func one(ctx context.Context, check anchor.Check, lines []consent.Line, out io.Writer) error {
	name, newest, err := anchor.OfExport(check.Dir, check.Keys, lines)
	if err != nil {
		return err
	}
	if name == uuid.Nil {
		return errors.New("found: no anchor holds any line of this ledger: it was rewritten from its first line, " +
			"or is newer than the last anchor")
	}
	check.Only = name
	check.Find = func(context.Context, []uuid.UUID) (map[uuid.UUID]anchor.Ledger, error) {
		return map[uuid.UUID]anchor.Ledger{name: {ID: name, Lines: lines}}, nil
	}
	return report(ctx, check, fmt.Sprintf("%d of %d lines are anchored", newest, len(lines)), out)
}

func verify(export io.Reader, out io.Writer) ([]consent.Line, error) {
	lines, chain, err := consent.ReadExport(export)
	if err != nil {
		return nil, err
	}
	if broken := consent.Verify(lines, chain); broken != nil {
		return nil, fmt.Errorf("the chain breaks at line %d: %s", broken.Seq, broken.Why)
	}
	_, err = fmt.Fprintf(out, "ok: %d lines, each as it was written, and none missing\n", len(lines))
	return lines, err
}

func whole(ctx context.Context, getenv func(string) string, check anchor.Check, out io.Writer) error {
	url := getenv("MESSAGING_DATABASE_URL")
	if url == "" {
		return errors.New("MESSAGING_DATABASE_URL is not set")
	}
	pool, err := postgres.OpenFor(ctx, "messaging", postgres.Config{URL: url, MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	ctx = postgres.AcrossOrganisations(ctx)
	ledgers := &anchor.Store{Pool: pool, Pseudonyms: consent.NewPseudonyms(strings.TrimSpace(getenv("PSEUDONYM_KEY")))}
	known, unanchored, err := ledgers.Anchors(ctx)
	if err != nil {
		return err
	}
	check.Find, check.Known, check.Claimed, check.Gone = ledgers.NamedLedgers, known, ledgers.ClaimedLedgers, ledgers.GoneLedgers
	check.Contradicted = ledgers.ContradictedLedgers
	return report(ctx, check, fmt.Sprintf("%d ledgers have lines that no anchor holds yet", unanchored), out)
}

func report(ctx context.Context, check anchor.Check, besides string, out io.Writer) error {
	r, err := check.Verify(ctx)
	if err != nil {
		return err
	}
	for _, gone := range r.Lawful {
		if _, err := fmt.Fprintln(out, "gone:", gone); err != nil {
			return err
		}
	}
	for _, finding := range r.Findings {
		if _, err := fmt.Fprintln(out, "found:", finding); err != nil {
			return err
		}
	}
	if r.Untold > 0 {
		const untold = "untold: %d ledgers were erased, as the database says; without PSEUDONYM_KEY they cannot be verified\n"
		if _, err := fmt.Fprintf(out, untold, r.Untold); err != nil {
			return err
		}
	}
	if n := len(r.Findings) + r.More; n > 0 {
		return fmt.Errorf("%d findings: the anchors of %s and the ledgers disagree", n, check.Dir)
	}
	_, err = fmt.Fprintf(out, "ok: %d anchors with %d entries (%d unreadable lines), and every ledger is what they hold "+
		"(%d are gone, %d untold); %s\n", r.Statements, r.Entries, r.Unreadable, len(r.Lawful)+r.MoreLawful, r.Untold, besides)
	return err
}
