package embeddedpg

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runningChild starts a child and returns it with its server's process number and folder once the server answers.
func runningChild(t *testing.T, cmd *exec.Cmd) (stdin io.Closer, server int, dir string) {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscan(line, &server, &dir)
	require.NoError(t, err)
	return in, server, dir
}

func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("OfTheProcessEndsTheServerAndTheDataSurvives", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		cmd := childProcess(t, dir)
		_, server, _ := runningChild(t, cmd)
		require.False(t, gone(server))
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		startTest(t, dir) // at once: the old server may still be going down
		requireGone(t, server)
	})

	t.Run("LeavesATemporaryFolderThatTheNextStartRemoves", func(t *testing.T) {
		t.Parallel()
		cmd := childProcess(t, "")
		_, server, dir := runningChild(t, cmd)
		require.DirExists(t, dir)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		requireGone(t, server)
		require.Eventually(t, func() bool { // another test of this binary may be first
			folder, err := temporaryFolder(t.Context(), throwawayPlace())
			require.NoError(t, err)
			require.NoError(t, folder.close())
			_, err = os.Stat(dir)
			return os.IsNotExist(err)
		}, 10*time.Second, 10*time.Millisecond)
	})

	// The folder of unfinished data shows how far initdb is.
	moments := []struct{ name, file string }{
		{name: "BeforeInitdb", file: ""},
		{name: "AsInitdbStarts", file: "PG_VERSION"},
		{name: "InTheMiddleOfInitdb", file: "global/pg_control"},
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		for _, moment := range moments {
			t.Run(fmt.Sprintf("%s/%v", moment.name, sig), func(t *testing.T) {
				t.Parallel()
				dir := testDir(t)
				for !interrupt(t, dir, moment.file, sig) { // initdb was faster than we
					require.NoError(t, os.RemoveAll(filepath.Join(dir, "data")))
				}
				startTest(t, dir)
				leftovers, err := filepath.Glob(filepath.Join(dir, "init-*"))
				require.NoError(t, err)
				require.Empty(t, leftovers)
			})
		}
	}
}

// interrupt signals a child as soon as its unfinished data has the file, and reports whether it is still unfinished.
func interrupt(t *testing.T, dir, file string, sig syscall.Signal) bool {
	t.Helper()
	cmd := childProcess(t, dir)
	cmd.Stderr = nil // it says that it was interrupted
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		begun, err := filepath.Glob(filepath.Join(dir, "init-*", file))
		require.NoError(t, err)
		done, err := filepath.Glob(filepath.Join(dir, "data"))
		require.NoError(t, err)
		return len(begun)+len(done) > 0
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(sig))
	require.NoError(t, in.Close())
	finished := cmd.Wait() == nil
	_, err = os.Stat(filepath.Join(dir, "data"))
	require.False(t, finished && err != nil)
	return os.IsNotExist(err)
}

func TestUnprivilegedUserNeedsNoRoot(t *testing.T) {
	t.Parallel()
	credential := nobody(t)
	home := testDir(t)
	require.NoError(t, os.Chown(home, int(credential.Uid), int(credential.Gid)))
	binary := filepath.Join(home, "cluster.test") // go test's own folder is closed to others
	content, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	writeProgram(t, binary, content)

	cmd := childProcess(t, filepath.Join(home, "cluster"))
	cmd.Path, cmd.Args, cmd.Dir = binary, []string{binary}, home
	cmd.SysProcAttr.Credential = credential
	in, server, _ := runningChild(t, cmd)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.True(t, gone(server))
}

func TestWatchdog(t *testing.T) {
	t.Parallel()
	// what a killed process leaves to the watchdog is the end of its pipe
	start := func(t *testing.T) (*exec.Cmd, func(), *os.File) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		release, lifeline, err := startWatched(cmd)
		require.NoError(t, err)
		return cmd, release, lifeline
	}

	t.Run("EndsTheServerWhenWeDie", func(t *testing.T) {
		t.Parallel()
		cmd, _, lifeline := start(t)
		require.NoError(t, lifeline.Close())
		require.ErrorContains(t, cmd.Wait(), "quit")
	})

	t.Run("EndsWithTheServer", func(t *testing.T) {
		t.Parallel()
		cmd, release, lifeline := start(t)
		defer release()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM)) // it is the server's own process number
		require.ErrorContains(t, cmd.Wait(), "terminated")
		require.Eventually(t, func() bool { // no process is left to read what release writes
			_, err := lifeline.WriteString("\n")
			return errors.Is(err, syscall.EPIPE)
		}, 10*time.Second, 5*time.Millisecond)
	})
}
