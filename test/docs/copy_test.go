package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/onboarding/catalog"
)

// TestCopyPage holds the page that reviewers read to the texts: no text changes unseen.
// Also: S4-28, S4-29.
func TestCopyPage(t *testing.T) {
	t.Parallel()
	page := copyPage(t)
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(root, "docs", "copy.md"), []byte(page), 0o600))
	}
	require.Equal(t, page, read(t, "docs/copy.md"), "run: make copy, and have every text that changed read by a second person")
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

// copyPage is docs/copy.md as the catalog has it.
func copyPage(t *testing.T) string {
	t.Helper()
	onboarding, engagement := catalog.Default(), catalog.DefaultEngagement()
	var out strings.Builder
	fmt.Fprintf(&out, `# The texts

What people get, generated from `+"`services/onboarding/catalog`, folders `copy` and `engagement`, by `make copy`"+`. Segments are what a text costs in
English / in Portuguese, with the longest name and parameters: 153 characters each in GSM-7, and 67 each in UCS-2, to which one character outside GSM-7 (ç, ã, ê, an emoji) moves
the whole text. Two are the most that the catalog takes, and a few more where a person's own words about a goal are in it. `+"`ONBOARDING_COPY_DIR`"+` replaces the texts of onboarding,
`+"`ENGAGEMENT_COPY_DIR`"+` those of engagement, text by text. Curly quotes, dashes, ellipses and invisible characters in their files are replaced by what GSM-7 has, where that brings
the whole text into GSM-7; `+"`paceline doctor`"+` names the other characters that make a text dearer.

## Onboarding, version %s

`, onboarding.Current())
	const folder = "services/onboarding/catalog/"
	copyTable(t, &out, folder+"copy/"+onboarding.Current(), func(locale, key string) (string, error) {
		name, _ := catalog.Widest(key)
		return onboarding.Render(onboarding.Current(), locale, key, name)
	})
	out.WriteString(`
## Engagement

A name that is not known is left out, with the comma before it.

`)
	copyTable(t, &out, folder+"engagement/*", func(locale, key string) (string, error) {
		name, params := catalog.Widest(key)
		return engagement.Render(locale, key, name, params)
	})
	out.WriteString("\n| what a person may send | en | pt-BR |\n|---|---|---|\n")
	offers := catalog.Offered()
	for _, does := range slices.Sorted(maps.Keys(offers["en"])) {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", does, offers["en"][does], offers["pt"][does])
	}
	return out.String()
}

// copyTable writes the texts of the files whose paths begin so, as they are written and with what they cost.
func copyTable(t *testing.T, out *strings.Builder, files string, render func(locale, key string) (string, error)) {
	t.Helper()
	english, portuguese := copyFiles(t, files+".en.json"), copyFiles(t, files+".pt-BR.json")
	cell := strings.NewReplacer("\n", "<br>", "|", "\\|")
	out.WriteString("| key | en | pt-BR | segments |\n|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(english)) {
		var segments []string
		for _, locale := range []string{"en", "pt-BR"} {
			body, err := render(locale, key)
			require.NoError(t, err)
			segments = append(segments, fmt.Sprint(sms.Segments(body).Count))
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", key, cell.Replace(english[key]), cell.Replace(portuguese[key]), strings.Join(segments, " / "))
	}
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
