package embeddedpg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStart(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("KeepsItsDataBetweenRuns", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		c, err := Start(t.Context(), Config{Dir: dir})
		require.NoError(t, err)
		_, err = query(t, c, superuser, superuser, "create table kept as select 42 as answer")
		require.NoError(t, err)
		require.NoError(t, c.Stop(t.Context()))
		require.NoError(t, c.Err())
		<-c.Done()

		answer, err := query(t, startTest(t, dir), superuser, superuser, "select answer from kept")
		require.NoError(t, err)
		require.EqualValues(t, 42, answer)
	})

	t.Run("LeavesNothingOfATemporaryOne", func(t *testing.T) {
		t.Parallel()
		c, err := Start(t.Context(), Config{})
		require.NoError(t, err)
		require.DirExists(t, c.folder.dir)
		fsync, err := query(t, c, superuser, superuser, "show fsync")
		require.NoError(t, err)
		require.Equal(t, "on", fsync)
		require.NoError(t, c.Stop(t.Context()))
		require.NoDirExists(t, c.folder.dir)
		require.NoError(t, c.Stop(t.Context()), "a second Stop does nothing")
	})

	t.Run("ListensOnASocketOnlyThatOthersCannotReach", func(t *testing.T) {
		t.Parallel()
		c := startTest(t, testDir(t))
		addresses, err := query(t, c, superuser, superuser, "show listen_addresses")
		require.NoError(t, err)
		require.Empty(t, addresses)
		stat, err := os.Stat(c.sockets.path("socket"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), stat.Mode().Perm())
		stat, err = os.Stat(c.folder.path("data"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), stat.Mode().Perm())
	})

	t.Run("RefusesAFolderInUse", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		startTest(t, dir)
		_, err := Start(t.Context(), Config{Dir: dir})
		require.ErrorContains(t, err, dir+" is in use by another process")
	})

	t.Run("RefusesAFolderOfAnotherUser", func(t *testing.T) {
		t.Parallel()
		credential := nobody(t)
		dir := testDir(t)
		require.NoError(t, os.Chown(dir, int(credential.Uid), int(credential.Gid)))
		_, err := Start(t.Context(), Config{Dir: dir})
		require.ErrorContains(t, err, "belongs to the user who runs this")
	})

	t.Run("LeavesAFolderAloneThatALinkInTheWayLeadsTo", func(t *testing.T) {
		t.Parallel()
		private := testDir(t)
		require.NoError(t, os.Chmod(private, 0o500))
		link := filepath.Join(testDir(t), "link")
		require.NoError(t, os.Symlink(private, link))
		_, err := makeFolder(link) // as if it had been put there after makePrivate had looked
		require.NoError(t, err)
		stat, err := os.Stat(private)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o500), stat.Mode().Perm())
		require.ErrorContains(t, makePrivate(link), "must be a folder")
	})

	t.Run("RefusesAFolderThatOthersCanWriteTo", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		require.NoError(t, os.Chmod(dir, 0o777))
		_, err := Start(t.Context(), Config{Dir: dir})
		require.ErrorContains(t, err, "no other user can write to")
	})
}

func TestStartOnAFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("RunsAsTheOwnerOfTheDataThatIsThere", func(t *testing.T) {
		t.Parallel()
		credential := nobody(t)
		dir := testDir(t)
		c, err := Start(t.Context(), Config{Dir: dir})
		require.NoError(t, err)
		require.NoError(t, c.Stop(t.Context()))
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if path == dir {
				return err
			}
			return errors.Join(err, os.Lchown(path, int(credential.Uid), int(credential.Gid)))
		}))
		require.NoError(t, os.Chown(c.folder.path("server.log"), 0, 0))
		require.Equal(t, credential.Uid, startTest(t, dir).owner.credential.Uid)
	})

	t.Run("SaysWhenTheServersUserCannotEnter", func(t *testing.T) {
		t.Parallel()
		nobody(t) // root only
		closed := testDir(t)
		require.NoError(t, os.Chmod(closed, 0o700))
		_, err := Start(t.Context(), Config{Dir: filepath.Join(closed, "cluster")})
		require.ErrorContains(t, err, "must be able to enter")
	})

	t.Run("PutsTheSocketElsewhereWhenThePathIsTooLong", func(t *testing.T) {
		t.Parallel()
		c := startTest(t, filepath.Join(testDir(t), strings.Repeat("long", 25)))
		require.NotEqual(t, c.folder.dir, c.sockets.dir)
		one, err := query(t, c, superuser, superuser, "select 1")
		require.NoError(t, err)
		require.EqualValues(t, 1, one)
	})

	t.Run("RefusesTheDataOfAnotherVersion", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("9.6\n"), 0o600))
		_, err := Start(t.Context(), Config{Dir: dir})
		require.ErrorContains(t, err, dir+" was created by PostgreSQL 9.6")
		require.ErrorContains(t, err, "install PostgreSQL 9.6, or set PGBIN")
	})
}

func TestServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("ShowsTheServersOwnWordsWhenItFails", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		c, err := Start(t.Context(), Config{Dir: dir})
		require.NoError(t, err)
		require.NoError(t, c.Stop(t.Context()))
		require.NoError(t, os.WriteFile(c.folder.path("data", "postgresql.conf"), []byte("no_such_setting = on\n"), 0o600))
		_, err = Start(t.Context(), Config{Dir: dir})
		require.ErrorContains(t, err, "no_such_setting")
		require.NoError(t, os.Truncate(c.folder.path("data", "postgresql.conf"), 0))
		startTest(t, dir) // the failure holds neither the lock nor the data
	})

	t.Run("NoticesTheServersDeathAndRecovers", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		c := startTest(t, dir)
		require.NoError(t, c.Err())
		c.server.signal(syscall.SIGKILL)
		<-c.Done()
		require.ErrorContains(t, c.Err(), "killed")
		require.FileExists(t, c.folder.path("data", "postmaster.pid"))
		require.NoError(t, c.Stop(t.Context()))
		startTest(t, dir)
	})

	t.Run("SurvivesAPidFileWhoseNumberAnotherProcessHasNow", func(t *testing.T) {
		t.Parallel()
		dir := testDir(t)
		c, err := Start(t.Context(), Config{Dir: dir})
		require.NoError(t, err)
		pidFile := c.folder.path("data", "postmaster.pid")
		lines, err := os.ReadFile(pidFile)
		require.NoError(t, err)
		require.NoError(t, c.Stop(t.Context()))

		// any process of the server's user will do: another server
		other := strconv.Itoa(startTest(t, testDir(t)).server.cmd.Process.Pid)
		_, rest, _ := strings.Cut(string(lines), "\n")
		require.NoError(t, os.WriteFile(pidFile, []byte(other+"\n"+rest), 0o600))
		require.NoError(t, c.owner.own(pidFile))
		startTest(t, dir)
	})

	t.Run("StopsAtOnceWhenItMayNotWait", func(t *testing.T) {
		t.Parallel()
		c := startTest(t, testDir(t))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Stop(ctx))
		require.True(t, gone(c.server.cmd.Process.Pid))
	})
}

func TestEnsureService(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	c := startTest(t, testDir(t))
	for range 2 { // it may be there already
		require.NoError(t, c.EnsureService(t.Context(), "onboarding"))
		require.NoError(t, c.EnsureService(t.Context(), "messaging"))
	}

	t.Run("OwnsItsDatabase", func(t *testing.T) {
		t.Parallel()
		_, err := query(t, c, "onboarding", "onboarding", "create table sessions (id int)")
		require.NoError(t, err)
		superuser, err := query(t, c, "onboarding", "onboarding", "select current_setting('is_superuser')")
		require.NoError(t, err)
		require.Equal(t, "off", superuser)
	})

	for _, database := range []string{"messaging", "postgres", "template1"} {
		t.Run("CannotConnectTo/"+database, func(t *testing.T) {
			t.Parallel()
			_, err := query(t, c, database, "onboarding", "select 1")
			require.ErrorContains(t, err, "permission denied for database")
		})
	}
}

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		require.Equal(t, "/var/tmp/paceline-root", DefaultDir())
		return
	}
	require.True(t, filepath.IsAbs(DefaultDir()))
}
