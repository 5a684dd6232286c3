// Package embeddedpg runs a private PostgreSQL server for a process: found on the machine or downloaded, reached by a unix
// socket only, and never outliving the process that started it.
package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	superuser = "postgres"

	// startTimeout bounds the wait for the server to answer, crash recovery included.
	startTimeout = time.Minute
	// fastTimeout bounds the orderly stop, which disconnects all clients and writes a checkpoint.
	fastTimeout = 10 * time.Second
	// pollInterval is the pause between two tries of a starting server. It needs about 30 ms.
	pollInterval = 5 * time.Millisecond
	// takeoverAttempts and takeoverPause bound the wait of a start for a predecessor that was killed and is still going down,
	// six seconds in all: a server that stops at once kills what is left of its children after five.
	takeoverAttempts = 30
	takeoverPause    = 200 * time.Millisecond
)

// codeLockFileExists is the SQLSTATE of a server that finds another one's lock file or shared memory.
const codeLockFileExists = "F0001"

// Config sets the folder in which the server lives and how careful it is. The zero value is a temporary server that keeps its promises.
type Config struct {
	// Dir keeps the server between runs; see DefaultDir. Empty means a temporary folder that Stop removes, or, after a
	// kill, the next temporary server.
	Dir string
	// Throwaway trades safety against crashes for speed. For tests.
	Throwaway bool
	// Seed makes the data that a throwaway server begins with; without one it is empty.
	Seed Seed
	// Mirror is the Maven repository that server binaries come from when the machine has none. Default: Maven Central.
	Mirror string
}

func (cfg Config) folder(ctx context.Context) (*folder, error) {
	switch {
	case cfg.Dir != "":
		return openFolder(ctx, cfg.Dir)
	case cfg.Throwaway:
		return temporaryFolder(ctx, throwawayPlace())
	default:
		return temporaryFolder(ctx, temporaryPlace())
	}
}

// Server is a running PostgreSQL. Only the user that runs it and root can reach its socket, and they need no password.
type Server struct {
	folder  *folder
	sockets *folder // where the socket lies; the same as folder unless that path is too long for a socket
	owner   owner
	bin     string
	server  *process

	mu      sync.Mutex
	stopped bool // Stop was called: an exit is no failure
	err     error
	done    chan struct{}
}

// Start brings the server up, creating it in Dir if there is none, and returns when it answers. Every failure says what
// to do about it and leaves nothing running. The caller stops it; should the process die instead, the server dies too.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	return start(ctx, cfg, machine(cfg.Mirror))
}

