package browser_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// types puts a text into a field, however long it is and whatever the field would have refused from a keyboard.
func (p *product) types(selector, text string) {
	p.t.Helper()
	value, err := json.Marshal(text)
	require.NoError(p.t, err)
	asks[bool](p, `{ const field = document.querySelector(`+quoted(selector)+`); field.removeAttribute("maxlength"); field.value = `+string(value)+` } true`)
}

// shows holds a page to showing a text as text: as it is, as wide as a phone, and without anything that it would have made of it.
func (p *product) shows(name, path, words, text string) {
	p.t.Helper()
	p.opens(path, words)
	value, err := json.Marshal(text)
	require.NoError(p.t, err)
	require.True(p.t, asks[bool](p, `document.querySelector("main").textContent.includes(`+string(value)+`)`), "%s does not show %q", path, text)
	require.Zero(p.t, asks[int64](p, `document.querySelectorAll("main script, main img, main iframe").length`), path)
	p.fits(name)
}

func TestHostileWordsAreShownAsTextInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	p.does(chromedp.EmulateViewport(375, 800))
	for i, tc := range []struct {
		name, first string
		want        string // empty where it is refused
	}{
		{name: "script", first: `<script>alert(1)</script>` + strings.Repeat("x", 35), want: `<script>alert(1)</script>` + strings.Repeat("x", 35)},
		{name: "image", first: `"><img src=x onerror=alert(1)>`, want: `"><img src=x onerror=alert(1)>`},
		{name: "rtl", first: "שלום עולם مرحبا", want: "שלום עולם مرحبا"},
		{name: "wide", first: strings.Repeat("W", 60), want: strings.Repeat("W", 60)},
		{name: "template", first: "{{.Who}}"},
		{name: "bidi", first: "Ana \u202edrow\u202c\u2066\u2069"},
		{name: "long", first: strings.Repeat("a", 10_000)},
	} {
		p.opens("/console/people?lang=en", "Enrol a person")
		p.types(`input[name=phone]`, phone[:len(phone)-1]+strconv.Itoa(2+i))
		p.types(`input[name=first_name]`, tc.first)
		p.press("section//button", "Enrol a person")
		if tc.want == "" {
			p.waits("first_name must be")
			p.fits("refused-" + tc.name)
			continue
		}
		p.waits("Enrolled.")
		p.shows("people-"+tc.name, "/console/people", "First name", tc.want)
		p.shows("person-"+tc.name, asks[string](p, `document.querySelector("tbody a").getAttribute("href")`), "Conversation", tc.want)
	}
	p.longTexts()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}

// longTexts writes as much as a person, an operator and a host application can, without a space to break a line at.
func (p *product) longTexts() {
	p.t.Helper()
	handset := "/console/handsets?a=" + strings.Replace(phone, "+", "%2B", 1)
	id := p.enrolsNamed("Ana")
	for _, text := range []string{strings.Repeat("W", 10_000), "\u202e\u2066" + strings.Repeat("שלום", 300)} {
		p.opens(handset, "Write as this person")
		p.types(`#body-a`, text)
		p.press(`section[1]//button`, "Send")
		p.waits("Sent.")
		p.shows("handset-long", handset, "Write as this person", text)
		p.shows("person-long", "/console/people/"+id, "Conversation", text)
	}
	goal := `<script>alert()</script> ` + strings.Repeat("W", 150)
	p.goal(goal + " in 2 hours")
	p.shows("goals-long", "/console/goals", "Runs in", goal)
	p.shows("search-long", "/console/people?q="+strings.Repeat("W", 3000), "This search does not work:", "query must be")
}
