package stack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/reading/languages"
)

// madeUp is the locale of a language that the product does not have. Its files are those of English with every letter moved by thirteen
// places, so they follow every change of English by themselves.
const madeUp = "eo"

// TestLanguage adds a language by files alone: it runs itself with the files of CONTRIBUTING.md, "A language", laid over the tree. There a
// person with that language has one conversation, up to STOP.
func TestLanguage(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the services with other files")
	}
	t.Parallel()
	if slices.Contains(languages.Written(), madeUp) {
		inMadeUp(t)
		return
	}
	dir := t.TempDir()
	replace := map[string]string{}
	lay := func(path, content string) {
		file := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		whole, err := filepath.Abs(filepath.Join("..", "..", path))
		require.NoError(t, err)
		replace[whole] = file
	}
	for path, made := range map[string]func(string) string{
		"platform/reading/languages/en.tsv":                      byColumn(rotatedPattern),
		"platform/reading/human/words/en.txt":                    rotated,
		"services/onboarding/words/en.tsv":                       byColumn(rotatedPattern),
		"services/onboarding/goals/timeparse/words/en.tsv":       rotatedTimes,
		"services/onboarding/catalog/copy/2026-11.en.json":       rotatedTexts,
		"services/onboarding/catalog/engagement/2026-11.en.json": rotatedTexts,
		"gateway/console/words/en.json":                          rotatedTexts,
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", path))
		require.NoError(t, err)
		ending := filepath.Ext(path)
		lay(strings.TrimSuffix(path, "en"+ending)+madeUp+ending, made(string(content)))
	}
	const index = "platform/reading/languages/index.tsv"
	content, err := os.ReadFile(filepath.Join("..", "..", index))
	require.NoError(t, err)
	lay(index, string(content)+"locale\t"+madeUp+"\n")

	overlay := filepath.Join(dir, "overlay.json")
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, encoded, 0o600))
	command := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-timeout", "5m", "-run", "^"+t.Name()+"$", ".")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "no tests to run")
}

// inMadeUp is a conversation in the made-up language: what a text does, and what is answered.
func inMadeUp(t *testing.T) {
	t.Helper()
	b := setup(t, "CONSOLE", "on", "CONSOLE_KEY", strings.Repeat("5a", 32))
	cast[madeUp] = role{
		locale: madeUp, phone: "+1415555%04d", name: "Zuleika", zone: "America/Los_Angeles",
		greets: rotated("Sure, tell me more"), begins: rotated("ok"), ready: rotated("yes"),
	}
	p := b.enrol(t, madeUp)
	last := func() twilio.Message { return p.heard()[len(p.heard())-1] }
	answered := func(said, begins string) {
		t.Helper()
		before := len(p.heard())
		p.says(t, rotated(said))
		b.until(t, "an answer to "+said, func() bool { return len(p.heard()) > before })
		require.Contains(t, last().Body, rotated(begins), "the answer to %q", said)
	}
	p.activate(t)
	p.requireHeard(t, opening)
	answered("help", "You get these texts")
	answered("not now", "No problem, there")
	p.says(t, p.greets)
	b.until(t, "the explanation", func() bool { return last().Body == p.text(t, explanation) })
	p.says(t, p.begins)
	b.advanceTo(t, b.clock.Now().Add(16*time.Second))
	b.until(t, "the burst", func() bool { return last().Body == p.text(t, message4) })
	answered("remind me to call Bob tomorrow at 8am", "tomorrow at")
	p.says(t, rotated("I want to talk to a human please"))
	ticket := func() (why string) {
		var page struct {
			Tickets []struct{ Reason string }
		}
		b.call(t, http.MethodGet, "/v1/tickets", nil, &page)
		for _, ticket := range page.Tickets {
			why = ticket.Reason
		}
		return why
	}
	b.until(t, "a ticket of one who asks for a person", func() bool { return ticket() == "asked" })
	answered("please quit texting me if you can", "Do you want us to stop texting you?")
	answered("stop", "You are unsubscribed")
	require.Equal(t, "opted_out", p.consent(t).Consent.State)

	status, page := b.try(t, "", http.MethodGet, "/console/sign-in?lang="+madeUp, nil)
	require.Contains(t, []int{http.StatusOK, http.StatusUnauthorized}, status)
	require.Contains(t, string(page), `<html lang="`+madeUp+`"`)
	b.refused(t, b.operator, http.MethodPost, "/v1/profiles", map[string]string{"phone": "+14155550199", "first_name": "A", "locale": "xx"}, http.StatusBadRequest)
}

// rotated moves each letter of ASCII by thirteen places.
func rotated(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, text)
}

// kept matches the parts of a pattern or a text that stay: the name of a part or placeholder, an escape, a range, a group's kind, and a verb of fmt.
var kept = regexp.MustCompile(`\{[^{}]*\}|\\[a-zA-Z]|\[[^\]]*[a-z]-[a-z][^\]]*\]|\(\?[a-zA-Z]*[:)]|\(\?P?<[a-z]+>|%[a-z]`)

func rotatedPattern(text string) string {
	var made strings.Builder
	from := 0
	for _, part := range kept.FindAllStringIndex(text, -1) {
		made.WriteString(rotated(text[from:part[0]]) + text[part[0]:part[1]])
		from = part[1]
	}
	return made.String() + rotated(text[from:])
}

// byColumn changes the last column of each row.
func byColumn(change func(string) string) func(string) string {
	return func(content string) string {
		var made strings.Builder
		for line := range strings.Lines(content) {
			row, text := line[:strings.LastIndex(line, "\t")+1], line[strings.LastIndex(line, "\t")+1:]
			if row == "" || strings.HasPrefix(line, "#") {
				made.WriteString(line)
			} else {
				made.WriteString(row + change(text))
			}
		}
		return made.String()
	}
}

// rotatedTimes leaves the forms of times, and what the rows of settings have.
func rotatedTimes(content string) string {
	var made strings.Builder
	for line := range strings.Lines(content) {
		if strings.HasPrefix(line, "form\t") || strings.HasPrefix(line, "say\thours\t") || strings.HasPrefix(line, "say\tdates\t") {
			made.WriteString(line)
		} else {
			made.WriteString(byColumn(rotatedPattern)(line))
		}
	}
	return made.String()
}

var jsonText = regexp.MustCompile(`(?m)(": ")(.*)(",?)$`)

// rotatedTexts changes the values of a JSON file, not the keys.
func rotatedTexts(content string) string {
	return jsonText.ReplaceAllStringFunc(content, func(found string) string {
		parts := jsonText.FindStringSubmatch(found)
		return parts[1] + rotatedPattern(parts[2]) + parts[3]
	})
}
