package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
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
	count := func(n int32) *overviewv1.Count { return &overviewv1.Count{Count: n} }
	s.says("GetFlowFunnel", &onboardingv1.GetFlowFunnelResponse{Began: count(400), Open: count(1), Steps: []*onboardingv1.FunnelStep{
		{Step: "which_day", Now: 7, Reached: 300, WentOn: 250, Answered: 260, Silent: 30, Stopped: 13}, {Step: "of_another_version", Reached: 4},
	}})
	_, page := b.page(root + "/flows")
	require.Contains(t, page, `<a href="/console/flows/appointment">appointment</a>`)
	_, page = b.page(root + "/flows/appointment")
	if file := os.Getenv("CONSOLE_FLOW_PAGE"); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
	}
	for _, want := range []string{
		"Which day suits you?", "Que dia", "silent for 6 h", "300 came · 7 here now · 250 went on · 30 silent · 13 opted out", "of the 400 who began",
		`<th scope="row">of another version</th>`, `<td class="number">300</td><td class="number hint">75%</td>`, `<a href="#step-which_day">which day</a>`, `aria-label="The steps and the ways`,
	} {
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
