package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// initialise creates the data folder. It is made under another name and renamed when it is whole, so that it can be
// interrupted at any instant; what an interrupted one left behind is removed.
func (c *Server) initialise(ctx context.Context) error {
	if _, err := os.Stat(c.folder.path("data")); err == nil {
		return nil
	}
	leftovers, err := filepath.Glob(c.folder.path("init-*"))
	if err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	for _, leftover := range leftovers {
		_ = os.RemoveAll(leftover) // fails while a killed initdb is still going down; then the next start tries again
	}
	fresh, err := os.MkdirTemp(c.folder.dir, "init-*")
	if err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	if err := c.owner.own(fresh); err != nil {
		return err
	}
	log, err := c.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only the child writes to it
	initdb, err := spawn(c.command(log, "initdb", "--pgdata="+fresh, "--username="+superuser,
		"--auth=trust", "--no-sync", "--no-instructions", "--locale=C", "--encoding=UTF8"))
	if err != nil {
		return c.explain("start initdb", err)
	}
	select {
	case <-initdb.done:
	case <-ctx.Done():
		initdb.quit()
		return errors.Join(fmt.Errorf("embedded postgres: initdb: %w", ctx.Err()), os.RemoveAll(fresh))
	}
	if initdb.err != nil {
		return errors.Join(c.explain("initdb", initdb.err), os.RemoveAll(fresh))
	}
	if err := os.Rename(fresh, c.folder.path("data")); err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	return nil
}

// makeSocketFolder makes the folder of the socket, which only the server's user and root may enter: there are no passwords.
func (c *Server) makeSocketFolder() error {
	dir := c.sockets.path("socket")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	return c.owner.own(dir)
}
