// Package browser_test drives the console in Debian's Chromium, against the whole product with emulators in the place of QStash and Twilio.
package browser_test

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// axe is axe-core 4.14.1 (MPL-2.0, testdata/axe.LICENSE): committed, because the test command reaches no registry.
//
//go:embed testdata/axe.min.js
var axe string

const (
	phone   = "+14155552001"
	key     = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	hostile = `<script>alert(1)</script> ` + "\u202e" + `drow`
	// longest bounds every wait of a browser. It is only ever used up by a failure.
	longest = 60 * time.Second
)

// product is everything that runs, and a browser in front of it.
type product struct {
	t        *testing.T
	origin   string
	vendors  *stack.Vendors
	services *stack.Services
	config   stack.ServiceConfig // what the services were started with
	browser  context.Context     //nolint:containedctx // chromedp's handle of a tab

	mu     sync.Mutex
	faults []string // what the browser complained of
	bytes  float64  // of the first page with all that it needs
}

// chromium finds the browser, or says what to install.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium: apt-get install chromium")
	return ""
}

func starts(t *testing.T) *product {
	t.Helper()
	path := chromium(t)
	quiet := slog.New(slog.DiscardHandler)
	vendors, err := stack.StartVendors(t.Context(), stack.VendorConfig{Clock: clock.System(), Log: quiet})
	require.NoError(t, err)
	cfg := stack.ServiceConfig{
		OnboardingDatabaseURL: pgtest.URL(t, onboarding.Migrations()), MessagingDatabaseURL: pgtest.URL(t, messaging.Migrations()),
		Secrets: stack.Secrets{ServiceAuth: strings.Repeat("s", 32), APIJWT: strings.Repeat("j", 32)}, Log: quiet,
		Environ: map[string]string{"CONSOLE": "on", "CONSOLE_KEY": key, "PSEUDONYM_KEY": key}, ConsoleLinks: true,
	}
	services, err := stack.StartServices(t.Context(), vendors, cfg)
	require.NoError(t, err)
	cfg.Addresses = services.Addresses
	p := &product{t: t, origin: services.URL(), vendors: vendors, services: services, config: cfg}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), longest)
		defer cancel()
		require.NoError(t, p.services.Stop(ctx))
		require.NoError(t, vendors.Stop(ctx))
	})
	p.opensTab(browser(t, path))
	return p
}

// browser starts Chromium and returns its first tab. Chromium crashes now and then while it starts on a busy machine; then it is started
// once more.
func browser(t *testing.T, path string) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	var err error
	for range 2 {
		allocator, endAllocator := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
		t.Cleanup(endAllocator)
		tab, endTab := chromedp.NewContext(allocator)
		t.Cleanup(endTab)
		tab, endTime := context.WithTimeout(tab, 4*time.Minute)
		t.Cleanup(endTime)
		if err = chromedp.Do(tab); err == nil {
			return tab
		}
	}
	require.NoError(t, err)
	return nil
}

// opensTab makes a tab the one that is looked at, and listens to what it complains of.
func (p *product) opensTab(tab context.Context) {
	p.t.Helper()
	p.browser = tab
	require.NoError(p.t, chromedp.Listen(tab, p.hears))
	_, err := chromedp.Call(tab, network.Enable, network.EnableParams{})
	require.NoError(p.t, err)
}

// The test acts in another tab for the length of do.
func (p *product) beside(tab context.Context, do func()) {
	p.t.Helper()
	first := p.browser
	p.browser = tab
	defer func() { p.browser = first }()
	do()
}

// hears keeps what the browser complains of, and every request to another host.
func (p *product) hears(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		p.faults = append(p.faults, "a dialog: "+e.Message)
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			p.faults = append(p.faults, "console: "+string(e.Type))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.faults = append(p.faults, e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.origin) && !strings.HasPrefix(e.Request.URL, "data:") {
			p.faults = append(p.faults, "a request to "+e.Request.URL)
		}
	case *network.EventLoadingFinished:
		p.bytes += e.EncodedDataLength
	}
}

func (p *product) does(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.browser, longest)
	defer cancel()
	for _, step := range steps {
		err := chromedp.Do(ctx, step)
		for exchanged(err) && ctx.Err() == nil {
			err = chromedp.Do(ctx, step)
		}
		require.NoError(p.t, err)
	}
}

// exchanged reports whether a page renewed itself between the search for an element and the hand on it. A person uses the one that stands
// there now; nothing was pressed or written yet.
func exchanged(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Could not find node with given id")
}

// asks has the page evaluate an expression.
func asks[T any](p *product, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.browser, longest)
	defer cancel()
	said, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err)
	return said
}

// draws has the page drawn light or dark; as the machine does for neither.
func (p *product) draws(scheme string) {
	p.t.Helper()
	in := emulation.SetEmulatedMediaParams{}
	if scheme != "" {
		in.Features = []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	}
	_, err := chromedp.Call(p.browser, emulation.SetEmulatedMedia, in)
	require.NoError(p.t, err)
}

