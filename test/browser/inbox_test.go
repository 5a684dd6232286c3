package browser_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// TestSomebodyIsAnsweredByHandInABrowser is the story of the inbox, by the keyboard alone where a person would use it.
func TestSomebodyIsAnsweredByHandInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	p.meets()
	p.opens("/console/inbox", "Nobody waits for an answer.")
	p.writes("I want to talk to a human please")
	p.waits("asked for a person") // live
	p.looks("inbox-list")
	p.walks("/console/inbox")

	p.does(chromedp.Navigate(p.origin+"/console/inbox"), chromedp.WaitVisible(chromedp.CSS(`.tickets ol a`)), chromedp.KeyEvent("j"))
	p.waits("I want to talk to a human please")
	p.does(chromedp.WaitVisible(chromedp.CSS(`#compose`)))
	p.looks("inbox")
	p.walks("a ticket")
	p.does(chromedp.KeyEvent(kb.Escape), chromedp.Click(chromedp.CSS(`#thread-title`)), chromedp.KeyEvent("a"))
	p.waits("It is yours.")

	require.Eventually(t, func() bool { return asks[string](p, `document.readyState`) == "complete" }, longest, 100*time.Millisecond,
		"the page may be there before what follows its keys")
	p.does(chromedp.KeyEvent("r"))
	require.Equal(t, "answer", asks[string](p, `document.activeElement.id`))
	asks[string](p, `document.querySelector("#answer").value = ""`) // chromedp types the letter of a key by itself
	p.does(chromedp.KeyEvent("Somebody calls you today"))
	require.Equal(t, "1 SMS, 24 characters", asks[string](p, `document.querySelector("#segments").textContent`))
	p.writes("are you there?")
	p.waits("are you there?") // live, under the hands of who writes
	require.Equal(t, "Somebody calls you today", asks[string](p, `document.querySelector("#answer").value`))
	p.does(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("j")) // away from it, by mistake
	p.does(chromedp.Navigate(p.origin+"/console/inbox"), chromedp.Click(chromedp.CSS(`.tickets ol a`)))
	p.does(chromedp.WaitVisible(chromedp.CSS(`#compose`)))
	p.waits("are you there?")
	restored := func() bool {
		return asks[string](p, `document.querySelector("#answer").value`) == "Somebody calls you today"
	}
	require.Eventually(t, restored, longest, 100*time.Millisecond, "it is kept in the tab")
	p.does(chromedp.Focus(chromedp.CSS(`#answer`)), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	p.waits("Sent.")
	forgotten := func() bool {
		return asks[string](p, `document.querySelector("#answer").value + Object.keys(sessionStorage)`) == ""
	}
	require.Eventually(t, forgotten, longest, 100*time.Millisecond, "once it is stored")
	require.Equal(t, 1, p.sent("Somebody calls you today"))
	p.waits("by operator")
	p.keeps("inbox-answered")

	p.does(chromedp.Click(chromedp.CSS(`#thread-title`)), chromedp.KeyEvent("e"), chromedp.KeyEvent(kb.Tab))
	p.does(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	p.waits("Closed. The flow goes on.")
	p.opens("/console/inbox?lang=pt-BR", "Ninguém espera uma resposta.")
	p.looks("inbox-pt")
	for _, width := range []int64{1024, 1280, 1600} {
		p.does(chromedp.EmulateViewport(width, 900))
		require.True(t, asks[bool](p, `(() => { const tabs = document.querySelector(".tickets .tabs"); return tabs.scrollWidth <= tabs.clientWidth })()`),
			"no tab is cut off in a window of %d", width)
		p.keeps("inbox-tabs-pt")
	}
	p.does(chromedp.EmulateViewport(1280, 900))
	p.opens("/console/inbox?view=closed&lang=en", "asked for a person")
	p.v1(http.MethodGet, "/v1/tickets?status=closed", "", new(struct{}))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}
