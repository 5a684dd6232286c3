package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/onboarding/catalog"
)

// TestCopyPage compares the tables of docs/flows.md with the texts and what they cost.
func TestCopyPage(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- texts -->\n", "<!-- end -->"
	page := read(t, "docs/flows.md")
	before, rest, found := strings.Cut(page, begin)
	require.True(t, found, "docs/flows.md has no place for the tables")
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, "docs/flows.md has no end of the tables")
	want := before + begin + copyTables(t) + end + after
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(root, "docs", "flows.md"), []byte(want), 0o600))
		return
	}
	require.Equal(t, want, page, "run: make copy, and have every text that changed read by a second person")
}

// TestSegmentsOfTheCatalog holds what GetFlow says a text costs to what messaging counts when it is sent.
func TestSegmentsOfTheCatalog(t *testing.T) {
	t.Parallel()
	onboarding, engagement := catalog.Default(), catalog.DefaultEngagement()
	for _, text := range onboarding.Texts(onboarding.Current()) {
		name, _ := catalog.Widest(text.Key)
		body, err := onboarding.Render(onboarding.Current(), text.Locale, text.Key, name)
		require.NoError(t, err)
		require.Equal(t, sms.Segments(body).Count, text.Segments, "%s %s", text.Key, text.Locale)
	}
	for _, text := range engagement.Texts() {
		name, params := catalog.Widest(text.Key)
		body, err := engagement.Render(text.Locale, text.Key, name, params)
		require.NoError(t, err)
		require.Equal(t, sms.Segments(body).Count, text.Segments, "%s %s", text.Key, text.Locale)
	}
}

// copyTables returns what each text costs.
func copyTables(t *testing.T) string {
	t.Helper()
	onboarding, engagement := catalog.Default(), catalog.DefaultEngagement()
	const folder = "services/onboarding/catalog/"
	current := onboarding.Current()
	costing := map[string][]string{}
	add := func(pattern string, render func(locale, key, name string, params catalog.Params) (string, error)) {
		for _, key := range slices.Sorted(maps.Keys(copyFiles(t, folder+pattern))) {
			name, params := catalog.Widest(key)
			cost := segments(t, func(locale string) (string, error) { return render(locale, key, name, params) })
			costing[cost] = append(costing[cost], "`"+key+"`")
		}
	}
	add("copy/"+current+".en.json", func(locale, key, name string, _ catalog.Params) (string, error) {
		return onboarding.Render(current, locale, key, name)
	})
	add("engagement/*.en.json", engagement.Render)
	var out strings.Builder
	for _, cost := range slices.Sorted(maps.Keys(costing)) {
		fmt.Fprintf(&out, "- %s: %s\n", cost, strings.Join(costing[cost], ", "))
	}
	return out.String()
}

// segments returns what a text costs in English and in Portuguese.
func segments(t *testing.T, render func(locale string) (string, error)) string {
	t.Helper()
	var counts []string
	for _, locale := range []string{"en", "pt-BR"} {
		body, err := render(locale)
		require.NoError(t, err)
		counts = append(counts, strconv.Itoa(sms.Segments(body).Count))
	}
	return strings.Join(counts, " / ")
}

// copyFiles are the texts of some files, those of newer ones over those of older.
func copyFiles(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, names, pattern)
	texts := map[string]string{}
	for _, name := range names { // Glob sorts them
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(content, &texts))
	}
	return texts
}
