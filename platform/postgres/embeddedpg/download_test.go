package embeddedpg

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// mirror serves content where Maven Central has the archive of a platform called "imitation", and counts how often.
func mirror(t *testing.T, content []byte) (from download, served *atomic.Int32) {
	t.Helper()
	served = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/io/zonky/test/postgres/embedded-postgres-binaries-imitation/17.5.0/embedded-postgres-binaries-imitation-17.5.0.jar" {
			http.NotFound(w, r)
			return
		}
		served.Add(1)
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(content)
	return download{
		mirror:  server.URL + "/",
		into:    filepath.Join(testDir(t), "servers"),
		archive: archive{artifact: "imitation", version: "17.5.0", sha256: hex.EncodeToString(sum[:])},
	}, served
}

// imitation returns an archive with the machine's programs.
func imitation(t *testing.T) []byte {
	t.Helper()
	bins, err := machine("").installed()
	require.NoError(t, err)
	require.NotEmpty(t, bins)
	return jar(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./bin/", Mode: 0o700},
		file("./bin/initdb", "#!/bin/sh\nexec "+bins[0]+"/initdb \"$@\"\n", 0o700),
		file("./bin/postgres", "#!/bin/sh\nexec "+bins[0]+"/postgres \"$@\"\n", 0o700),
		file("./share/postgres.bki", strings.Repeat("a file of more than one chunk\n", 5000), 0o600),
		symlink("./lib/libpq.so", "libpq.so.5.17"),
	)
}

func TestDownload(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("RunsAServerOnAMachineWithoutPostgres", func(t *testing.T) {
		t.Parallel()
		from, served := mirror(t, imitation(t))
		for range 2 {
			c, err := start(t.Context(), Config{Throwaway: true}, finder{download: from})
			require.NoError(t, err)
			require.Equal(t, from.into, filepath.Dir(filepath.Dir(c.bin)))
			require.NoError(t, c.Stop(t.Context()))
		}
		require.EqualValues(t, 1, served.Load(), "it was kept")
	})

	t.Run("HappensOnceForAllProcesses", func(t *testing.T) {
		t.Parallel()
		from, served := mirror(t, imitation(t))
		var processes errgroup.Group
		for range 8 {
			processes.Go(func() error {
				_, err := from.fetch(t.Context())
				return err
			})
		}
		require.NoError(t, processes.Wait())
		require.EqualValues(t, 1, served.Load())
	})

	t.Run("UnpacksEverything", func(t *testing.T) {
		t.Parallel()
		from, _ := mirror(t, imitation(t))
		bin, err := from.fetch(t.Context())
		require.NoError(t, err)
		root := filepath.Dir(bin)
		content, err := os.ReadFile(filepath.Join(root, "share", "postgres.bki"))
		require.NoError(t, err)
		require.Len(t, content, 5000*len("a file of more than one chunk\n"))
		target, err := os.Readlink(filepath.Join(root, "lib", "libpq.so"))
		require.NoError(t, err)
		require.Equal(t, "libpq.so.5.17", target)
		stat, err := os.Stat(filepath.Join(bin, "postgres"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), stat.Mode().Perm(), "the server's user must be able to run it")
	})

	t.Run("ContinuesAfterAnInterruptedOne", func(t *testing.T) {
		t.Parallel()
		from, _ := mirror(t, imitation(t))
		part := filepath.Join(from.into, "17.5.0-"+from.archive.sha256[:12]+".part", "bin")
		require.NoError(t, os.MkdirAll(part, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(part, "postgres"), []byte("half"), 0o600))
		_, err := from.fetch(t.Context())
		require.NoError(t, err)
		require.NoDirExists(t, filepath.Dir(part))
	})

	refusals := []struct {
		name    string
		content []byte
		change  func(*download)
		want    string
	}{
		{
			name: "AnotherChecksum", content: imitation(t),
			change: func(d *download) { d.archive.sha256 = strings.Repeat("0", 64) }, want: "it is not the file that was pinned",
		},
		{
			name: "NotThere", content: imitation(t),
			change: func(d *download) { d.archive.version = "17.6.0" }, want: "404 Not Found",
		},
		{
			name: "NothingPinnedForThePlatform", content: imitation(t),
			change: func(d *download) { d.archive = archive{} }, want: "no PostgreSQL server programs",
		},
		{name: "NotAnArchive", content: []byte("<html>Please log in</html>"), want: "unpacking"},
		{name: "WithoutServer", content: jar(t, file("README", "nothing", 0o600)), want: "does not hold them"},
		{name: "EntryOutside", content: jar(t, file("../outside", "evil", 0o600)), want: "../outside"},
		{name: "LinkOutside", content: jar(t, symlink("out", "/tmp"), file("out/evil", "evil", 0o600)), want: "out/evil"},
		{name: "Device", content: jar(t, tar.Header{Typeflag: tar.TypeChar, Name: "null"}), want: "unexpected kind"},
	}
	for _, tt := range refusals {
		t.Run("Refuses"+tt.name, func(t *testing.T) {
			t.Parallel()
			from, _ := mirror(t, tt.content)
			if tt.change != nil {
				tt.change(&from)
			}
			_, err := start(t.Context(), Config{Throwaway: true}, finder{download: from})
			require.ErrorIs(t, err, ErrNoServer)
			require.ErrorContains(t, err, tt.want)
			for _, way := range []string{"install PostgreSQL", "PGBIN", "_DATABASE_URL"} {
				require.ErrorContains(t, err, way)
			}
		})
	}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	for platform, archive := range pinned() {
		sum, err := hex.DecodeString(archive.sha256)
		require.NoError(t, err, platform)
		require.Len(t, sum, sha256.Size, platform)
		require.Equal(t, "17", archive.major(), platform)
	}
}
