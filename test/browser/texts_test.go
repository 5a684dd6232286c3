package browser_test

import "github.com/chromedp/chromedp"

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
	p.press("summary", "Publish")
	p.press("details[@open]//button", "Publish")
	p.waits("The texts are published.")
	p.press("a", "Show differences")
	p.waits("Thank you for your time.")
	p.opens("/console/flows/nps/texts?language=pt-BR&lang=pt-BR", "Nada está mudado.")
	p.looks("flow-texts-pt")
	p.opens("/console/flows/nps?lang=en", "Change texts")
}
