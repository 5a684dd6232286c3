package embeddedpg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeServer makes a folder with programs that can only tell their version, and returns it.
func fakeServer(t *testing.T, version string, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for _, name := range []string{"initdb", "postgres"} {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + " (Debian " + version + "-1)'\n"
		writeProgram(t, filepath.Join(dir, name), []byte(script))
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(testDir(t))
	require.NoError(t, err)
	nine := fakeServer(t, "9.6.24", root, "debian", "9.6", "bin")
	fifteen := fakeServer(t, "15.12", root, "debian", "15", "bin")
	hundred := fakeServer(t, "100.0", root, "debian", "100", "bin")
	brew := fakeServer(t, "16.4", root, "brew", "postgresql@16", "bin")

	linked := filepath.Join(root, "links") // like /usr/local/bin
	require.NoError(t, os.Mkdir(linked, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(brew, "postgres"), filepath.Join(linked, "postgres")))
	clientOnly := filepath.Join(root, "client")
	require.NoError(t, os.Mkdir(clientOnly, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(clientOnly, "psql"), nil, 0o700))
	incomplete := fakeServer(t, "17.0", root, "incomplete")
	require.NoError(t, os.Remove(filepath.Join(incomplete, "initdb")))
	debian := filepath.Join(root, "debian", "*", "bin")

	tests := []struct {
		name    string
		from    finder
		version string // of the data that is there
		want    string
		wantErr string
	}{
		{name: "PGBINBeforeAll", from: finder{pgbin: nine, path: []string{fifteen}, places: []string{debian}}, want: nine},
		{name: "PATHBeforePackages", from: finder{path: []string{"", clientOnly, fifteen}, places: []string{debian}}, want: fifteen},
		{name: "BehindALink", from: finder{path: []string{linked}}, want: brew},
		{name: "TheNewestPackageByNumber", from: finder{places: []string{debian}}, want: hundred},
		{name: "PackagersInOrder", from: finder{places: []string{filepath.Join(root, "brew", "*", "bin"), debian}}, want: brew},
		{name: "OnlyTheWhole", from: finder{path: []string{incomplete}, places: []string{debian}}, want: hundred},
		{name: "TheVersionOfTheData", from: finder{path: []string{linked}, places: []string{debian}}, version: "15", want: fifteen},
		{name: "WrongPGBIN", from: finder{pgbin: clientOnly, places: []string{debian}}, wantErr: "PGBIN=" + clientOnly},
		{name: "PGBINOfAnotherVersion", from: finder{pgbin: hundred, places: []string{debian}}, version: "15", wantErr: hundred},
		{name: "NoneAtAll", from: finder{path: []string{clientOnly}}, wantErr: ErrNoServer.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data := testDir(t)
			if tt.version != "" {
				require.NoError(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(tt.version+"\n"), 0o600))
			}
			got, err := tt.from.find(t.Context(), data)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}
