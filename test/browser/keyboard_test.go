package browser_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// walking begins a walk: it keeps which elements had the focus, and says what is wrong with the one that has it. A page that renews itself
// keeps its elements.
const walking = `window.walked = [];
window.step = () => {
	const at = document.activeElement;
	if (!at || at === document.body || at === walked[0]) return "end";
	if (at === walked.at(-1) && ["date", "time"].includes(at.type)) return ""; // day, month and year, hour and minute are their own stops
	if (walked.includes(at)) return "the focus goes round: " + at.outerHTML;
	walked.push(at);
	const words = id => document.getElementById(id)?.textContent ?? "";
	const name = at.getAttribute("aria-label") || (at.getAttribute("aria-labelledby") ?? "").split(" ").map(words).join(" ").trim() ||
		[...(at.labels ?? [])].map(l => l.textContent).join(" ").trim() || at.textContent.trim() || at.title;
	const seen = getComputedStyle(at), box = at.getBoundingClientRect();
	if (!name) return "no name: " + at.outerHTML;
	if (at.id !== "main" && (seen.outlineStyle === "none" || parseFloat(seen.outlineWidth) < 1)) return "the focus is not seen: " + at.outerHTML;
	if (box.width < 1 || box.height < 1 || box.right < 1) return "out of sight: " + at.outerHTML;
	return "";
};
window.missed = () => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
	.filter(e => !e.disabled && e.checkVisibility() && !walked.includes(e)).map(e => e.outerHTML);
document.activeElement.blur(); true`

// mostStops bounds the walk through a page.
const mostStops = 200

// walks goes through a page by Tab alone: the focus is always seen and has a name, is trapped nowhere, and comes to all that can be used.
func (p *product) walks(path string) {
	p.t.Helper()
	asks[bool](p, walking)
	for range mostStops {
		p.does(chromedp.KeyEvent(kb.Tab))
		switch wrong := asks[string](p, `step()`); wrong {
		case "":
		case "end":
			require.Empty(p.t, asks[[]string](p, `missed()`), path)
			return
		default:
			require.Fail(p.t, wrong, path)
		}
	}
	require.Fail(p.t, "the walk does not end", path)
}

// tabsTo goes by Tab until the element that has the focus is one.
func (p *product) tabsTo(selector, words string) {
	p.t.Helper()
	for range mostStops {
		p.does(chromedp.KeyEvent(kb.Tab))
		if asks[bool](p, `document.activeElement.matches(`+quoted(selector)+`) && document.activeElement.textContent.includes(`+quoted(words)+`)`) {
			return
		}
	}
	require.Fail(p.t, "Tab does not come to "+selector, words)
}

func TestTheConsoleIsUsedByTheKeyboardAloneInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	id := p.meets()
	p.goal("water the plants in 2 hours")

	p.does(chromedp.Navigate(p.origin + "/console"))
	pages := asks[[]string](p, `[...document.querySelectorAll("header nav a")].map(a => a.getAttribute("href"))`)
	require.Len(t, pages, 18)
	for _, path := range append(pages, "/console/people/"+id, "/console/needs?lang=pt-BR", "/console/goals?lang=pt-BR", "/console/goals?lang=en") {
		p.does(chromedp.Navigate(p.origin + path))
		p.walks(path)
	}

	p.opens("/console/people/"+id, "What happened")
	p.tabsTo("summary", "Hold")
	p.does(chromedp.KeyEvent(kb.Enter))
	p.tabsTo("details[open] input", "")
	p.does(chromedp.KeyEvent("asked by their family"))
	p.tabsTo("details[open] button", "Hold")
	p.does(chromedp.KeyEvent(kb.Enter))
	p.waits("On hold.")
	p.tabsTo("summary", "Release")
	p.does(chromedp.KeyEvent(kb.Enter))
	p.tabsTo("details[open] button", "Release")
	p.does(chromedp.KeyEvent(" "))
	p.waits("Released.")

	p.opens("/console/goals", "water the plants")
	p.tabsTo("summary", "Reschedule")
	p.does(chromedp.KeyEvent(kb.Enter))
	p.tabsTo("details[open] input", "")
	p.does(chromedp.KeyEvent("in 3 hours"), chromedp.KeyEvent(kb.Enter))
	p.waits("Rescheduled.")
	p.tabsTo(".tip-of", "Runs in ") // 2 h 59 min, or 3 h within the same second
	require.True(t, asks[bool](p, `document.querySelector("[role=tooltip]").checkVisibility()`), "the keyboard shows the tooltip too")
	p.does(chromedp.KeyEvent(kb.Escape))
	require.False(t, asks[bool](p, `document.querySelector("[role=tooltip]").checkVisibility()`), "and hides it")
	p.opens("/console/goals", "water the plants")
	p.tabsTo(".x", "")
	p.does(chromedp.KeyEvent(kb.Enter))
	p.waits("Cancelled. It can be brought back")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}
