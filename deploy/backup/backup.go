package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/history"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// Backup makes a base backup of the servers of both databases, while they are in use.
type Backup struct {
	OnboardingURL, MessagingURL string // by which the services reach their databases
	// OnboardingAs and MessagingAs are URLs by logins that may replicate; empty where those of the services may. One is enough for one server.
	OnboardingAs, MessagingAs string
	To                        string // a new folder
	Version                   string // of Paceline
	Now                       func() time.Time
	Out                       io.Writer
}

// found is a database, and the server that it is of.
type found struct {
	database Database
	server   Server
	running  string // names the running server: a copy of it has the same identifier
	url, as  string // to ask it by, and to back its server up by
}

const (
	// lookTimeout bounds the questions to a database.
	lookTimeout = 30 * time.Second
	// codeNotPermitted is the SQLSTATE of a login that may not replicate.
	codeNotPermitted = "42501"
	// codeNoEntry is the SQLSTATE of a login that pg_hba.conf does not let replicate.
	codeNoEntry = "28000"
)

// Run makes the backup.
func (b Backup) Run(ctx context.Context) error {
	if err := emptyFolder(b.To); err != nil {
		return err
	}
	o, err := b.look(ctx, Onboarding, b.OnboardingURL, b.OnboardingAs, onboarding.Migrations())
	if err != nil {
		return err
	}
	m, err := b.look(ctx, Messaging, b.MessagingURL, b.MessagingAs, messaging.Migrations())
	if err != nil {
		return err
	}
	o.server.Folder, m.server.Folder = Onboarding, Messaging
	if o.running == m.running {
		if b.OnboardingAs == "" && b.MessagingAs != "" {
			o.as = m.as
		}
		o.server.Folder, m.server.Folder = "server", "server"
	}
	servers := []found{o, m}
	if o.running == m.running {
		servers = servers[:1]
	}
	o.database.Server, m.database.Server = o.server.Folder, m.server.Folder
	manifest := Manifest{Paceline: b.Version, Databases: map[string]Database{Onboarding: o.database, Messaging: m.database}}
	for _, f := range servers {
		taken, err := b.take(ctx, f)
		if err != nil {
			return err
		}
		manifest.Servers = append(manifest.Servers, taken)
	}
	if err := manifest.write(b.To); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.Out, "Written: %s. Copy the folder to another machine. To restore a later instant, keep the WAL from now on.\n",
		filepath.Join(b.To, manifestFile))
	return err
}

// emptyFolder makes a folder, or takes one that has nothing in it.
func emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	within, err := os.ReadDir(dir)
	if err == nil && len(within) > 0 {
		err = fmt.Errorf("%s is not empty", dir)
	}
	return err
}

const sqlServer = `
select system_identifier::text, timeline_id, current_setting('server_version'), current_database(),
	system_identifier || ' ' || extract(epoch from pg_postmaster_start_time())
from pg_control_system(), pg_control_checkpoint()`

