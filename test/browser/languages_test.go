package browser_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// saidInConsole returns the text of the elements of a page that the console says itself: no texts of people, no names, no code, no lists of languages.
const saidInConsole = `(() => {
	const said = [];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const at = walk.currentNode.parentElement;
		if (!at.closest("script, style, code, pre, q, blockquote, textarea, [lang]:not(html), .bubble, .answers, .who, .settings, select[name=lang]")) said.push(walk.currentNode.textContent.trim());
	}
	for (const at of document.querySelectorAll("[aria-label], [title], [placeholder], [alt]"))
		for (const name of ["aria-label", "title", "placeholder", "alt"]) if (at.hasAttribute(name)) said.push(at.getAttribute(name));
	said.push(document.title);
	return said.filter(text => text);
})()`

// wordsOf reads the words of the console in a language.
func wordsOf(t *testing.T, language string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("../../gateway/console/words/" + language + ".json")
	require.NoError(t, err)
	var file struct {
		Words map[string]any `json:"words"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	return file.Words
}

// foreign finds what a page in another language has not translated: keys, and words of English alone.
func foreign(t *testing.T, language string) func(text string) bool {
	t.Helper()
	english, theirs := wordsOf(t, "en"), wordsOf(t, language)
	known, same := map[string]bool{}, map[string]bool{}
	for _, words := range theirs {
		if text, ok := words.(string); ok {
			same[text] = true
		}
	}
	for key, words := range english {
		known[key] = true
		if text, ok := words.(string); ok && !same[text] && len(text) > 3 {
			known[text] = true
		}
	}
	delete(known, "operator") // the name that the calls of the test have
	common := regexp.MustCompile(`(?i)\b(the|is|are|was|were|of|and|with|for|not|this|that|they|has|have|been|will|waits|person|since|until|nothing)\b`)
	return func(text string) bool { return known[text] || len(common.FindAllString(text, 2)) > 1 }
}

// TestTheConsoleSpeaksPortugueseInABrowser walks every page in Portuguese, with a person who writes it, and finds no English.
func TestTheConsoleSpeaksPortugueseInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	var made struct {
		Profile struct {
			ID string `json:"profile_id"`
		} `json:"profile"`
	}
	p.v1(http.MethodPost, "/v1/profiles", `{"phone":"+14155552671","first_name":"Ana","locale":"pt-BR","time_zone":"America/New_York"}`, &made)
	p.v1(http.MethodPost, "/v1/profiles/"+made.Profile.ID+":activate", `{}`, new(struct{}))
	p.saysFrom("+14155552671", "quero falar com um atendente")
	p.does(chromedp.Navigate(p.origin + "/console?lang=pt-BR"))
	pages := asks[[]string](p, `[...document.querySelectorAll("header nav a")].map(a => a.getAttribute("href"))`)
	require.Greater(t, len(pages), 15)
	english, found := foreign(t, "pt-BR"), []string{}
	for _, path := range append(pages, "/console/people/"+made.Profile.ID) {
		p.does(chromedp.Navigate(p.origin + path))
		require.Equal(t, "pt-BR", asks[string](p, `document.documentElement.lang`), path)
		for _, text := range asks[[]string](p, saidInConsole) {
			if text = strings.Join(strings.Fields(text), " "); english(text) {
				found = append(found, path+": "+text)
			}
		}
	}
	require.Empty(t, found)
}
