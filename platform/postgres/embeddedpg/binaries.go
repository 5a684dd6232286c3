package embeddedpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNoServer is a machine without PostgreSQL's server programs. Its text says what to do.
var ErrNoServer = errors.New("embedded postgres: there are no PostgreSQL server programs (initdb, postgres) on this machine: " +
	"install PostgreSQL 15 or newer (Debian and Ubuntu: apt install postgresql; Fedora: dnf install postgresql-server; " +
	"Alpine: apk add postgresql; macOS: brew install postgresql@17), or set PGBIN to the folder that holds them, " +
	"or set the services' *_DATABASE_URL variables to use a server of your own")

// places lists the folders where packages put the server programs, one pattern a packager.
func places() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                   // RHEL and Fedora from postgresql.org
		"/usr/libexec/postgresql*",                           // Alpine
		"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
		"/Library/PostgreSQL/*/bin",                          // EnterpriseDB's installer
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",     // Homebrew on Linux
	}
}

// finder looks for the server programs: what the user says, what the machine has, what can be downloaded.
type finder struct {
	pgbin    string   // PGBIN
	path     []string // the folders of PATH
	places   []string
	download download
}

// machine is the finder of this machine.
func machine(mirror string) finder {
	return finder{
		pgbin:  os.Getenv("PGBIN"),
		path:   filepath.SplitList(os.Getenv("PATH")),
		places: places(),
		download: download{
			mirror:  cmp.Or(mirror, mavenCentral),
			into:    filepath.Join(DefaultDir(), "servers"),
			archive: pinned()[platform()],
		},
	}
}

// Programs returns the folder of the server programs that are installed on this machine, or ErrNoServer.
func Programs() (string, error) {
	bins, err := machine("").installed()
	if err == nil && len(bins) == 0 {
		err = ErrNoServer
	}
	if err != nil {
		return "", err
	}
	return bins[0], nil
}

// find returns the folder of the programs to run data with: the first found, or, when data exists already, the first of
// the same major version, for PostgreSQL does not read another version's data.
func (f finder) find(ctx context.Context, data string) (string, error) {
	bins, err := f.installed()
	if err != nil {
		return "", err
	}
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if len(bins) > 0 {
			return bins[0], nil
		}
		return f.download.fetch(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("embedded postgres: %w", err)
	}
	return f.findVersion(ctx, strings.TrimSpace(string(version)), bins, filepath.Dir(data))
}

// findVersion is find for a server of the given major version in dir.
func (f finder) findVersion(ctx context.Context, want string, bins []string, dir string) (string, error) {
	for _, bin := range bins {
		have, err := majorVersion(ctx, bin)
		if err != nil {
			return "", err
		}
		if have == want {
			return bin, nil
		}
	}
	if f.download.archive.major() == want {
		return f.download.fetch(ctx)
	}
	return "", fmt.Errorf("embedded postgres: %s was created by PostgreSQL %s, of which there is no server here (found: %s): "+
		"install PostgreSQL %s, or set PGBIN to its programs, or remove that folder, and what is stored in it, to begin anew",
		dir, want, cmp.Or(strings.Join(bins, ", "), "none"), want)
}

// installed lists the folders that hold initdb and postgres, the preferred one first.
func (f finder) installed() ([]string, error) {
	if f.pgbin != "" {
		bin, ok := serverFolder(f.pgbin)
		if !ok {
			return nil, fmt.Errorf("embedded postgres: PGBIN=%s does not hold initdb and postgres", f.pgbin)
		}
		return []string{bin}, nil
	}
	candidates := slices.Clone(f.path)
	for _, pattern := range f.places {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("embedded postgres: %s: %w", pattern, err)
		}
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(pathVersion(b), pathVersion(a)) })
		candidates = append(candidates, found...)
	}
	var bins []string
	for _, candidate := range candidates {
		if bin, ok := serverFolder(candidate); ok && !slices.Contains(bins, bin) {
			bins = append(bins, bin)
		}
	}
	return bins, nil
}

// Program finds one of PostgreSQL's programs, such as pg_basebackup: in PGBIN, on the PATH, where packages put them. Its error wraps
// exec.ErrNotFound.
func Program(name string) (string, error) {
	folders := append([]string{os.Getenv("PGBIN")}, filepath.SplitList(os.Getenv("PATH"))...)
	for _, pattern := range places() {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("%s: %w", pattern, err)
		}
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(pathVersion(b), pathVersion(a)) })
		folders = append(folders, found...)
	}
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		if program, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return program, nil
		}
	}
	return "", fmt.Errorf("%w: %s: install PostgreSQL's package, or set PGBIN to the folder of its programs", exec.ErrNotFound, name)
}

// serverFolder resolves a folder in which postgres may be a link into the real one, with the other files.
func serverFolder(dir string) (string, bool) {
	if dir == "" {
		return "", false // an empty element of PATH
	}
	postgres, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return "", false
	}
	bin, err := filepath.Abs(filepath.Dir(postgres))
	if err != nil {
		return "", false
	}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			return "", false
		}
	}
	return bin, true
}

var digits = regexp.MustCompile(`\d+`) //nolint:gochecknoglobals // a constant that the language cannot express

// pathVersion is the version number in a packager's path, 0 when there is none, as in Homebrew's unversioned link.
func pathVersion(path string) int {
	version, err := strconv.Atoi(digits.FindString(path))
	if err != nil {
		return 0
	}
	return version
}

// majorVersion asks the server in bin: "postgres (PostgreSQL) 15.12 (Debian 15.12-0+deb12u2)" is 15.
func majorVersion(ctx context.Context, bin string) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output() //nolint:gosec // the server that was found
	if err != nil {
		return "", fmt.Errorf("embedded postgres: %s/postgres --version: %w", bin, err)
	}
	return digits.FindString(string(out)), nil
}

// platform is this machine in the names of the archives.
func platform() string {
	name := runtime.GOOS + "-" + runtime.GOARCH
	if musl, err := filepath.Glob("/lib/ld-musl-*"); err == nil && len(musl) > 0 {
		name += "-alpine"
	}
	return name
}
