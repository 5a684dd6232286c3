package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// ErrNoBackup is a machine that has no pg_basebackup among its server programs: the archives that can be downloaded come without it.
var ErrNoBackup = errors.New("embedded postgres: there is no pg_basebackup next to the server programs; install PostgreSQL's package")

// Standby starts a throwaway server that follows this one asynchronously, from a base backup. The caller stops it.
func (c *Server) Standby(ctx context.Context) (_ *Server, err error) {
	s, err := c.Spare(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Backup(ctx, c, "--write-recovery-conf"); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, s.Begin(ctx)
}

// Spare makes the folders of a throwaway server that has no data yet, so that its URL is known.
func (c *Server) Spare(ctx context.Context) (_ *Server, err error) {
	if _, err := os.Stat(filepath.Join(c.bin, "pg_basebackup")); err != nil {
		return nil, ErrNoBackup
	}
	s := &Server{done: make(chan struct{}), owner: c.owner, bin: c.bin}
	cfg := Config{Throwaway: true}
	if s.folder, err = cfg.folder(ctx); err != nil {
		return nil, err
	}
	if s.sockets, err = socketFolder(ctx, s.folder); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// Data is the folder of a server's data. A spare one has none yet.
func (c *Server) Data() string { return c.folder.path("data") }

// Begin starts a spare server on its backup. The caller stops it.
func (c *Server) Begin(ctx context.Context) error {
	if err := c.makeSocketFolder(); err != nil {
		return errors.Join(err, c.release())
	}
	if err := c.serve(ctx, true); err != nil {
		return errors.Join(err, c.release())
	}
	go c.watch()
	return nil
}

// Backup makes the data of a spare server a base backup of another server.
func (c *Server) Backup(ctx context.Context, of *Server, options ...string) error {
	data := c.folder.path("data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	if err := c.owner.own(data); err != nil {
		return err
	}
	log, err := c.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only the child writes to it
	backup, err := spawn(c.command(log, "pg_basebackup", append([]string{
		"--pgdata=" + data, "--host=" + of.sockets.path("socket"), "--port=5432", "--username=" + superuser, "--checkpoint=fast",
		"--wal-method=stream", "--no-sync",
	}, options...)...))
	if err != nil {
		return c.explain("start pg_basebackup", err)
	}
	select {
	case <-backup.done:
	case <-ctx.Done():
		backup.quit()
		return fmt.Errorf("embedded postgres: pg_basebackup: %w", ctx.Err())
	}
	if backup.err != nil {
		return c.explain("pg_basebackup", backup.err)
	}
	return nil
}

// Unfollow cuts a standby off from what it follows: it gets no further commits.
func (c *Server) Unfollow(ctx context.Context) error {
	return run(ctx, c.URL(superuser, superuser), []statement{
		{sql: "alter system set primary_conninfo = ''"}, {sql: "select pg_reload_conf()"},
	})
}

// Promote makes a standby a primary, and returns when it takes writes.
func (c *Server) Promote(ctx context.Context) error {
	return run(ctx, c.URL(superuser, superuser), []statement{{sql: "select pg_promote()"}})
}

// CaughtUp waits until a standby has replayed all that another server has committed so far.
func (c *Server) CaughtUp(ctx context.Context, with *Server) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	primary, err := pgx.Connect(ctx, with.URL(superuser, superuser))
	if err != nil {
		return err
	}
	defer func() { _ = primary.Close(ctx) }() // nothing was written
	standby, err := pgx.Connect(ctx, c.URL(superuser, superuser))
	if err != nil {
		return err
	}
	defer func() { _ = standby.Close(ctx) }() // the same
	var end string
	if err := primary.QueryRow(ctx, "select pg_current_wal_insert_lsn()::text").Scan(&end); err != nil {
		return err
	}
	for {
		var there bool
		err := standby.QueryRow(ctx, "select pg_last_wal_replay_lsn() >= $1::pg_lsn", end).Scan(&there)
		if err != nil || there {
			return err
		}
		if !pause(ctx, pollInterval) {
			return fmt.Errorf("embedded postgres: the standby does not catch up: %w", ctx.Err())
		}
	}
}

// Host is the folder of the server's socket, the host of a URL with several.
func (c *Server) Host() string { return c.sockets.path("socket") }
