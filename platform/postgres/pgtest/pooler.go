package pgtest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// pgbouncer runs its arguments until its standard input ends, which it does when the tests do, however they end.
const pgbouncer = `"$@" & pid=$!; read -r _; kill $pid; wait`

const (
	poolerPort = "6432" // the name of its socket
	poolerUp   = 10 * time.Second
)

// Pooler puts a PgBouncer in front of the database of URL and returns the URL through it. It gives its connections to the server, of
// which it has as many as it is told, away by the transaction; further lines for its ini file may follow. The test is skipped where
// PgBouncer is not installed.
func Pooler(tb testing.TB, to string, servers int, lines ...string) string {
	tb.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // where Debian has it, and a user's PATH does not
	}
	if err != nil {
		tb.Skip("PgBouncer is not installed (Debian and Ubuntu: apt install pgbouncer; Fedora: dnf install pgbouncer; " +
			"macOS: brew install pgbouncer)")
	}
	server, err := pgx.ParseConfig(to)
	check(tb, err)
	dir, err := os.MkdirTemp("", "pooler-") //nolint:usetesting // a test's folder may be too long a name for a socket
	check(tb, err)
	tb.Cleanup(func() { check(tb, os.RemoveAll(dir)) })
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%d dbname=%s user=%s password=%s
[pgbouncer]
pool_mode = transaction
default_pool_size = %d
auth_type = any
listen_addr =
listen_port = %s
unix_socket_dir = %s
query_wait_timeout = 20
%s
`, server.Host, server.Port, server.Database, server.User, server.Password, servers, poolerPort, dir, strings.Join(lines, "\n"))
	file := filepath.Join(dir, "pgbouncer.ini")
	check(tb, os.WriteFile(file, []byte(ini), 0o600))
	owner := unprivileged(tb)
	if owner != nil {
		for _, path := range []string{dir, file} {
			check(tb, os.Chown(path, int(owner.Uid), int(owner.Gid)))
		}
	}
	var said bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", pgbouncer, "sh", program, file) //nolint:noctx // it ends with its input
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	stop, err := cmd.StdinPipe()
	check(tb, err)
	check(tb, cmd.Start())
	tb.Cleanup(func() {
		check(tb, stop.Close())
		_ = cmd.Wait() // what it says of having been stopped
		if tb.Failed() {
			tb.Log(said.String())
		}
	})
	through := url.URL{Scheme: "postgres", Path: "/" + server.Database, RawQuery: url.Values{
		"host": {dir}, "port": {poolerPort}, "user": {server.User},
	}.Encode()}
	require.Eventually(tb, func() bool {
		conn, err := pgx.Connect(tb.Context(), through.String()+"&default_query_exec_mode=simple_protocol")
		return err == nil && conn.Close(tb.Context()) == nil
	}, poolerUp, 20*time.Millisecond)
	return through.String()
}

// unprivileged is whom the server runs as when we are root, whom PgBouncer refuses; nil is ourselves.
func unprivileged(tb testing.TB) *syscall.Credential {
	tb.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	check(tb, err)
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	check(tb, err)
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	check(tb, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