func start(ctx context.Context, cfg Config, from finder) (_ *Server, err error) {
	c := &Server{done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.release())
		}
	}()
	if c.folder, err = cfg.folder(ctx); err != nil {
		return nil, err
	}
	if c.owner, err = serverOwner(c.folder.path("data")); err != nil {
		return nil, err
	}
	if c.sockets, err = socketFolder(ctx, c.folder); err != nil {
		return nil, err
	}
	if c.bin, err = from.find(ctx, c.folder.path("data")); err != nil {
		return nil, err
	}
	if cfg.Seed.Name != "" {
		err = c.sow(ctx, cfg.Seed)
	} else {
		err = c.initialise(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := c.makeSocketFolder(); err != nil {
		return nil, err
	}
	if err := c.serve(ctx, cfg.Throwaway); err != nil {
		return nil, err
	}
	go c.watch()
	return c, nil
}

// serve starts the server and waits for it to answer. A predecessor that was killed a moment ago may still hold the data:
// the server notices by its lock file or its shared memory and gives up, and is tried again for a while. If it is the
// lock file alone that stands in the way, because its process number now belongs to something else, it is removed; a
// server that is still alive would be betrayed by its shared memory.
func (c *Server) serve(ctx context.Context, throwaway bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for range takeoverAttempts {
		err := c.tryServe(ctx, throwaway)
		if err == nil || !c.dataInUse() || !pause(ctx, takeoverPause) {
			return err
		}
	}
	if err := os.Remove(c.folder.path("data", "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	return c.tryServe(ctx, throwaway)
}

// dataInUse reports whether the last attempt to start failed because another server seems to run on the same data.
func (c *Server) dataInUse() bool { return strings.Contains(c.logTail(), " "+codeLockFileExists+" ") }

func (c *Server) tryServe(ctx context.Context, throwaway bool) error {
	log, err := c.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only the child writes to it
	args := []string{
		"-D", c.folder.path("data"), "-k", c.sockets.path("socket"),
		"-c", "listen_addresses=", "-c", "port=5432", "-c", "unix_socket_permissions=0700",
		"-c", "timezone=UTC", "-c", "log_timezone=UTC", "-c", "log_line_prefix=%m [%p] %e ",
		"-c", "logging_collector=off", "-c", "log_destination=stderr",
	}
	if throwaway {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
			"-c", "autovacuum=off",
			"-c", "max_connections=600", // a machine with many cores runs many tests at once, each with its own pools
			"-c", "max_wal_size=128MB", // it may lie in memory
			"-c", "dynamic_shared_memory_type=mmap") // in the data folder: nothing is left after a kill
	}
	server, err := spawn(c.command(log, "postgres", args...))
	if err != nil {
		return c.explain("start", err)
	}
	if err := c.answers(ctx, server); err != nil {
		server.quit()
		return err
	}
	c.server = server
	return nil
}

// answers waits until the server takes a connection, has exited, or ctx ends.
func (c *Server) answers(ctx context.Context, server *process) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.URL(superuser, superuser))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-server.done:
			return c.explain("the server gave up while starting", server.err)
		case <-ctx.Done():
			return c.explain("the server did not answer", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// watch turns the end of the server into Done and Err.
func (c *Server) watch() {
	<-c.server.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.err = c.explain("the server exited", c.server.err)
	}
	close(c.done)
}

// Done is closed when the server has ended, for whatever reason.
func (c *Server) Done() <-chan struct{} { return c.done }

// Err is nil while the server runs and after Stop; it says why the server ended otherwise.
func (c *Server) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stop ends the server: in order and with a checkpoint for as long as ctx lasts, ten seconds at most, then at once. It
// frees the folder, and removes it when it is temporary. Further calls do nothing.
func (c *Server) Stop(ctx context.Context) error {
	c.mu.Lock()
	again := c.stopped
	c.stopped = true
	c.mu.Unlock()
	if again {
		<-c.done
		return nil
	}
	if c.server == nil { // a spare that was never begun
		close(c.done)
		return c.release()
	}
	return errors.Join(c.stopServer(ctx), c.release())
}

func (c *Server) stopServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fastTimeout)
	defer cancel()
	c.server.signal(syscall.SIGINT)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	c.server.quit()
	<-c.done
	return nil
}

func (c *Server) release() error {
	var errs []error
	if c.sockets != nil && c.sockets != c.folder {
		errs = append(errs, c.sockets.close())
	}
	if c.folder != nil {
		errs = append(errs, c.folder.close())
	}
	return errors.Join(errs...)
}

// URL returns the URL by which user reaches database.
func (c *Server) URL(database, user string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + database, RawQuery: url.Values{
		"host": {c.sockets.path("socket")}, "port": {"5432"}, "user": {user},
	}.Encode()}
	return u.String()
}

// command prepares a server program to run as the server's owner, with its output in log. Of our environment it gets what
// programs need to run, and neither PG* variables, which would redirect it, nor secrets, which are not its business.
func (c *Server) command(log *os.File, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...) //nolint:noctx,gosec // it outlives ctx; bin was returned by find
	cmd.Dir = c.folder.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner.credential, Setpgid: true} // Ctrl-C is ours alone
	return cmd
}
