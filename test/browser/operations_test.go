package browser_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// publishes publishes a flow of the examples.
func (p *product) publishes(name string) {
	p.t.Helper()
	files := map[string]string{}
	paths, err := filepath.Glob(filepath.Join("..", "..", "examples", "flows", name, "*.yaml"))
	require.NoError(p.t, err)
	require.NotEmpty(p.t, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(p.t, err)
		files[filepath.Base(path)] = string(text)
	}
	body, err := json.Marshal(map[string]any{"files": files})
	require.NoError(p.t, err)
	p.v1(http.MethodPost, "/v1/flows", string(body), new(struct{}))
}

// imports chooses a file of people, looks at its preview and enrols them.
func (p *product) imports() {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "people.csv")
	require.NoError(p.t, os.WriteFile(path, []byte(
		"phone;first_name;locale\n"+phone+";Ana;en\n2025550143;Bo;en\n+14155552002;Carla;pt-BR\n"), 0o600))
	p.opens("/console/import", "Choose a file")
	p.looks("import")
	p.does(chromedp.SetUploadFiles(chromedp.CSS(`input[type=file]`), []string{path}))
	p.press("button", "Preview")
	p.waits("Nothing is written yet.")
	p.waits("write it in international format")
	p.looks("import-preview")
	p.press("button", "Enrol 2 people")
	p.waits("Nobody was activated.")
}

// runs starts a run for those who were imported, pauses it, and ends it.
func (p *product) runs() {
	p.t.Helper()
	p.opens("/console/runs", "No run yet.")
	p.press("a", "New run")
	p.waits("Nobody is started by a preview.")
	p.looks("run-new")
	p.does(chromedp.SetValue(chromedp.CSS(`select[name=flow]`), "nps"))
	p.does(chromedp.SendKeys(chromedp.CSS(`textarea[name=list]`), phone+"\n+14155552002\n+14155559999\n"))
	p.press("button", "Preview")
	p.waits("Nobody is started yet.")
	p.waits("not enrolled")
	p.looks("run-preview")
	p.press("button", "Start for 2 people")
	p.waits("The run has begun.")
	require.Eventually(p.t, func() bool {
		p.does(chromedp.Reload())
		return asks[string](p, `document.querySelector("h1 + .pill").textContent`) == "completed"
	}, longest, 200*time.Millisecond)
	p.looks("run")
	p.opens("/console/runs", "completed")
	p.looks("runs")
}

func TestAnOrganisationIsRunInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	p := starts(t)
	p.signsIn()
	p.publishes("nps")
	p.imports()
	p.runs()
	p.texts()

	p.opens("/console/settings", "Nothing was decided yet")
	p.looks("settings")
	p.does(chromedp.SetValue(chromedp.CSS(`input[name=limit]`), "30"), chromedp.SendKeys(chromedp.CSS(`textarea[name=distress]`), "hurt myself"))
	p.does(chromedp.SendKeys(chromedp.CSS(`input[name=brand]`), "Acme"), chromedp.SendKeys(chromedp.CSS(`input[name=phone_day]`), "20:60"),
		chromedp.Click(chromedp.CSS(`input[name=own_numbers]`)), chromedp.SendKeys(chromedp.CSS(`input[name=countries]`), "US, BR"))
	p.press("button", "Save")
	p.waits("Saved.")
	p.waits("Last changes")
	p.looks("settings-saved")
	require.Equal(t, []string{"Acme", "20:60", "US, BR"}, asks[[]string](p, `["brand", "phone_day", "countries"].map(n => document.querySelector("input[name=" + n + "]").value)`))

	p.opens("/console/subscriptions", "Nothing is posted anywhere.")
	p.looks("subscriptions")
	p.does(chromedp.SendKeys(chromedp.CSS(`input[name=url]`), "https://example.com/events"))
	p.press("button", "Subscribe")
	p.waits("it is not shown again")
	p.looks("subscription")

	id := p.profile()
	p.v1(http.MethodPost, "/v1/devices", `{"profile_id":"`+id+`","name":"Kitchen display"}`, new(struct{}))
	p.opens("/console/devices", "Kitchen display")
	p.looks("devices")
	p.press("summary", "Remove")
	p.press("details[@open]//button", "Remove")
	p.waits("Removed.")

	p.opens("/console/people/"+id, "Their data")
	p.press("summary", "Put on legal hold")
	p.does(chromedp.SendKeys(chromedp.CSS(`input[name=reason][maxlength="500"]`), "case 12"))
	p.press("details[@open]//button", "Put on legal hold")
	p.waits("On legal hold.")
	p.press("summary", "Lift the legal hold")
	p.press("details[@open]//button", "Lift the legal hold")
	p.waits("The legal hold is lifted.")
	p.press("summary", "Erase this person")
	p.does(chromedp.SendKeys(chromedp.CSS(`input[name=confirm]`), "2001"))
	p.press("details[@open]//button", "Erase this person")
	p.waits("The erasure is asked for.")
	require.Eventually(t, func() bool {
		p.does(chromedp.Reload())
		return asks[string](p, `document.querySelector("main .pill").textContent`) == "erased"
	}, longest, 200*time.Millisecond)
	p.looks("erasure")
	for _, page := range []struct{ name, path, words string }{
		{name: "runs-pt", path: "/console/runs?lang=pt-BR", words: "Novo disparo"},
		{name: "import-pt", path: "/console/import", words: "Escolha um arquivo"},
		{name: "settings-pt", path: "/console/settings", words: "Horário de silêncio"},
		{name: "subscriptions-pt", path: "/console/subscriptions", words: "Nova assinatura"},
		{name: "devices-pt", path: "/console/devices", words: "Ninguém tem um dispositivo"},
	} {
		p.opens(page.path, page.words)
		p.looks(page.name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults)
}
