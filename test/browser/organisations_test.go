package browser_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/rpc"
)

// TestKeysAndSendersInABrowser makes a key and revokes it, and is refused a sender.
func TestKeysAndSendersInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	p.opens("/console/keys", "No key yet.")
	p.does(chromedp.SendKeys(chromedp.CSS(`input[name=name]`), "shop"))
	p.press("button", "Make the key")
	p.waits("it is not shown again")
	require.Regexp(t, "^pl_", asks[string](p, `document.querySelector(".secret code").textContent`))
	p.looks("keys")
	p.press("summary", "Revoke")
	p.press("details[@open]//button", "Revoke")
	p.waits("Revoked.")

	p.opens("/console/senders", "No sender is stored.")
	p.looks("senders")
	for field, value := range map[string]string{
		"name": "Second brand", "account_sid": "AC0123456789abcdef0123456789abcdef", "number": "+14155550177",
		"api_key_sid": "SK0123456789abcdef0123456789abcdef", "api_key_secret": "s3cret", "auth_token": "t0ken",
	} {
		p.does(chromedp.SendKeys(chromedp.CSS(`input[name=`+field+`]`), value))
	}
	p.press("button", "Check and add")
	p.waits("SENDER_KEYSET")
	require.Equal(t, []string{"Second brand", ""},
		asks[[]string](p, `["name", "api_key_secret"].map(n => document.querySelector("input[name=" + n + "]").value)`), "no secret is kept")
	for _, page := range []struct{ name, path, words string }{
		{name: "keys-pt", path: "/console/keys?lang=pt-BR", words: "Criar uma chave"},
		{name: "senders-pt", path: "/console/senders", words: "Acrescentar um remetente"},
	} {
		p.opens(page.path, page.words)
		p.looks(page.name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}

// TestOrganisationsInABrowser makes an organisation, hands out its first key, suspends, resumes and ends it.
func TestOrganisationsInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.opens("/console/sign-in", "Operator token")
	token, err := p.services.Secrets.APIToken("root", "", rpc.RolePlatform, clock.System().Now(), time.Hour)
	require.NoError(t, err)
	p.does(chromedp.SetValue(chromedp.CSS(`#token`), token))
	p.press("main//button", "Sign in")
	p.waits("Each has its own people")
	require.Equal(t, []string{"Organisations"}, asks[[]string](p, `[...document.querySelectorAll("header nav a")].map(a => a.textContent)`))
	p.does(chromedp.SendKeys(chromedp.CSS(`input[name=name]`), "Acme"))
	p.press("button", "Make it")
	p.waits("Next, make its first key.")
	p.press("summary", "Make its first key")
	p.press("details[@open]//button", "Make its first key")
	p.waits("it is not shown again")
	p.looks("organisation")
	p.press("summary", "Suspend")
	p.does(chromedp.SendKeys(chromedp.CSS(`details[open] input[name=reason]`), "unpaid"))
	p.press("details[@open]//button", "Suspend")
	p.waits("Suspended.")
	p.press("button", "Resume")
	p.waits("Active again")
	ends := func(name, says string) {
		p.press("summary", "End")
		p.does(chromedp.SendKeys(chromedp.CSS(`details[open] input[name=reason]`), "left"), chromedp.SendKeys(chromedp.CSS(`details[open] input[name=confirm]`), name))
		p.press("details[@open]//button", "End")
		p.waits(says)
	}
	ends("Another", "What you wrote is not its name")
	ends("Acme", "Ended. It can be resumed")
	p.looks("organisation-ended")
	p.opens("/console/organisations", "Acme")
	p.looks("organisations")
	p.opens("/console/people", "only an operator sees this page")
	p.opens("/console/organisations?lang=pt-BR", "Criar uma organização")
	p.looks("organisations-pt")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Len(t, p.faults, 1, "the page that is refused")
}
