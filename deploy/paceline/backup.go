package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"paceline.internal/deploy/backup"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/engagement/rules"
)

// backupCommand backs up the servers of both databases.
type backupCommand struct {
	To         string `required:"" type:"path" placeholder:"DIR" help:"A new folder."`
	Onboarding string `placeholder:"URL" help:"Of a login that may replicate; else ONBOARDING_DATABASE_DIRECT_URL or ONBOARDING_DATABASE_URL."`
	Messaging  string `placeholder:"URL" help:"The same for messaging's database, where that is on another server."`
}

// Help is the long text of --help.
func (c *backupCommand) Help() string {
	return `It runs PostgreSQL's pg_basebackup against the server of ONBOARDING_DATABASE_URL and that of MESSAGING_DATABASE_URL, or once
where both are on one server, verifies what it wrote, and adds manifest.json. The services go on. A backup alone gives back the
instant at which it ended; for any later instant keep the WAL, too: docs/deploy.md, Backup.`
}

// Run makes the backup.
func (c *backupCommand) Run(ctx context.Context, t terminal) error {
	return backup.Backup{
		OnboardingURL: t.environ["ONBOARDING_DATABASE_URL"], MessagingURL: t.environ["MESSAGING_DATABASE_URL"],
		OnboardingAs: cmp.Or(c.Onboarding, t.environ["ONBOARDING_DATABASE_DIRECT_URL"]), MessagingAs: c.Messaging, To: c.To,
		Version: process.Version("paceline"), Now: time.Now, Out: t.out,
	}.Run(ctx)
}

// restoreCommand prepares a data folder from a backup.
type restoreCommand struct {
	From     string  `required:"" type:"existingdir" placeholder:"DIR" help:"The folder of a backup."`
	To       string  `required:"" type:"path" placeholder:"PGDATA" help:"The data folder of the server that is to be: new, or empty."`
	Database string  `enum:"onboarding,messaging," default:"" help:"Of which database, where the backup has two servers."`
	WAL      string  `name:"wal" type:"existingdir" placeholder:"DIR" help:"Where the WAL is kept, to go on from the end of the backup."`
	At       instant `placeholder:"TIME" help:"The instant, such as 2026-11-29T12:00:00Z. Default: the end of the WAL."`
}

// Help is the long text of --help.
func (c *restoreCommand) Help() string {
	return `It copies the base backup and has the server recover to an instant when you start it. Each database may be restored to another
instant. Keep the services stopped until the server runs, and then run "paceline settle": texts that were sent after the instant would
be sent again. With the backups of a managed service, or of another program, restore by its own means, and then settle.`
}

// Run prepares the folder.
func (c *restoreCommand) Run(ctx context.Context, t terminal) error {
	if err := c.At.past("--at", time.Now()); err != nil {
		return err
	}
	return backup.Restore{From: c.From, To: c.To, Database: c.Database, WAL: c.WAL, At: c.At.Time, Out: t.out}.Run(ctx)
}

// settleCommand settles a restore.
type settleCommand struct {
	Since instant       `placeholder:"TIME" help:"When both databases were restored to. Default: the last that each has of its service."`
	Grace time.Duration `default:"5m" help:"How long steps may ask for what Twilio had sent, before the people are held; at most 13 minutes."`
	Wait  time.Duration `default:"1h" help:"How long it waits for the servers, and then for the services."`
}

// Help is the long text of --help.
func (c *settleCommand) Help() string {
	return `Run it in the environment of the deployment, after both databases were restored and migrated, and before you start the services. It
has nothing sent; start the services when it waits for them. They read Twilio's record of the lost time back, what people wrote first.
Then it compares the two databases, lets messages go again, and holds the people of whom it cannot be known what they were sent, each
with the reason. It may be killed and run again at any time.`
}

// Run settles.
func (c *settleCommand) Run(ctx context.Context, t terminal) error {
	if err := c.Since.past("--since", time.Now()); err != nil {
		return err
	}
	onboarding, err := openNamed(ctx, t, backup.Onboarding, "ONBOARDING_DATABASE_URL")
	if err != nil {
		return err
	}
	defer onboarding.Close()
	messaging, err := openNamed(ctx, t, backup.Messaging, "MESSAGING_DATABASE_URL")
	if err != nil {
		return err
	}
	defer messaging.Close()
	decided := rules.DefaultConfig()
	if file := t.environ["ENGAGEMENT_FILE"]; file != "" {
		text, err := os.ReadFile(file)
		if err == nil {
			decided, err = rules.ParseConfig(text)
		}
		if err != nil {
			return fmt.Errorf("ENGAGEMENT_FILE: %w", err)
		}
	}
	return backup.Settling{
		Onboarding: onboarding, Messaging: messaging, Calendar: decided.Calendar, Since: c.Since.Time, Grace: c.Grace, Wait: c.Wait,
		Poll: time.Second, Now: time.Now, Out: t.out,
	}.Run(ctx)
}

// openNamed opens a database that the environment names.
func openNamed(ctx context.Context, t terminal, service, variable string) (*postgres.Pool, error) {
	if t.environ[variable] == "" {
		return nil, errors.New(variable + " is not set: run it in the environment of the deployment")
	}
	return postgres.OpenFor(ctx, service, postgres.Config{URL: t.environ[variable]})
}
