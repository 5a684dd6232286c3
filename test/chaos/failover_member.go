package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/wire"
)

// member is one server and its Patroni.
type member struct {
	name, data  string
	sql, rest   string     // addresses of the server and of Patroni's API
	etcd        *wire.Wire // from this member to etcd
	replication *wire.Wire // from the other member to this one
	cfg         stack.ChildConfig
	patroni     *stack.Child
}

// role is a path of Patroni's API that answers 200 to a member in this role.
type role string

const (
	primary            role = "primary"
	standby            role = "replica"
	synchronousStandby role = "sync"
)

// The pace of Patroni. A machine that is merely busy loses no leader within it; a primary that is gone is replaced after about ttl.
const (
	leaderTTL    = 20
	loopWait     = 5
	retryTimeout = 5
)

func (c *cluster) newMember(ctx context.Context, name string) (*member, error) {
	ports, err := stack.FreePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	dir, err := c.folder(name)
	if err != nil {
		return nil, err
	}
	m := &member{name: name, data: filepath.Join(dir, "data"), sql: ports[0], rest: ports[1]}
	if m.etcd, err = wire.Open(ctx, "tcp", c.etcdAddr); err != nil {
		return nil, err
	}
	if m.replication, err = wire.Open(ctx, "tcp", m.sql); err != nil {
		return m, err
	}
	config, err := json.Marshal(c.patroniConfig(m, dir)) // JSON is YAML
	if err != nil {
		return m, err
	}
	file := filepath.Join(dir, "patroni.yml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return m, err
	}
	if c.as != nil {
		if err := os.Chown(file, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return m, err
		}
	}
	m.cfg = c.child(name, c.patroni, file)
	return m, nil
}

type object = map[string]any

// patroniConfig leads everything that leaves the member over its wires, but for Patroni's API. use_proxies keeps Patroni from asking
// etcd for another address.
func (c *cluster) patroniConfig(m *member, dir string) object {
	login := func(name string) object { return object{"username": name, "password": c.password} }
	return object{
		"scope": "paceline", "name": m.name,
		"restapi": object{"listen": m.rest, "connect_address": m.rest},
		"etcd3":   object{"hosts": []string{m.etcd.Addr}, "use_proxies": true},
		"bootstrap": object{
			"dcs": object{
				"ttl": leaderTTL, "loop_wait": loopWait, "retry_timeout": retryTimeout, "synchronous_mode": c.synchronous,
				// An asynchronous standby is promoted however far it is behind: the run tries the loss.
				"maximum_lag_on_failover": 1 << 30,
				"postgresql": object{"use_pg_rewind": true, "parameters": object{
					"max_connections": 200, "dynamic_shared_memory_type": "mmap", "timezone": "UTC",
				}},
			},
			"initdb": []any{object{"encoding": "UTF8"}, object{"locale": "C"}, "data-checksums"},
		},
		"postgresql": object{
			"listen": m.sql, "connect_address": m.replication.Addr, "data_dir": m.data, "bin_dir": c.postgres,
			"pgpass":         filepath.Join(dir, "pgpass"),
			"authentication": object{"superuser": login("postgres"), "replication": login("replicator")},
			"parameters":     object{"unix_socket_directories": dir},
			//nolint:dupword // of every database and every login
			"pg_hba": []string{"host all all 127.0.0.1/32 scram-sha-256", "host replication replicator 127.0.0.1/32 scram-sha-256"},
		},
	}
}

func (m *member) start() (err error) {
	m.patroni, err = stack.StartChild(m.cfg)
	return err
}

// is asks Patroni whether the member has a role now.
func (m *member) is(ctx context.Context, r role) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	status, _, err := call(ctx, http.MethodGet, "http://"+m.rest+"/"+string(r), nil)
	return err == nil && status == http.StatusOK
}

// call asks a program of the cluster something, over a new connection: those of a member that was frozen stay open.
func call(ctx context.Context, method, url string, body []byte) (status int, said []byte, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	said, err = io.ReadAll(response.Body)
	return response.StatusCode, said, errors.Join(err, response.Body.Close())
}

// switchoverBound limits the time of a switchover.
const switchoverBound = time.Minute

// handOver asks Patroni for a switchover, and returns when it is done.
func (m *member) handOver(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, switchoverBound)
	defer cancel()
	body, err := json.Marshal(object{"leader": m.name})
	if err != nil {
		return err
	}
	status, said, err := call(ctx, http.MethodPost, "http://"+m.rest+"/switchover", body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, said)
	}
	if err != nil {
		return fmt.Errorf("ask for a switchover: %w", err)
	}
	return nil
}

// kill ends Patroni and the server with SIGKILL.
func (m *member) kill() error {
	m.patroni.Kill()
	return signalServer(m.data, syscall.SIGKILL)
}

// freeze stops Patroni and the server, which keep their connections; thaw has them go on.
func (m *member) freeze() error {
	m.patroni.Signal(syscall.SIGSTOP)
	return signalServer(m.data, syscall.SIGSTOP)
}

func (m *member) thaw() error {
	err := signalServer(m.data, syscall.SIGCONT)
	m.patroni.Signal(syscall.SIGCONT)
	return err
}

// isAlive reports whether a process runs. One that has ended stays in the list until its parent has looked.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return syscall.Kill(pid, 0) == nil && runtime.GOOS != "linux"
	}
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// close ends the member and its wires. A server that is told SIGQUIT leaves nothing behind in the system.
func (m *member) close() error {
	var problems []error
	if m.patroni != nil {
		m.patroni.Kill()
		if pid, err := postmasterOf(m.data); err == nil {
			_ = signalServer(m.data, syscall.SIGCONT)
			_ = syscall.Kill(pid, syscall.SIGQUIT)
			for range 50 { // its own children have five seconds
				if !isAlive(pid) || !pause(context.Background(), lookAgain/2) {
					break
				}
			}
			_ = signalServer(m.data, syscall.SIGKILL) // most have gone
		}
	}
	for _, w := range []*wire.Wire{m.etcd, m.replication} {
		if w != nil {
			problems = append(problems, w.Close())
		}
	}
	return errors.Join(problems...)
}
