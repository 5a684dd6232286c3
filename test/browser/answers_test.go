package browser_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
)

// answerWords has the words of the inbox about an answer, in a language of the console.
type answerWords struct{ lang, send, sent, quiet, quietWhy, stopped, optedOut string }

var answersSaid = []answerWords{
	{
		lang: "en", send: "Send", sent: "Sent.", quiet: "Not sent: quiet hours", quietWhy: "it is night where the person is",
		stopped: "This person has opted out", optedOut: "Not sent: they have opted out",
	},
	{
		lang: "pt-BR", send: "Enviar", sent: "Enviado.", quiet: "Não enviado: horário de silêncio", quietWhy: "é noite onde a pessoa está",
		stopped: "Esta pessoa optou por sair", optedOut: "Não enviado: a pessoa saiu",
	},
}

// asksForAPerson enrols a person who asks for one before any conversation, and returns their ticket.
func (p *product) asksForAPerson(number string) (ticket string) {
	p.t.Helper()
	var made struct {
		Profile struct {
			ID string `json:"profile_id"`
		} `json:"profile"`
	}
	p.v1(http.MethodPost, "/v1/profiles", `{"phone":"`+number+`","first_name":"Ana","locale":"en","time_zone":"Africa/Abidjan"}`, &made)
	p.saysFrom(number, "I want to talk to a human please")
	var found struct {
		Tickets []struct {
			ID string `json:"ticket_id"`
		} `json:"tickets"`
	}
	require.Eventually(p.t, func() bool {
		p.v1(http.MethodGet, "/v1/tickets?profile_id="+url.QueryEscape(made.Profile.ID), "", &found)
		return len(found.Tickets) == 1
	}, longest, 100*time.Millisecond)
	return found.Tickets[0].ID
}

// saysFrom has a phone send a text.
func (p *product) saysFrom(number, text string) {
	p.t.Helper()
	said, err := p.vendors.Twilio.Receive(p.t.Context(), number, stack.FromNumber, text)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, said.StatusCode)
}

// sentTo counts the texts to a phone that have these words.
func (p *product) sentTo(number, words string) (n int) {
	for _, m := range p.vendors.Twilio.Messages() {
		if m.To == number && strings.Contains(m.Body, words) {
			n++
		}
	}
	return n
}

// answers types an answer into the open conversation and sends it.
func (p *product) answers(words answerWords, text string) {
	p.t.Helper()
	p.does(chromedp.SetValue(chromedp.CSS(`#answer`), text))
	p.press(`div[@id="compose"]//button`, words.send)
}

// wrote moves the time of a person's text. The product runs on the clock of the machine, which a test does not move.
func (p *product) wrote(ticket string, ago time.Duration) {
	p.t.Helper()
	db, err := pgx.Connect(p.t.Context(), p.config.OnboardingDatabaseURL)
	require.NoError(p.t, err)
	_, err = db.Exec(p.t.Context(), `update tickets set person_wrote_at = now() - $2::interval where id = $1`, ticket, ago)
	require.NoError(p.t, errors.Join(err, db.Close(p.t.Context())))
}

func TestAnAnswerThatDoesNotGoOutSaysWhyInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	type seat struct {
		answerWords

		width          int64
		number, ticket string
	}
	var seats []seat
	for i, words := range answersSaid {
		for j, width := range []int64{375, 1280} {
			number := fmt.Sprintf("+1415555210%d", 2*i+j)
			seats = append(seats, seat{words, width, number, p.asksForAPerson(number)})
		}
	}
	open := time.Now().UTC().Add(2 * time.Hour) //nolint:forbidigo // the machine's clock is the product's here
	p.v1(http.MethodPut, "/v1/settings", fmt.Sprintf(`{"settings":{"quiet_hours":{"enabled":true,"open":"%s","close":"%s"}}}`,
		open.Format("15:04"), open.Add(time.Hour).Format("15:04")), new(struct{}))

	for _, s := range seats {
		name := fmt.Sprintf("answer-%s-%d", s.lang, s.width)
		p.does(chromedp.EmulateViewport(s.width, 900))
		path := "/console/inbox/" + s.ticket
		p.opens(path+"?lang="+s.lang, "I want to talk to a human please")

		p.answers(s.answerWords, "We call you today")
		p.waits(s.sent)
		require.Eventually(t, func() bool { return p.sentTo(s.number, "We call you today") == 1 }, longest, 50*time.Millisecond,
			"it is night, and they wrote within a day")

		p.wrote(s.ticket, 25*time.Hour)
		p.opens(path, "We call you today")
		p.answers(s.answerWords, "Are you still there?")
		p.waits(s.quiet)
		p.waits(s.quietWhy)
		require.Equal(t, path, asks[string](p, `location.pathname`), "on the page where it was written")
		p.looksAs(name+"-quiet", s.width)
		require.Zero(t, p.sentTo(s.number, "Are you still there?"))

		p.opens(path, "Are you still there?")
		p.wrote(s.ticket, time.Hour)
		p.does(chromedp.SetValue(chromedp.CSS(`#answer`), "Here is the offer"))
		p.saysFrom(s.number, "STOP")
		p.waits(s.stopped) // live, while it is typed
		p.press(`div[@id="compose"]//button`, s.send)
		p.waits(s.optedOut)
		p.looksAs(name+"-stopped", s.width)
		p.does(chromedp.Click(`//li[contains(., "Here is the offer")]//a[contains(@href, "again=")]`))
		kept := func() bool {
			return asks[string](p, `document.querySelector("#answer")?.value ?? ""`) == "Here is the offer"
		}
		require.Eventually(t, kept, longest, 50*time.Millisecond, "what was typed can be written again")
		require.Zero(t, p.sentTo(s.number, "Here is the offer"))
	}

	const number = "+14155552109"
	ticket := p.asksForAPerson(number)
	p.saysFrom(number, "I want to die")
	p.opens("/console/inbox/"+ticket+"?lang=en", "I want to die")
	p.waits("This person may be in danger.")
	require.True(t, asks[bool](p, `document.querySelector(".tickets ol li").matches(".loud")`), "on top of the list")
	p.looks("inbox-distress")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}

// looksAs holds a page of one width to axe, and keeps a screenshot.
func (p *product) looksAs(name string, width int64) {
	p.t.Helper()
	found := asks[[]string](p, axe+`;axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.target.join(" ")).join(", ")))`)
	require.Empty(p.t, found, name)
	p.keeps(name)
	require.LessOrEqual(p.t, asks[int64](p, `document.documentElement.scrollWidth`), width, name)
}
