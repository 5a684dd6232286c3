package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childDir makes the test binary a process that runs a server there until its standard input or it ends. It lets tests
// see what happens to a server when its process is killed, or belongs to another user.
const childDir = "PACELINE_CLUSTER_TEST_DIR"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(childDir); ok {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

func child(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := Start(ctx, Config{Dir: dir, Throwaway: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = fmt.Fprintln(os.Stdout, c.server.cmd.Process.Pid, c.folder.dir)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := c.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childProcess is the test binary running child.
func childProcess(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return cmd
}

// testDir is t.TempDir for servers: one that the server's user may enter when root runs the tests, and with a short path.
func testDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(throwawayPlace(), "pctest*") //nolint:usetesting // see above
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// writeProgram writes a file that can be run at once; see unpackFile.
func writeProgram(t *testing.T, name string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(name, content, 0o755))
}

// startTest starts a server that stops with the test.
func startTest(t *testing.T, dir string) *Server {
	t.Helper()
	c, err := Start(t.Context(), Config{Dir: dir, Throwaway: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.WithoutCancel(t.Context()))) })
	return c
}

// query runs one statement as user and returns its single value.
func query(t *testing.T, c *Server, database, role, sql string) (value any, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL(database, role))
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		return nil, err
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[any])
	if err != nil || len(values) == 0 {
		return nil, err
	}
	return values[0], nil
}

// gone reports whether the process has ended. A zombie has: who reaps orphans is not ours to test.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, 5*time.Millisecond)
}

// nobody is an unprivileged user to run a child as. It skips the test when we are not root ourselves.
func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	account, err := user.Lookup("nobody")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("needs root, and a user nobody")
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
