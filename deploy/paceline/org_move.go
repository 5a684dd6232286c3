package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"paceline.internal/deploy/cells"
)

// orgMoveCommand moves an organisation to another deployment.
type orgMoveCommand struct {
	ID        string `arg:"" help:"The organisation."`
	To        string `type:"existingfile" placeholder:"FILE" help:"The environment of the deployment that it moves to."`
	From      string `type:"existingfile" placeholder:"FILE" help:"The environment of the deployment that it leaves. Default: the shell's."`
	Suspended bool   `help:"Leave it suspended where it arrives, until paceline org resume there."`
	Cancel    bool   `help:"Give a move up that has not ended: the organisation goes on where it was. With --to the copy there is erased."`
	Release   bool   `help:"After a move: let the rows that are left behind be erased, by paceline org end."`
}

// Help returns the text of --help after the first line.
func (c *orgMoveCommand) Help() string {
	return `Both deployments serve meanwhile. The rows of the organisation are copied and compared; then it is suspended for seconds, while its
callers and Twilio get 503 and come again; the last changes are copied, both sides are counted, and the new deployment opens. At no time do
both send. A repeat of the command goes on where a run was broken off.

Each file sets the variables of one deployment as the shell reads them, such as /etc/paceline/paceline.env or the environ.sh of a paceline
up: the URLs of both databases (of the owners, ..._MIGRATE_URL), SENDER_KEYSET, PSEUDONYM_KEY, DEFAULT_ORG_ID. PSEUDONYM_KEY must be the
same in both. An administrator of the new deployment's Postgres runs once, in each of its two databases' servers:

  grant set on parameter session_replication_role to onboarding, messaging;

Afterwards set the webhook of its numbers at Twilio, and lead its name to the new deployment. Until then what people write is found by the
search for missed texts there: with --suspended nothing is sent meanwhile. The command prints the URL, and each number and messaging
service that needs it. docs/deploy.md, Cells.`
}

// Run moves it, gives a move up, or releases what a move left behind.
func (c *orgMoveCommand) Run(ctx context.Context, t terminal) (err error) {
	m := &cells.Mover{Now: time.Now, Machine: time.Now, Source: t.environ, Suspended: c.Suspended}
	if m.Org, err = uuid.Parse(c.ID); err != nil {
		return errors.New("the organisation must be a UUID: paceline org list")
	}
	if c.From != "" {
		if m.Source, err = readEnvironFile(c.From); err != nil {
			return err
		}
	}
	began := time.Now()
	m.Say = func(step string) { fmt.Fprintf(t.out, "%7.1f s  %s\n", time.Since(began).Seconds(), step) }
	switch {
	case c.Cancel && c.Release, c.To == "" && !c.Cancel && !c.Release:
		return errors.New("give --to FILE, or --cancel, or --release")
	case c.Cancel:
		return c.cancel(ctx, t, m)
	case c.Release:
		if err := m.Release(ctx); err != nil {
			return err
		}
		_, err = fmt.Fprintf(t.out, "paceline org end %s --reason moved erases its rows here, after the grace period\n", c.ID)
		return err
	}
	if m.Target, err = readEnvironFile(c.To); err != nil {
		return err
	}
	counted, err := m.Move(ctx)
	if err != nil {
		return err
	}
	if err := printCounted(t, counted); err != nil {
		return err
	}
	return printWebhooks(t, m)
}

// cancel gives a move up.
func (c *orgMoveCommand) cancel(ctx context.Context, t terminal, m *cells.Mover) (err error) {
	left := "the copy stays at the other deployment: its people, texts, consents and its senders' sealed credentials\n" +
		"no service there sees it; the next try goes on with it, and --cancel with --to FILE erases it"
	if c.To != "" {
		if m.Target, err = readEnvironFile(c.To); err != nil {
			return err
		}
		left = "the other deployment has nothing of it"
	}
	if err := m.Cancel(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, "the organisation goes on here\n"+left)
	return err
}

// printWebhooks tells the operator what to set at Twilio, for each sender.
func printWebhooks(t terminal, m *cells.Mover) error {
	if _, err := fmt.Fprintf(t.out, "now have Twilio post what comes in (\"A message comes in\") to\n  %s%s\n", m.Target["PUBLIC_BASE_URL"],
		inboundPath); err != nil {
		return err
	}
	for _, s := range m.Senders {
		for _, at := range [][2]string{{"number", s.Number}, {"messaging service", s.Service}} {
			if at[1] == "" {
				continue
			}
			if _, err := fmt.Fprintf(t.out, "  at %s %s of account %s\n", at[0], at[1], s.Account); err != nil {
				return err
			}
		}
	}
	return nil
}

// printCounted shows what both sides have.
func printCounted(t terminal, counted []cells.Counted) error {
	if len(counted) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var all int64
	for _, c := range counted {
		if all += c.Rows; c.Rows > 0 {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t\n", c.Database, c.Table, c.Rows, c.Sum)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.out, "%d rows of %d tables: counts and checksums are the same on both sides\n", all, len(counted))
	return err
}

// readEnvironFile reads a file that sets variables.
func readEnvironFile(path string) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	return parseEnviron(string(content)), nil
}
