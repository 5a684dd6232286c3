package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/postgres/embeddedpg"
)

// privatePostgres is a private server, with the durability of production, that can be killed.
type privatePostgres struct {
	dir                   string
	server                *embeddedpg.Server
	onboarding, messaging string // URLs, the same after every restart
	version               string
}

func startPostgres(ctx context.Context, dir string) (*privatePostgres, error) {
	p := &privatePostgres{dir: dir}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	p.onboarding, p.messaging = p.server.URL(stack.Onboarding, stack.Onboarding), p.server.URL(stack.Messaging, stack.Messaging)
	err := errors.Join(p.server.EnsureService(ctx, stack.Onboarding), p.server.EnsureService(ctx, stack.Messaging))
	if err == nil {
		err = p.examine(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop(context.WithoutCancel(ctx)))
	}
	return p, nil
}

func (p *privatePostgres) start(ctx context.Context) (err error) {
	p.server, err = embeddedpg.Start(ctx, embeddedpg.Config{Dir: p.dir})
	return err
}

const sqlDurable = `
select current_setting('server_version'),
       current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on' and current_setting('synchronous_commit') = 'on'`

// examine makes sure that a kill of this server is as harmless as that of a real one.
func (p *privatePostgres) examine(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, p.onboarding)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var durable bool
	if err := conn.QueryRow(ctx, sqlDurable).Scan(&p.version, &durable); err != nil {
		return err
	}
	if !durable {
		return errors.New("this Postgres is not durable: fsync, full_page_writes and synchronous_commit must be on")
	}
	return nil
}

// kill ends the postmaster and every one of its children with SIGKILL. A child that is born in this instant sees by itself
// that its parent has gone.
func (p *privatePostgres) kill() error {
	if err := signalServer(filepath.Join(p.dir, "data"), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill Postgres: %w", err)
	}
	<-p.server.Done()
	return nil
}

// signalServer tells the postmaster of a data folder something, and then every one of its children.
func signalServer(data string, signal syscall.Signal) error {
	postmaster, err := postmasterOf(data)
	if err != nil {
		return err
	}
	children := childrenOf(postmaster)
	if err := syscall.Kill(postmaster, signal); err != nil {
		return err
	}
	for _, child := range children {
		_ = syscall.Kill(child, signal) // it may have ended with its parent
	}
	return nil
}

// postmasterOf is the first process of a server, as it wrote down itself.
func postmasterOf(data string) (int, error) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%q is no process", first)
	}
	return pid, nil
}

// revive starts the server again on its data: it recovers from its log first, as after any crash.
func (p *privatePostgres) revive(ctx context.Context) error {
	if err := p.server.Stop(ctx); err != nil { // frees the folder
		return err
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	if p.server.URL(stack.Onboarding, stack.Onboarding) != p.onboarding {
		return errors.New("postgres came back at another address")
	}
	return nil
}

func (p *privatePostgres) stop(ctx context.Context) error {
	if p.server == nil {
		return nil
	}
	return p.server.Stop(ctx)
}

// childrenOf reads the kernel's list of processes. Where there is none such as Linux's, it is empty: the children of a dead
// postmaster end by themselves soon.
func childrenOf(parent int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var children []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid ...", and a name may hold anything but is the last in parentheses
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}
