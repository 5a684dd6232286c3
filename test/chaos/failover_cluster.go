package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/postgres/embeddedpg"
)

// tools are the programs of a cluster, by their name in Debian's packages.
type tools struct{ patroni, etcd, haproxy, postgres string }

// FailoverPrograms returns an error that names the packages which a run of Failover lacks on this machine.
func FailoverPrograms() error {
	_, err := findTools()
	return err
}

func findTools() (found tools, err error) {
	var missing []string
	for _, one := range []struct {
		program, pkg string
		into         *string
	}{{"patroni", "patroni", &found.patroni}, {"etcd", "etcd-server", &found.etcd}, {"haproxy", "haproxy", &found.haproxy}} {
		for _, candidate := range []string{one.program, "/usr/sbin/" + one.program, "/usr/bin/" + one.program} {
			if path, err := exec.LookPath(candidate); err == nil && *one.into == "" {
				*one.into = path
			}
		}
		if *one.into == "" {
			missing = append(missing, one.pkg)
		}
	}
	if found.postgres, err = embeddedpg.Programs(); err != nil {
		missing = append(missing, "postgresql")
	} else if _, err := os.Stat(filepath.Join(found.postgres, "pg_rewind")); err != nil {
		missing = append(missing, "postgresql (with pg_rewind)")
	}
	if len(missing) > 0 {
		return found, fmt.Errorf("a failover needs Debian's packages patroni, etcd-server, haproxy and postgresql; missing here: %s",
			strings.Join(missing, ", "))
	}
	return found, nil
}

// cluster is two servers under Patroni, which agree by etcd on the primary, and HAProxy before them.
type cluster struct {
	tools

	dir         string
	synchronous bool
	as          *syscall.Credential
	password    string // of every login
	front       string // HAProxy's address, which leads to the primary
	etcdAddr    string
	members     []*member
	children    []*stack.Child // etcd and HAProxy
	janitor     *exec.Cmd
}

// bootBound limits the time until a new cluster has a primary and a standby.
const bootBound = 2 * time.Minute

// startCluster returns what has been started also with an error, to be closed.
func startCluster(ctx context.Context, dir string, synchronous bool) (c *cluster, err error) {
	c = &cluster{dir: dir, synchronous: synchronous, password: rand.Text()}
	if c.tools, err = findTools(); err != nil {
		return c, err
	}
	if c.as, err = embeddedpg.Unprivileged(); err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootBound, errors.New("the cluster did not come up; see "+dir))
	defer cancel()
	for _, stage := range []func(context.Context) error{c.startJanitor, c.startEtcd, c.startMembers, c.startFront, c.makeServices} {
		if err := stage(ctx); err != nil {
			return c, errors.Join(err, context.Cause(ctx))
		}
	}
	return c, nil
}

// janitor kills the servers when we are killed. Patroni's servers outlive it, and so would outlive us.
const janitor = `while kill -0 "$0" 2>/dev/null; do sleep 1; done
for file in "$1"/*/data/postmaster.pid; do kill -9 "$(head -n 1 "$file")" 2>/dev/null; done`

func (c *cluster) startJanitor(context.Context) error {
	c.janitor = exec.Command("sh", "-c", janitor, strconv.Itoa(os.Getpid()), c.dir) //nolint:noctx,gosec // it has to outlive us
	c.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c.janitor.Start()
}

func (c *cluster) startEtcd(ctx context.Context) error {
	ports, err := stack.FreePorts(ctx, 2)
	if err != nil {
		return err
	}
	dir, err := c.folder("etcd")
	if err != nil {
		return err
	}
	client, peer := "http://"+ports[0], "http://"+ports[1]
	c.etcdAddr = ports[0]
	if err := c.start("etcd", c.etcd, "--name", "etcd", "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "etcd="+peer,
		"--heartbeat-interval", "250", "--election-timeout", "2500"); err != nil { // one that is slow is no loss of a leader
		return err
	}
	for !c.decided(ctx) {
		if !pause(ctx, lookAgain) {
			return errors.New("etcd did not come up")
		}
	}
	return nil
}

// decided reports whether etcd knows its version: Patroni ends when it does not.
func (c *cluster) decided(ctx context.Context) bool {
	status, said, err := call(ctx, http.MethodGet, "http://"+c.etcdAddr+"/version", nil)
	return err == nil && status == http.StatusOK && !bytes.Contains(said, []byte("not_decided"))
}