// waits until the page shows words, which come by themselves. A page that is being left answers with an error.
func (p *product) waits(words string) {
	p.t.Helper()
	shown := chromedp.Evaluate[bool](`document.querySelector("main").innerText.includes(` + quoted(words) + `)`)
	defer func() {
		if p.t.Failed() {
			text, err := chromedp.Run(p.browser, chromedp.Evaluate[string](`location.href + "\n" + document.querySelector("main").innerText`))
			p.t.Logf("the page does not say %q (%v): %s", words, err, text)
		}
	}()
	require.Eventually(p.t, func() bool {
		there, err := chromedp.Run(p.browser, shown)
		return err == nil && there
	}, longest, 100*time.Millisecond, "%s", words)
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

// press presses the button or summary with these words.
func (p *product) press(selector, words string) {
	p.t.Helper()
	p.does(chromedp.Click("//" + selector + "[normalize-space()=" + quoted(words) + "]"))
}

// looks holds a page to what holds for all: axe finds nothing in light and dark, on a desk and on a phone, and nothing is wider than a
// phone. It keeps a screenshot where CONSOLE_SCREENSHOTS names a folder.
func (p *product) looks(name string) {
	p.t.Helper()
	p.audits(name)
	p.does(chromedp.EmulateViewport(375, 800))
	p.audits(name + "-375")
	p.fits(name)
	p.does(chromedp.EmulateViewport(1280, 900))
}

// audits has axe look at a page as wide as the window, light and dark.
func (p *product) audits(name string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.draws(scheme)
		found := asks[[]string](p, axe+`;axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.target.join(" ")).join(", ")))`)
		require.Empty(p.t, found, "%s, %s", name, scheme)
		p.keeps(name + "-" + scheme)
	}
	p.draws("")
}

// fits holds a page to the width of a phone, which the window has.
func (p *product) fits(name string) {
	p.t.Helper()
	p.keeps(name + "-phone")
	width := asks[int64](p, `(() => { // also with its forms open, which are closed again: a page does not renew itself under an open one
		const closed = [...document.querySelectorAll("details:not([open])")];
		closed.forEach(d => d.open = true);
		const width = document.documentElement.scrollWidth;
		closed.forEach(d => d.open = false);
		return width;
	})()`)
	require.LessOrEqual(p.t, width, int64(375), name)
}

func (p *product) keeps(name string) {
	p.t.Helper()
	folder := os.Getenv("CONSOLE_SCREENSHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(p.browser, chromedp.FullScreenshot(100))
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600))
}

// writes has the person's phone send a text.
func (p *product) writes(text string) {
	p.t.Helper()
	said, err := p.vendors.Twilio.Receive(p.t.Context(), phone, stack.FromNumber, text)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, said.StatusCode)
}

func (p *product) signsIn() {
	p.t.Helper()
	link, err := signin.NewLink(config.NewSecret(key), stack.OrgID, clock.System().Now())
	require.NoError(p.t, err)
	p.does(chromedp.Navigate(p.origin + link))
	p.press("button", "Open the console")
	p.waits("Nothing needs you.")
}

func TestAConversationIsWatchedInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.opens("/console/sign-in", "Operator token")
	p.looks("sign-in")
	p.signsIn()
	p.looks("overview")

	p.mu.Lock()
	p.bytes = 0
	p.mu.Unlock()
	_, err := chromedp.Call(p.browser, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	require.NoError(t, err)
	p.does(chromedp.Navigate(p.origin + "/console"))
	p.waits("Overview")
	p.mu.Lock()
	require.Less(t, p.bytes, float64(100_000), "the first page with all that it needs")
	p.mu.Unlock()

	p.does(chromedp.Navigate(p.origin+"/console/people"), chromedp.SendKeys(chromedp.CSS(`input[name=phone]`), phone), chromedp.SendKeys(chromedp.CSS(`input[name=first_name]`), hostile))
	p.press("section//button", "Enrol a person")
	p.waits("Enrolled.")
	p.press("summary", "Activate")
	p.press("details[@open]//button", "Activate")
	p.waits("Activated.")
	p.waits("Sound good?")
	p.writes("Sounds good")
	p.waits("Sounds good")
	p.writes("ok, go ahead")
	p.waits("Ready for the first question?") // the whole burst, live: nothing was pressed
	p.waits("+8.")                           // seconds between the texts
	p.looks("person")
	p.press("summary", "Schedule a goal")
	p.does(chromedp.SendKeys(chromedp.CSS(`input[name=goal]`), "water the plants in 2 hours"))
	p.press("details[@open]//button", "Schedule a goal")
	p.waits("Scheduled: ")
	p.looks("person-goal")
	p.writes("Yes")
	p.waits("onboarding is over")

	p.does(chromedp.Click(`//a[contains(., "What would happen now")]`))
	p.waits("The session is not active")
	p.looks("why")
	p.opens("/console/people/"+p.profile(), "onboarding is over")
	p.press("summary", "Record opt-out")
	p.does(chromedp.SendKeys(chromedp.CSS(`#consent input[name=reason]`), "asked our support by mail for no more texts"))
	p.press("details[@open]//button", "Record opt-out")
	p.waits("The opt-out is recorded.")
	p.waits("opted out")
	p.does(chromedp.Navigate(p.origin + "/console/people?lang=pt-BR"))
	p.waits("Primeiro nome")
	p.looks("people-pt")

	// By the keyboard alone: the first Tab leads past the menu, and the search is answered by Enter.
	p.does(chromedp.Navigate(p.origin+"/console/people?lang=en"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "main", asks[string](p, `document.activeElement.id`))
	p.does(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(phone), chromedp.KeyEvent(kb.Enter))
	p.waits(phone)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}
