package browser_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/rpc"
)

// opens goes to a page and waits until it shows words.
func (p *product) opens(path, words string) {
	p.t.Helper()
	p.does(chromedp.Navigate(p.origin + path))
	p.waits(words)
}

// enrols enrols and activates the person, and shows their handset.
func (p *product) enrols() {
	p.t.Helper()
	p.does(chromedp.Navigate(p.origin+"/console/people"), chromedp.SendKeys(chromedp.CSS(`input[name=phone]`), phone), chromedp.SendKeys(chromedp.CSS(`input[name=first_name]`), hostile))
	p.press("section//button", "Enrol a person")
	p.waits("Enrolled.")
	p.press("summary", "Activate")
	p.press("details[@open]//button", "Activate")
	p.waits("Activated.")
	p.opens("/console/handsets", "Sound good?")
}

// says types a text on the first handset.
func (p *product) says(text string) {
	p.t.Helper()
	p.does(chromedp.SendKeys(chromedp.CSS(`#body-a`), text))
	p.press(`section[1]//button`, "Send")
	p.waits("Sent.")
}

// breaks switches one fault on; "" mends all.
func (p *product) breaks(fault, word string) {
	p.t.Helper()
	p.opens("/console/handsets", "What goes wrong")
	script := `document.querySelectorAll("form[action$=faults] select").forEach(s => s.value = "");`
	if fault != "" {
		script += `document.querySelector("select[name=` + fault + `]").value = "` + word + `";`
	}
	asks[bool](p, script+`true`)
	p.press("button", "Switch")
	p.waits("Switched.")
}

func TestWhatNeedsAnOperatorIsMendedInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	p.enrols()
	p.looks("handsets")

	p.says("Sounds good")
	p.waits("just reply to this text to begin") // live
	p.breaks("sends", "refused")
	p.press("section[1]//button", "Yes")
	p.waits("Sent.")
	p.opens("/console/needs", "Needs you")
	p.waits("Twilio 21211") // live: the session is parked
	p.looks("needs")
	p.breaks("", "")

	p.opens("/console/needs?kind=session", "Session is parked")
	p.does(chromedp.Click(`//a[contains(., "Look at it and resolve")]`))
	p.waits("What is true?")
	p.looks("evidence")
	p.does(chromedp.Click(chromedp.CSS(`input[value=not_sent]`)), chromedp.SendKeys(chromedp.CSS(`#reason`), "the number is right"))
	p.press("button", "Resolve")
	p.waits("Resolved.")
	p.opens("/console/needs?kind=session", "Session is parked")
	p.does(chromedp.Click(chromedp.CSS(`.need input[type=checkbox]`)))
	p.press("button", "Review what is ticked")
	p.waits("Nothing is done yet.")
	p.looks("review")
	p.press("button", "Do it")
	p.waits("Resumed.")
	p.opens("/console/handsets", "Ready for the first question?") // the whole burst, live
	p.waits("+8.")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}

// Also: S3-26.
func TestEveryPageIsSeenInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	p.enrols()

	p.goal("call John in 50 minutes")
	p.goal("water the plants in 2 hours")
	p.opens("/console/goals", "Runs in 49 min")
	require.Contains(t, asks[string](p, `document.querySelector("[role=tooltip]").textContent`), "Runs at")
	p.looks("goals")
	p.countsDown()
	p.does(chromedp.Click(chromedp.CSS(`.goal button.x`)))
	p.waits("Cancelled. It can be brought back")
	p.press("button", "Undo: bring it back")
	p.waits("brought back")
	p.goal("feed the cat in 3 hours")
	p.waits("feed the cat") // live

	for _, page := range []struct{ name, path, words string }{
		{name: "queues", path: "/console/queues?queue=webhook_jobs", words: "session.opening"},
		{name: "outbound", path: "/console/queues?queue=sms_outbound_jobs&status=failed", words: "There are none."},
		{name: "engagement", path: "/console/engagement?dry=daily", words: "looked at, something would change"},
		{name: "flow", path: "/console/flow", words: "onboarding_message_4"},
		{name: "ledger", path: "/console/ledger?phone=%2B14155552001", words: "Verified."},
		{name: "audit", path: "/console/audit", words: "activate"},
		{name: "resume", path: "/console/needs/resume?reason=brought+nothing", words: "0 parked sessions"},
		{name: "needs-pt", path: "/console/needs?lang=pt-BR", words: "Nada precisa de você."},
		{name: "audit-pt", path: "/console/audit?lang=pt-BR", words: "Quem mudou algo"},
	} {
		p.opens(page.path, page.words)
		p.looks(page.name)
	}
	p.opens("/console/queues?lang=en", "session.opening")
	p.does(chromedp.Click(`//a[contains(., "session.opening")]`))
	p.waits("Payload")
	p.looks("job")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}

