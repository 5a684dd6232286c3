package embeddedpg

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// seedAge bounds the time for which an unused seed is kept.
const seedAge = 7 * 24 * time.Hour

// Seed is data that throwaway servers begin with, in place of an empty database: made once, kept in DefaultDir, and unpacked by each.
type Seed struct {
	// Name identifies the data. Change it with everything that changes what Fill makes.
	Name string
	// Fill makes the data on an empty server. Without it the server stays empty.
	Fill func(ctx context.Context, on *Server) error
}

// seedFile returns the path of a seed's archive for these server programs, which read no others' data. Only its owner may
// read the folder.
func (c *Server) seedFile(name string) (string, error) {
	folder := filepath.Join(DefaultDir(), "seeds")
	for _, dir := range []string{DefaultDir(), folder} {
		if err := makePrivate(dir); err != nil {
			return "", err
		}
	}
	program, err := filepath.EvalSymlinks(filepath.Join(c.bin, "postgres"))
	if err != nil {
		return "", fmt.Errorf("embedded postgres: %w", err)
	}
	stat, err := os.Stat(program)
	if err != nil {
		return "", fmt.Errorf("embedded postgres: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %d", name, program, stat.Size(), stat.ModTime().UnixNano()))
	return filepath.Join(folder, hex.EncodeToString(sum[:12])+".tar"), nil
}

// sow makes the data folder from the seed, which it makes first if there is none. Where no seed can be kept, each server makes its data.
func (c *Server) sow(ctx context.Context, seed Seed) error {
	file, noFile := c.seedFile(seed.Name)
	if noFile == nil {
		if err := c.unpack(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := c.initialise(ctx); err != nil {
		return err
	}
	if seed.Fill != nil {
		if err := c.fill(ctx, seed); err != nil {
			return err
		}
	}
	if noFile == nil {
		_ = c.pack(file) // the next server tries again
	}
	return nil
}

// fill runs the server while the seed fills it.
func (c *Server) fill(ctx context.Context, seed Seed) error {
	if err := c.makeSocketFolder(); err != nil {
		return err
	}
	if err := c.serve(ctx, true); err != nil {
		return err
	}
	err := seed.Fill(ctx, c)
	c.server.signal(syscall.SIGINT)
	select {
	case <-c.server.done:
	case <-ctx.Done():
		c.server.quit()
		err = errors.Join(err, ctx.Err())
	case <-time.After(fastTimeout): //nolint:forbidigo // the server keeps real time
		c.server.quit()
		err = errors.Join(err, errors.New("embedded postgres: the server did not stop after its seed was made"))
	}
	return err
}

// pack keeps the data folder of a stopped server as a seed, and removes seeds that no server used for seedAge.
func (c *Server) pack(file string) (err error) {
	kept, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	for _, old := range kept {
		if stat, err := os.Stat(old); err == nil && time.Since(stat.ModTime()) > seedAge { //nolint:forbidigo // the age of a file
			_ = os.Remove(old) // a server that is reading it can read on
		}
	}
	to, err := os.CreateTemp(filepath.Dir(file), "*.new")
	if err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	archive := tar.NewWriter(to)
	err = errors.Join(archive.AddFS(os.DirFS(c.folder.path("data"))), archive.Close(), to.Close())
	if err == nil {
		err = os.Rename(to.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("embedded postgres: keep a seed: %w", err), os.Remove(to.Name()))
	}
	return nil
}

// unpack makes the data folder from an archive.
func (c *Server) unpack(file string) error {
	from, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("embedded postgres: %w", err)
	}
	defer func() { _ = from.Close() }()           // it was only read
	_ = os.Chtimes(file, time.Time{}, time.Now()) //nolint:forbidigo // the time of a file; another one is no harm
	data, archive := c.folder.path("data"), tar.NewReader(from)
	err = os.Mkdir(data, 0o700)
	for err == nil {
		var entry *tar.Header
		if entry, err = archive.Next(); err == nil {
			err = c.unpackEntry(filepath.Join(data, filepath.FromSlash(strings.TrimPrefix(entry.Name, "/"))), entry, archive)
		}
	}
	if errors.Is(err, io.EOF) {
		return c.owner.own(data)
	}
	return errors.Join(fmt.Errorf("embedded postgres: unpack %s, remove it: %w", file, err), os.RemoveAll(data))
}

func (c *Server) unpackEntry(name string, entry *tar.Header, archive io.Reader) error {
	if entry.Typeflag == tar.TypeDir {
		if err := os.MkdirAll(name, 0o700); err != nil {
			return err
		}
		return c.owner.own(name)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, archive)
	return errors.Join(err, file.Close(), c.owner.own(name))
}
