package embeddedpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is whom the server runs as: ourselves, or an unprivileged user when we are root, whom PostgreSQL refuses.
type owner struct {
	name       string
	credential *syscall.Credential // nil: ourselves
}

// serverOwner chooses the owner of the data folder when there is one, else postgres, else nobody.
func serverOwner(data string) (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	stat, err := os.Stat(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return owner{}, fmt.Errorf("embedded postgres: %w", err)
	}
	if err == nil {
		if kept, ok := stat.Sys().(*syscall.Stat_t); ok && kept.Uid != 0 {
			return owner{name: strconv.Itoa(int(kept.Uid)), credential: &syscall.Credential{Uid: kept.Uid, Gid: kept.Gid}}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return owner{}, fmt.Errorf("embedded postgres: user %s: %w", name, err)
		}
		return owner{name: name, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return owner{}, errors.New("embedded postgres: PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}

// Unprivileged returns whom a server program has to run as: nil for ourselves, or another user when we are root.
func Unprivileged() (*syscall.Credential, error) {
	o, err := serverOwner("")
	return o.credential, err
}

// Account returns the user that Give gives a data folder to, and the credential to run a program as that user: empty and nil for ourselves.
func Account(data string) (name string, as *syscall.Credential, err error) {
	o, err := serverOwner(data)
	return o.name, o.credential, err
}

// own hands a folder that we made to the server's user.
func (o owner) own(dir string) error {
	if o.credential == nil {
		return nil
	}
	if err := os.Chown(dir, int(o.credential.Uid), int(o.credential.Gid)); err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	return nil
}

// Give changes the owner of a data folder that root has made, and of all in it, to the user of the server: postgres, or nobody.
func Give(data string) error {
	to, err := serverOwner(data)
	if err != nil {
		return err
	}
	return filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return to.own(path)
	})
}
