package upgrade_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/test/history"
)

// released is the revision of the release before, a tag or a commit. The commit after a release's tag writes that tag here.
//
//go:embed RELEASE
var released string

// release is one state of this repository, built.
type release struct {
	name                  string
	dir                   string // its source
	paceline              string // its command
	onboarding, messaging postgres.Migrations
}

// releases builds the release before and this one in a folder. Where the history is missing the test is skipped: there is nothing
// to upgrade from.
func releases(t *testing.T, dir string) (before, after release) {
	t.Helper()
	source := filepath.Join(dir, "before")
	err := history.Unpack(t.Context(), ".", strings.TrimSpace(released), source)
	if errors.Is(err, history.ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	before, err = build(t.Context(), "old", source, filepath.Join(dir, "paceline-before"))
	require.NoError(t, err)
	after, err = build(t.Context(), "new", filepath.Join("..", ".."), filepath.Join(dir, "paceline"))
	require.NoError(t, err)
	return before, after
}

// build makes the command of the release in dir.
func build(ctx context.Context, name, dir, to string) (release, error) {
	if err := history.Build(ctx, dir, to); err != nil {
		return release{}, fmt.Errorf("build the %s release: %w", name, err)
	}
	schema := func(service string) postgres.Migrations {
		return postgres.Migrations{FS: os.DirFS(filepath.Join(dir, "services", service, "postgres", "migrations"))}
	}
	return release{name: name, dir: dir, paceline: to, onboarding: schema("onboarding"), messaging: schema("messaging")}, nil
}