// startMembers starts the first member, which becomes the primary, and then its standby.
func (c *cluster) startMembers(ctx context.Context) error {
	for _, name := range []string{"member-1", "member-2"} {
		m, err := c.newMember(ctx, name)
		if m != nil {
			c.members = append(c.members, m)
		}
		if err != nil {
			return err
		}
		if err := m.start(); err != nil {
			return err
		}
		role := standby
		if len(c.members) == 1 {
			role = primary
		} else if c.synchronous {
			role = synchronousStandby
		}
		for !m.is(ctx, role) {
			select {
			case <-m.patroni.Done():
				return fmt.Errorf("the Patroni of %s ended: %w", name, m.patroni.Err())
			default:
			}
			if !pause(ctx, lookAgain) {
				return fmt.Errorf("%s did not become a %s", name, role)
			}
		}
	}
	return nil
}

// A server is down after three checks that had no answer, and then its connections are ended. A check may take two seconds: members
// of a busy machine are slow.
const frontConfig = `global
    maxconn 500
defaults
    mode tcp
    timeout connect 2s
    timeout check 2s
    timeout client 1h
    timeout server 1h
listen primary
    bind %s
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 3 rise 1 on-marked-down shutdown-sessions
`

func (c *cluster) startFront(ctx context.Context) error {
	ports, err := stack.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	dir, err := c.folder("haproxy")
	if err != nil {
		return err
	}
	c.front = ports[0]
	var config strings.Builder
	_, _ = fmt.Fprintf(&config, frontConfig, c.front) // a builder has no error
	for _, m := range c.members {
		_, port, _ := strings.Cut(m.rest, ":")
		_, _ = fmt.Fprintf(&config, "    server %s %s check port %s\n", m.name, m.sql, port)
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil { //nolint:gosec // another user reads it, and it has no secret
		return err
	}
	if err := c.start("haproxy", c.haproxy, "-db", "-f", file); err != nil {
		return err
	}
	for led := 0; led < 4*len(c.members); led++ { // until its first checks HAProxy leads to each in turn
		conn, err := pgx.Connect(ctx, c.url("postgres", "postgres"))
		if err == nil {
			err = conn.Close(ctx)
		}
		if err == nil {
			continue
		}
		if led = -1; !pause(ctx, lookAgain) {
			return fmt.Errorf("HAProxy does not lead to the primary: %w", err)
		}
	}
	return nil
}

// makeServices makes the two databases, with a password for the login of each.
func (c *cluster) makeServices(ctx context.Context) error {
	at := func(database string) string { return c.url(database, "postgres") }
	for _, service := range databases {
		if err := embeddedpg.EnsureServiceAt(ctx, at, service); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, at("postgres"))
	if err != nil {
		return err
	}
	for _, service := range databases {
		if _, err := conn.Exec(ctx, fmt.Sprintf("alter role %s password '%s'", service, c.password)); err != nil {
			return errors.Join(err, conn.Close(ctx))
		}
	}
	return conn.Close(ctx)
}

// through is the server that the services see.
func (c *cluster) through(ctx context.Context) (*privatePostgres, error) {
	p := &privatePostgres{onboarding: c.url(stack.Onboarding, stack.Onboarding), messaging: c.url(stack.Messaging, stack.Messaging)}
	return p, p.examine(ctx)
}

func (c *cluster) url(database, login string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(login, c.password), Host: c.front, Path: "/" + database,
		RawQuery: "sslmode=disable&target_session_attrs=read-write",
	}
	return u.String()
}

// folder makes a folder that the programs may write to.
func (c *cluster) folder(name string) (string, error) {
	dir := filepath.Join(c.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil || c.as == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(c.as.Uid), int(c.as.Gid))
}

func (c *cluster) start(name string, command ...string) error {
	child, err := stack.StartChild(c.child(name, command...))
	if err == nil {
		c.children = append(c.children, child)
	}
	return err
}

func (c *cluster) child(name string, command ...string) stack.ChildConfig {
	return stack.ChildConfig{
		Name: name, Command: command, Log: filepath.Join(c.dir, name+".log"), As: c.as,
		Environ: map[string]string{"PATH": os.Getenv("PATH"), "LC_ALL": "C", "HOME": filepath.Join(c.dir, name)},
	}
}

func (c *cluster) close() error {
	var problems []error
	for _, m := range c.members {
		problems = append(problems, m.close())
	}
	for _, child := range c.children {
		child.Kill()
	}
	if c.janitor != nil && c.janitor.Process != nil {
		_ = c.janitor.Process.Kill() // it may be asleep
		_ = c.janitor.Wait()         // it was killed
	}
	return errors.Join(problems...)
}