// countsDown holds the countdown of the call to one that goes on by the second.
func (p *product) countsDown() {
	p.t.Helper()
	shown := asks[[]string](p, `(async () => {
		const seen = [];
		for (const end = Date.now() + 3500; Date.now() < end; await new Promise(r => setTimeout(r, 100))) {
			const text = [...document.querySelectorAll("li.goal")].find(li => li.innerText.includes("call John")).querySelector("time.due").textContent;
			if (seen.at(-1) !== text) seen.push(text);
		}
		return seen;
	})()`)
	require.GreaterOrEqual(p.t, len(shown), 3, "%v", shown)
	last := time.Hour
	for _, text := range shown {
		left, err := time.ParseDuration(strings.NewReplacer(" ", "", "min", "m").Replace(text))
		require.NoError(p.t, err, "it is such as 49 min 58 s")
		require.Less(p.t, left, last, "%v", shown)
		last = left
	}
}

// v1 makes a call of /v1 as an operator.
func (p *product) v1(method, path, body string, into any) {
	p.t.Helper()
	token, err := p.services.Secrets.APIToken("operator", stack.OrgID, rpc.RoleOperator, clock.System().Now(), time.Hour)
	require.NoError(p.t, err)
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.origin+path, strings.NewReader(body))
	require.NoError(p.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(p.t, err)
	said, err := io.ReadAll(response.Body)
	require.NoError(p.t, errors.Join(err, response.Body.Close()))
	require.Less(p.t, response.StatusCode, http.StatusMultipleChoices, "%s", said)
	require.NoError(p.t, json.Unmarshal(said, into))
}

// enrolsNamed enrols a person by /v1, with the phone that writes.
func (p *product) enrolsNamed(name string) (id string) {
	p.t.Helper()
	var made struct {
		Profile struct {
			ID string `json:"profile_id"`
		} `json:"profile"`
	}
	p.v1(http.MethodPost, "/v1/profiles", `{"phone":"`+phone+`","first_name":"`+name+`","locale":"en","time_zone":"Africa/Abidjan"}`, &made)
	return made.Profile.ID
}

// meets enrols and activates the person by /v1.
func (p *product) meets() (id string) {
	p.t.Helper()
	id = p.enrolsNamed("Ana")
	p.v1(http.MethodPost, "/v1/profiles/"+id+":activate", `{}`, new(struct{}))
	require.Eventually(p.t, func() bool { return p.sent("Sound good?") == 1 }, longest, 20*time.Millisecond)
	return id
}

// profile is the person's id.
func (p *product) profile() string {
	p.t.Helper()
	var found struct {
		Profiles []struct {
			ID string `json:"profile_id"`
		} `json:"profiles"`
	}
	p.v1(http.MethodGet, "/v1/profiles?phone="+url.QueryEscape(phone), "", &found)
	require.NotEmpty(p.t, found.Profiles)
	return found.Profiles[0].ID
}

// goal schedules one for the person, by /v1.
func (p *product) goal(text string) (id string, due time.Time) {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"profile_id": p.profile(), "goal": text, "idempotency_key": text})
	require.NoError(p.t, err)
	var made struct {
		Goal struct {
			ID  string    `json:"goal_id"`
			Due time.Time `json:"scheduled_for"`
		} `json:"goal"`
	}
	p.v1(http.MethodPost, "/v1/goals", string(body), &made)
	return made.Goal.ID, made.Goal.Due
}
