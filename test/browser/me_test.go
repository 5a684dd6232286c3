package browser_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/rpc"
)

// signsInAs signs the person of a profile in with their own token.
func (p *product) signsInAs(profileID string) {
	p.t.Helper()
	token, err := p.services.Secrets.APIToken(profileID, stack.OrgID, rpc.RoleUser, clock.System().Now(), time.Hour)
	require.NoError(p.t, err)
	p.press("header//button", "Sign out")
	p.waits("You are signed out.")
	p.does(chromedp.SetValue(chromedp.CSS(`#token`), token))
	p.press("main//button", "Sign in")
}

func TestAPersonsOwnConsoleInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	id := p.meets()
	p.goal("water the plants in 2 hours")
	p.signsInAs(id)
	p.waits("water the plants")
	require.Equal(t, []string{"Goals", "Preferences"}, asks[[]string](p, `[...document.querySelectorAll("header nav a")].map(a => a.textContent)`))
	require.Equal(t, "Goals", asks[string](p, `document.querySelector("header nav a[aria-current]").textContent`))
	p.looks("my-goals")
	p.goal("feed the cat in 3 hours")
	p.waits("feed the cat") // by itself, though no event is read
	p.does(chromedp.Click(chromedp.CSS(`.goal button.x`)))
	p.waits("Cancelled. It can be brought back")

	p.opens("/console/me", "Tips are on.")
	p.looks("me")
	p.press("button", "Switch tips off")
	p.waits("Tips are off.")
	p.opens("/console/me?lang=pt-BR", "As dicas estão desativadas.")
	p.looks("me-pt")
	p.press("button", "Desativar essas mensagens")
	p.waits("Essas mensagens estão desativadas.")
	p.writes("ativar lembretes")
	p.waits("Essas mensagens estão ativadas.") // the same setting, said by text

	p.opens("/console/goals", "Agendado")
	p.does(chromedp.Click(chromedp.CSS(`.goal.scheduled button.x`)))
	p.waits("Cancelado. Dá para trazer de volta")
	p.press("button", "Desfazer: trazer de volta")
	p.waits("Está de volta")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}

// sent returns how many texts that have words in them Twilio was asked to send.
func (p *product) sent(words string) (count int) {
	for _, m := range p.vendors.Twilio.Messages() {
		if m.From == stack.FromNumber && strings.Contains(m.Body, words) {
			count++
		}
	}
	return count
}

func TestAGoalIsCancelledWhileItBeginsInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	p.meets()
	other, closeTab := chromedp.NewContext(p.browser)
	t.Cleanup(closeTab)
	p.beside(other, func() { p.opensTab(other) })

	p.goal("wake the dog in 20 seconds")
	p.goal("call the bank in 2 hours")
	stale := func(words string) { // the other tab still shows what is over: a person has something open there
		p.beside(other, func() {
			p.opens("/console/goals", words)
			p.press("li[.//h2[contains(., '"+words+"')]]//summary", "Reschedule")
		})
	}
	cross := func(words string) {
		p.does(chromedp.Click("//li[.//h2[contains(., '" + words + "')]]//button[contains(@class, 'x')]"))
	}
	stale("wake the dog")
	p.opens("/console/goals", "wake the dog")
	p.does(chromedp.WaitVisible(chromedp.CSS(`.badge.completed`))) // live
	p.beside(other, func() {
		cross("wake the dog")
		p.waits("Not done: the goal")
	})
	require.Equal(t, 1, p.sent("wake the dog"))

	stale("call the bank")
	cross("call the bank")
	p.waits("It can be brought back")
	p.beside(other, func() {
		cross("call the bank")
		p.waits("It can be brought back") // it is cancelled, as this person wished
	})
	p.racesTheClock()
	require.Zero(t, p.sent("call the bank"))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}

// racesTheClock presses the X of goals as their time comes, some before and some after it.
func (p *product) racesTheClock() {
	p.t.Helper()
	var goals, ids []string
	var presses []int64 // when, by the clock of both
	for _, g := range []struct {
		name   string
		before time.Duration
	}{{"the red", 6 * time.Second}, {"the green", 300 * time.Millisecond}, {"the blue", 0}, {"the white", -8 * time.Second}} {
		id, due := p.goal("paint " + g.name + " door in 12 seconds")
		goals, ids, presses = append(goals, "paint "+g.name+" door"), append(ids, id), append(presses, due.Add(-g.before).UnixMilli())
	}
	plan, err := json.Marshal([]any{ids, presses})
	require.NoError(p.t, err)
	refused := asks[[]bool](p, `(async ([ids, presses]) => {
		const refused = [];
		for (const [i, id] of ids.entries()) {
			await new Promise(r => setTimeout(r, presses[i] - Date.now()));
			const answer = await fetch("/console/goals/" + id + "/cancel", {method: "POST", body: new URLSearchParams({back: "/console/goals"})});
			refused.push((await answer.text()).includes("Not done: the goal is"));
		}
		return refused;
	})(`+string(plan)+`)`)
	require.False(p.t, refused[0], "there was time enough")
	require.True(p.t, refused[3], "it was too late")
	want := map[bool]int{true: 1, false: 0}
	for i, goal := range goals {
		require.Eventually(p.t, func() bool { return p.sent(goal) == want[refused[i]] }, longest, 100*time.Millisecond, "%s: %v", goal, refused)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), longest)
	defer cancel()
	require.NoError(p.t, p.vendors.Twilio.Idle(ctx))
	for i, goal := range goals {
		require.Equal(p.t, want[refused[i]], p.sent(goal), "%s: %v", goal, refused)
	}
	p.t.Logf("refused, for the goal had begun: %v", refused)
}

func TestAPageSaysThatItIsNotUpToDateInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	ctx, cancel := context.WithTimeout(t.Context(), 2*longest)
	defer cancel()
	require.NoError(t, p.services.Stop(ctx))
	p.waits("Not up to date since")
	p.looks("not-up-to-date")
	require.Contains(t, asks[string](p, `document.querySelector("main").innerText`), "Nothing needs you.", "what was true then is still there")
	var err error
	p.services, err = stack.StartServices(ctx, p.vendors, p.config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return asks[string](p, `document.getElementById("stale").textContent`) == ""
	}, longest, 100*time.Millisecond)
	p.opens("/console/people?q=Ana&lang=pt-BR", "Ninguém encontrado.")
	p.does(chromedp.Click(chromedp.CSS(`.settings summary`)))
	p.press("details[@open]//button", "Usar")
	p.waits("Ninguém encontrado.")
	require.Equal(t, "Ana", asks[string](p, `new URLSearchParams(location.search).get("q")`))
}
