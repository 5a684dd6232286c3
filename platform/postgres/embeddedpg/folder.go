package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// maxSocketPath bounds the path of a unix socket: 107 bytes on Linux, 103 on macOS.
	maxSocketPath = 103
	// lockPoll is the pause between two tries of a lock that another process holds.
	lockPoll = 20 * time.Millisecond
	// lockPatience is the time for which a folder's lock is tried before the folder counts as in use.
	lockPatience = 500 * time.Millisecond
)

// DefaultDir returns the folder where a server is kept between runs: paceline/postgres in the user's cache folder. Root uses a folder
// under /var/tmp, because the unprivileged user that the server runs as cannot enter root's home; so does a user without a home.
func DefaultDir() string {
	if os.Geteuid() == 0 {
		return "/var/tmp/paceline-root"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "/var/tmp/paceline-" + strconv.Itoa(os.Geteuid())
	}
	return filepath.Join(cache, "paceline", "postgres")
}

// folder is a directory that this process holds a lock on, with the server's data, socket and log in it.
type folder struct {
	dir       string
	lock      *os.File
	temporary bool
}

func (f *folder) path(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

// openFolder locks dir, creating it when it is missing. A lock that its holder has just lost or let go of may be held for a
// moment longer, by a child of the holder that is between fork and exec; so it is waited for a little.
func openFolder(ctx context.Context, dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("embedded postgres: %w", err)
	}
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	waitCtx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	lock, err := flockWait(waitCtx, dir)
	if err != nil && waitCtx.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("embedded postgres: %s is in use by another process: stop that one, or use another folder", dir)
	}
	if err != nil {
		return nil, err
	}
	return &folder{dir: dir, lock: lock}, nil
}

// temporaryFolder makes a folder in place, next to those of other processes of this user, and removes those of
// processes that have died: their lock is free. The common parent is locked meanwhile, so that a folder is never seen before it is locked.
func temporaryFolder(ctx context.Context, place string) (*folder, error) {
	base := filepath.Join(place, "paceline-"+strconv.Itoa(os.Geteuid()))
	if err := makePrivate(base); err != nil {
		return nil, err
	}
	baseLock, err := flockWait(ctx, base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = baseLock.Close() }() // nothing was written
	leftovers, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("embedded postgres: %w", err)
	}
	for _, leftover := range leftovers {
		sweep(filepath.Join(base, leftover.Name()))
	}
	dir, err := os.MkdirTemp(base, "pg*")
	if err != nil {
		return nil, fmt.Errorf("embedded postgres: %w", err)
	}
	if err := os.Chmod(dir, privateMode()); err != nil {
		return nil, fmt.Errorf("embedded postgres: %w", err)
	}
	f, err := openFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	f.temporary = true
	return f, nil
}

// temporaryPlace returns the parent of temporary folders.
func temporaryPlace() string {
	if os.Geteuid() == 0 {
		return "/tmp" // root's TMPDIR may be closed to the server's user
	}
	return os.TempDir()
}

// throwawayPlace is memory, where there is enough of it: cloning a database makes 300 files, which takes 6 ms there and up
// to 90 ms on a disk. Containers often have no more than 64 MB of it.
func throwawayPlace() string {
	const memory, enough = "/dev/shm", 2 << 30
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memory, &stat); err != nil || stat.Bavail < enough/uint64(stat.Bsize) { //nolint:gosec // a block has a size
		return temporaryPlace()
	}
	return memory
}

// sweep removes a temporary folder that no process holds. When something stands in the way, such as a server that is still
// going down, the next start tries again.
func sweep(dir string) {
	lock, err := flock(dir)
	if err != nil {
		return
	}
	_ = os.RemoveAll(dir)
	_ = lock.Close()
}

// socketFolder is f itself, or a temporary folder when f's path is too long for a socket.
func socketFolder(ctx context.Context, f *folder) (*folder, error) {
	if len(f.path("socket", ".s.PGSQL.5432")) <= maxSocketPath {
		return f, nil
	}
	return temporaryFolder(ctx, temporaryPlace())
}

// close frees the folder, and removes it if it is temporary.
func (f *folder) close() error {
	var err error
	if f.temporary {
		err = os.RemoveAll(f.dir)
	}
	return errors.Join(err, f.lock.Close())
}

// flock locks a directory for as long as the file stays open or the process lives, or fails with EWOULDBLOCK.
func flock(dir string) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// flockWait is flock that waits for its turn.
func flockWait(ctx context.Context, dir string) (*os.File, error) {
	for {
		lock, err := flock(dir)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("embedded postgres: lock %s: %w", dir, err)
		}
		if !pause(ctx, lockPoll) {
			return nil, fmt.Errorf("embedded postgres: lock %s: %w", dir, ctx.Err())
		}
	}
}

// makePrivate makes dir, or checks that the one there is our real folder that no other user can write to: in /tmp
// and /var/tmp another user may have made it first. Others may pass through it when we are root, for the server runs as one.
func makePrivate(dir string) error {
	stat, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		stat, err = makeFolder(dir)
	}
	if err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	owner, ok := stat.Sys().(*syscall.Stat_t)
	if !ok || !stat.IsDir() || int(owner.Uid) != os.Geteuid() || stat.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("embedded postgres: %s must be a folder that belongs to the user who runs this, and that no other user can "+
			"write to: remove it, or use another one", dir)
	}
	return nil
}

// makeFolder changes the mode of nothing but a folder that it made itself: another user may have put a link to another
// one in the way a moment ago.
func makeFolder(dir string) (fs.FileInfo, error) {
	if err := os.MkdirAll(filepath.Dir(dir), privateMode()); err != nil {
		return nil, err
	}
	err := os.Mkdir(dir, privateMode())
	if err == nil {
		err = os.Chmod(dir, privateMode()) // the umask may have closed it to the server's user
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Lstat(dir)
}

func privateMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}
