package embeddedpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/xi2/xz"
)

const (
	mavenCentral = "https://repo1.maven.org/maven2"
	// maxArchive bounds the archive; the real ones are 10 to 35 MB.
	maxArchive = 128 << 20
	// maxUnpacked bounds what comes out of it.
	maxUnpacked = 1 << 30
	// fetchTimeout bounds the whole download.
	fetchTimeout = 5 * time.Minute
)

// archive is a build of PostgreSQL's server programs for one platform: a jar of github.com/zonkyio/embedded-postgres-binaries,
// which is a zip that holds a tar.xz. The zero value means that none is pinned for the platform.
type archive struct {
	artifact string // the Maven artifact without its common prefix
	version  string
	sha256   string
}

// pinned lists the archives by platform. The sums are those that other public projects pin for the same files, since this
// was written where Maven Central cannot be reached: darwin-arm64 is attested by several independent ones, the others by one of
// these. A wrong sum refuses the genuine file; it cannot let another one pass. There is none for musl (Alpine).
func pinned() map[string]archive {
	const version = "17.5.0"
	return map[string]archive{
		"linux-amd64":  {"linux-amd64", version, "646f3269075d1a23904127374e3cdbcef96beb32979fedee25d835877400fcbe"},
		"linux-arm64":  {"linux-arm64v8", version, "e02f27ff50ff2d90b6541d54f3f108505aacd84ea53c2890e976a684bfea2752"},
		"darwin-amd64": {"darwin-amd64", version, "fb70f783928e77c3d6ef5ca8ed644f1ac502f740fcfc032a375c8347820f2bdd"},
		"darwin-arm64": {"darwin-arm64v8", version, "e9d3398e10c2ec926395498b03e75ad1a24eeaed82895e756a7e173b202cf6de"},
	}
}

func (a archive) major() string {
	major, _, _ := strings.Cut(a.version, ".")
	return major
}

// download gets an archive once and keeps what was in it.
type download struct {
	mirror  string
	into    string // the folder of the unpacked ones
	archive archive
}

// fetch returns the folder of the server programs, downloading them unless an earlier run did. Of several processes one
// downloads while the others wait.
func (d download) fetch(ctx context.Context) (string, error) {
	if d.archive == (archive{}) {
		return "", ErrNoServer
	}
	if err := makePrivate(filepath.Dir(d.into)); err != nil {
		return "", err
	}
	if err := makePrivate(d.into); err != nil {
		return "", err
	}
	lock, err := flockWait(ctx, d.into)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // nothing was written
	// The name holds the checksum, so that another pin is another folder.
	dir := filepath.Join(d.into, d.archive.version+"-"+d.archive.sha256[:12])
	if bin, ok := serverFolder(filepath.Join(dir, "bin")); ok {
		return bin, nil
	}
	jar, err := d.get(ctx)
	if err != nil {
		return "", fmt.Errorf("%w; downloading them failed: %w", ErrNoServer, err)
	}
	if err := unpackBeside(jar, dir); err != nil {
		return "", fmt.Errorf("%w; unpacking the downloaded ones failed: %w", ErrNoServer, err)
	}
	bin, ok := serverFolder(filepath.Join(dir, "bin"))
	if !ok {
		return "", fmt.Errorf("%w; the downloaded archive does not hold them", ErrNoServer)
	}
	return bin, nil
}

// get downloads the jar and checks it against its pinned checksum.
func (d download) get(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	name := "embedded-postgres-binaries-" + d.archive.artifact
	url := strings.TrimSuffix(d.mirror, "/") + "/" +
		path.Join("io/zonky/test/postgres", name, d.archive.version, name+"-"+d.archive.version+".jar")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is not wanted
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	jar, err := io.ReadAll(io.LimitReader(resp.Body, maxArchive))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if sum := sha256.Sum256(jar); hex.EncodeToString(sum[:]) != d.archive.sha256 {
		return nil, fmt.Errorf("%s has the SHA-256 %x, want %s: it is not the file that was pinned", url, sum, d.archive.sha256)
	}
	return jar, nil
}

// unpackBeside unpacks the jar under another name and renames it when it is whole, so that it can be interrupted.
func unpackBeside(jar []byte, dir string) error {
	fresh := dir + ".part"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o755); err != nil { //nolint:gosec // root's server runs as another user, who must read it
		return err
	}
	if err := unpackJar(jar, fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return os.Rename(fresh, dir)
}

// unpackJar unpacks the one .txz in the jar into dir.
func unpackJar(jar []byte, dir string) error {
	root, err := os.OpenRoot(dir) // no entry of the archive can leave it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // files are closed on their own
	files, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return err
	}
	for _, file := range files.File {
		if !strings.HasSuffix(file.Name, ".txz") {
			continue
		}
		packed, err := file.Open()
		if err != nil {
			return err
		}
		defer func() { _ = packed.Close() }() // read only
		unpacked, err := xz.NewReader(packed, xz.DefaultDictMax)
		if err != nil {
			return err
		}
		return unpackTar(tar.NewReader(io.LimitReader(unpacked, maxUnpacked)), root)
	}
	return errors.New("no .txz in the archive")
}

func unpackTar(entries *tar.Reader, root *os.Root) error {
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(entries, entry, root); err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
}

func unpackEntry(content io.Reader, entry *tar.Header, root *os.Root) error {
	name := path.Clean(entry.Name)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(entry.Linkname, name)
	case tar.TypeReg:
		return unpackFile(content, entry, root, name)
	default:
		return fmt.Errorf("unexpected kind %q", entry.Typeflag)
	}
}

// unpackFile writes one file. No child is started meanwhile: until its exec it would hold the file open for writing, and Linux
// refuses to run a program that a process has open for writing.
func unpackFile(content io.Reader, entry *tar.Header, root *os.Root, name string) error {
	mode := fs.FileMode(0o644)
	if entry.Mode&0o100 != 0 {
		mode = 0o755
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
