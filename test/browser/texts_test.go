package browser_test

import (
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// texts changes a text of a flow, looks at what it costs, publishes it, and takes it back.
func (p *product) texts() {
	p.t.Helper()
	p.opens("/console/flows/nps", "Change texts")
	p.press("a", "Change texts")
	p.waits("Nothing is changed.")
	p.does(chromedp.SetValue(chromedp.CSS(`textarea[name="text.THANKS"]`), "Thanks, {nobody}!"))
	p.press("button", "Save the draft")
	p.waits("which is neither first_name nor a field")
	p.looks("flow-texts-wrong")
	p.does(chromedp.SetValue(chromedp.CSS(`textarea[name="text.THANKS"]`), "Thanks, {first_name|friend}!"))
	p.press("button", "Save the draft")
	p.waits("Thanks, friend!")
	p.looks("flow-texts")
	typed := chromedp.CSS(`textarea[name="text.THANKS"]`)
	p.does(chromedp.SetValue(typed, "Thanks so much, "), chromedp.SendKeys(typed, "{first_name|friend}!"))
	leaves := func() bool {
		return asks[bool](p, `dispatchEvent(new Event("beforeunload", {cancelable: true}))`)
	}
	require.False(p.t, leaves(), "the browser asks first: it is not saved")
	asks[bool](p, `(() => { const t = document.querySelector('textarea[name="text.THANKS"]'); t.value = t.defaultValue; return true })()`)
	require.True(p.t, leaves())
	p.does(chromedp.Navigate(p.origin + "/console/flows/nps/texts?language=pt-BR"))
	p.does(chromedp.Navigate(p.origin + "/console/flows/nps/texts?language=en"))
	p.waits("What you typed before is in its fields again.")
	p.looks("flow-texts-typed")
	p.press("summary", "Publish")
	p.press("details[@open]//button", "Publish") // with what was not saved
	p.waits("The texts are published.")
	require.Equal(p.t, "Thanks so much, {first_name|friend}!", asks[string](p, `document.querySelector('textarea[name="text.THANKS"]').value`))
	require.Empty(p.t, asks[string](p, `Object.keys(sessionStorage).join()`), "it is stored")
	p.opens("/console/flows/nps", "Show differences")
	p.press("a", "Show differences")
	p.waits("Thank you for your time.")
	p.opens("/console/flows/nps/texts?language=pt-BR&lang=pt-BR", "Nada está mudado.")
	p.looks("flow-texts-pt")
	p.opens("/console/flows/nps?lang=en", "Change texts")
}