// look asks a database what it is.
func (b Backup) look(ctx context.Context, name, url, as string, schema postgres.Migrations) (f found, err error) {
	variable := strings.ToUpper(name) + "_DATABASE_URL"
	if url == "" {
		return f, fmt.Errorf("%s is not set: run it in the environment of the deployment", variable)
	}
	ctx, cancel := context.WithTimeout(postgres.AcrossOrganisations(ctx), lookTimeout)
	defer cancel()
	conn, err := postgres.Connect(ctx, url)
	if err != nil {
		return f, fmt.Errorf("%s: %w", variable, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	its := &f.server
	err = conn.QueryRow(ctx, sqlServer).Scan(&its.SystemIdentifier, &its.Timeline, &its.PostgresVersion, &f.database.Name, &f.running)
	if err != nil {
		return f, fmt.Errorf("%s: %w", variable, err)
	}
	if f.database.SchemaVersion, err = schema.Current(ctx, conn); err != nil {
		return f, err
	}
	point, err := history.At(ctx, conn, b.Now())
	if err != nil {
		return f, fmt.Errorf("%s: migrate it first: %w", variable, err)
	}
	f.database.LastBeat, f.url, f.as = point.Last.UTC(), url, url
	if as != "" {
		f.as = as
	}
	return f, nil
}

// take makes the base backup of a server, and verifies it.
func (b Backup) take(ctx context.Context, f found) (s Server, err error) {
	if err := mayReplicate(ctx, f.as, f.server.SystemIdentifier); err != nil {
		return s, err
	}
	program, err := embeddedpg.Program("pg_basebackup")
	if err != nil {
		return s, err
	}
	s = f.server
	folder := filepath.Join(b.To, s.Folder)
	_, _ = fmt.Fprintf(b.Out, "%s: base backup of PostgreSQL %s, system %s\n", s.Folder, s.PostgresVersion, s.SystemIdentifier)
	if s.BeganAt, err = timeAt(ctx, f.url); err != nil {
		return s, err
	}
	connection, environ, err := withoutPassword(f.as)
	if err != nil {
		return s, err
	}
	if err := execute(ctx, environ, program, "--dbname="+connection, "--pgdata="+folder, "--checkpoint=fast", "--wal-method=stream",
		"--no-password", "--manifest-checksums=SHA256"); err != nil {
		return s, err
	}
	if s.EndedAt, err = timeAt(ctx, f.url); err != nil {
		return s, err
	}
	if err := verify(ctx, folder, b.Out); err != nil {
		return s, err
	}
	if !hasSettings(folder) {
		_, _ = fmt.Fprintf(b.Out, "%s: its settings lie outside its data folder: copy them, too, on Debian /etc/postgresql\n", s.Folder)
	}
	wal, err := readRange(folder)
	if err != nil {
		return s, err
	}
	s.Timeline, s.StartLSN, s.EndLSN = wal.Timeline, wal.StartLSN, wal.EndLSN
	s.ManifestSHA256, err = sumOf(filepath.Join(folder, "backup_manifest"))
	_, _ = fmt.Fprintf(b.Out, "%s: WAL %s to %s, ended %s\n", s.Folder, s.StartLSN, s.EndLSN, s.EndedAt.Format(time.RFC3339))
	return s, err
}

// elsewhere has the ways to a base backup where this one is refused.
const elsewhere = `
As an administrator of the server: create role paceline_backup login replication password '...'; and, where pg_hba.conf has no such line:
  host replication paceline_backup 127.0.0.1/32 scram-sha-256
Then give --onboarding postgres://paceline_backup@HOST/postgres, with PGPASSWORD set (and --messaging, where that is another server).
A managed service makes its own backups and lets nobody replicate: switch its point-in-time recovery on for both databases, restore with its
console, and then run paceline settle. With archiving by pgBackRest, WAL-G or Barman restore by these.`

// mayReplicate returns an error with the ways out when the login may not replicate.
func mayReplicate(ctx context.Context, as, system string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	cfg, err := postgres.Parse(as)
	if err != nil {
		return err
	}
	cfg.RuntimeParams = map[string]string{"replication": "true"}
	conn, err := pgconn.ConnectConfig(ctx, &cfg.Config)
	if refusal, is := errors.AsType[*pgconn.PgError](err); is && (refusal.Code == codeNotPermitted || refusal.Code == codeNoEntry) {
		return fmt.Errorf("%s may not replicate, which a base backup needs: %s%s", cfg.User, refusal.Message, elsewhere)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	results, err := conn.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll()
	if err != nil {
		return err
	}
	if its := string(results[0].Rows[0][0]); its != system {
		return fmt.Errorf("%s:%d is another server than that of the database: system %s, not %s", cfg.Host, cfg.Port, its, system)
	}
	return nil
}

// timeAt returns the time by a server's clock.
func timeAt(ctx context.Context, url string) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	conn, err := postgres.Connect(ctx, url)
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, "select clock_timestamp()").Scan(&at)
	return at.UTC(), err
}

// withoutPassword takes the password out of a URL, for arguments are seen by all users, and returns the variable that has it. It refuses
// what it cannot take out; its errors quote nothing.
func withoutPassword(as string) (connection string, environ []string, err error) {
	environ = os.Environ()
	u, err := url.Parse(as)
	if err != nil || u.Scheme == "" {
		return "", nil, errors.New("the login of a backup is no URL: give postgres://NAME@HOST/postgres, with PGPASSWORD set")
	}
	if u.Query().Has("sslpassword") {
		return "", nil, errors.New("the login of a backup has sslpassword, which all users of the machine would see: " +
			"give a key without a passphrase")
	}
	query := u.Query()
	password, has := u.User.Password()
	if !has {
		password = query.Get("password")
	}
	query.Del("password")
	u.RawQuery = query.Encode()
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	if password != "" {
		environ = append(environ, "PGPASSWORD="+password)
	}
	return u.String(), environ, nil
}

// verify compares a base backup with the checksums that the server made of it.
func verify(ctx context.Context, folder string, out io.Writer) error {
	program, err := embeddedpg.Program("pg_verifybackup")
	if errors.Is(err, exec.ErrNotFound) {
		_, _ = fmt.Fprintln(out, "not verified: there is no pg_verifybackup on this machine")
		return nil
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "verifies %s\n", folder)
	return execute(ctx, os.Environ(), program, "--quiet", folder)
}

// execute runs one of PostgreSQL's programs; its error has what the program said.
func execute(ctx context.Context, environ []string, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	var said bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it removes what it has written
	cmd.WaitDelay = lookTimeout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(said.String()))
	}
	return nil
}
