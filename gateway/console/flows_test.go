package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// example reads the files of an example.
func example(t *testing.T, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range []string{"flow.yaml", "en.yaml", "pt-BR.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "flows", name, file))
		require.NoError(t, err)
		all[file] = string(text)
	}
	return all
}

func TestFlowPages(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	version := &onboardingv1.FlowVersion{Flow: "appointment", Version: "0123456789abcdef", Current: true, PublishedAt: at(0)}
	s.says("ListFlows", &onboardingv1.ListFlowsResponse{Flows: []*onboardingv1.FlowVersion{version}})
	s.says("ListFlowVersions", &onboardingv1.ListFlowVersionsResponse{Versions: []*onboardingv1.FlowVersion{version, {Flow: "appointment", Version: "older"}}})
	now := example(t, "appointment")
	s.says("GetCurrentFlow", &onboardingv1.GetCurrentFlowResponse{Version: version, Files: now})
	_, page := b.page(root + "/flows")
	require.Contains(t, page, `<a href="/console/flows/appointment">appointment</a>`)
	_, page = b.page(root + "/flows/appointment")
	if file := os.Getenv("CONSOLE_FLOW_PAGE"); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
	}
	for _, want := range []string{"Which day suits you?", "Que dia", "silent for 6 h", `<a href="#step-which_day">which day</a>`, `aria-label="The steps and the ways`} {
		require.Contains(t, page, want)
	}
	before := example(t, "appointment")
	before["en.yaml"] = strings.ReplaceAll(before["en.yaml"], "Which day suits you?", "What day?")
	s.says("GetFlowVersion", &onboardingv1.GetFlowVersionResponse{Version: version, Files: before})
	_, page = b.page(root + "/flows/appointment?against=older")
	require.Regexp(t, `(?s)which day</strong>.*>changed<.*Which day suits you\?.*<del dir="auto">What day\?`, page)
	require.Equal(t, 1, strings.Count(page, `assigned">changed<`))
	require.Equal(t, 1, strings.Count(page, "<del"), "in the language that changed alone")
}

func TestEveryTextOfAStepIsShownAndCompared(t *testing.T) {
	t.Parallel()
	read := func(change func(files map[string]string)) flowShown {
		files := example(t, "appointment")
		change(files)
		f, err := readFlow(files)
		require.NoError(t, err)
		return f
	}
	now := read(func(map[string]string) {})
	now.compare(read(func(files map[string]string) {
		files["en.yaml"] = strings.Replace(files["en.yaml"], "NUDGE: \"Can you come", "NUDGE: \"Will you come", 1)
		files["flow.yaml"] = strings.Replace(files["flow.yaml"], "languages: [en, pt-BR]", "languages: [en, pt-BR, es]", 1)
		files["es.yaml"] = "texts:\n  NUDGE: ¿Puede venir?\n"
	}))
	whens := []string{}
	for _, c := range now.Steps[0].Copies {
		whens = append(whens, c.When)
	}
	require.Equal(t, []string{"", "unclear", "silence 6h"}, whens)
	nudge := now.Steps[0].Copies[2]
	require.Contains(t, nudge.Texts["pt-BR"], "Você pode vir")
	require.Equal(t, "¿Puede venir?", nudge.Before["es"], "also in a language that is gone")
	require.Contains(t, nudge.Before["en"], "Will you come")
	require.Len(t, nudge.Before, 2, "what is as it was is not struck out")
	require.Equal(t, "changed", now.Steps[0].Change)
}

// TestEveryExampleIsDrawn holds that no two ways share a piece of a lane.
func TestEveryExampleIsDrawn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"appointment", "nps", "onboarding", "opt_in", "payment", "survey"} {
		f, err := readFlow(example(t, name))
		require.NoError(t, err, name)
		d := draw(f)
		require.Len(t, d.Boxes, len(f.Steps))
		for i, a := range d.Ways {
			for _, b := range d.Ways[i+1:] {
				apart := max(a.FromY, a.ToY) < min(b.FromY, b.ToY) || max(b.FromY, b.ToY) < min(a.FromY, a.ToY)
				require.True(t, a.LaneX != b.LaneX || apart, "%s: %+v %+v", name, a, b)
			}
		}
	}
	_, err := readFlow(map[string]string{"flow.yaml": "steps: 7"})
	require.Error(t, err)
}
