package upgrade_test

import (
	"os"
	"path/filepath"
	"testing"

	"paceline.internal/platform/postgres"
	"paceline.internal/test/upgrade"
)

// release is one state of this repository, built.
type release struct {
	name                  string
	dir                   string // its source
	paceline              string // its command
	onboarding, messaging postgres.Migrations
}

// releases builds the release before and this one in a folder.
func releases(t *testing.T, dir string) (before, after release) {
	t.Helper()
	root, source := filepath.Join("..", ".."), filepath.Join(dir, "before")
	upgrade.Before(t, root, source)
	return build(t, "old", source, filepath.Join(dir, "paceline-before")), build(t, "new", root, filepath.Join(dir, "paceline"))
}

// build makes the command of the release in dir.
func build(t *testing.T, name, dir, to string) release {
	t.Helper()
	upgrade.Build(t, dir, to)
	schema := func(service string) postgres.Migrations {
		room := filepath.Join(dir, "services", service, "schema")
		if _, err := os.Stat(room); err != nil { // 0.1.0 had them elsewhere
			room = filepath.Join(dir, "services", service, "postgres")
		}
		return postgres.Migrations{FS: os.DirFS(filepath.Join(room, "migrations"))}
	}
	return release{name: name, dir: dir, paceline: to, onboarding: schema("onboarding"), messaging: schema("messaging")}
}
