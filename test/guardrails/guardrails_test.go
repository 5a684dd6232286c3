package guardrails

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

// all are the guardrails, in the order of docs/development.md.
func all() []*analysis.Analyzer {
	return []*analysis.Analyzer{sleep, burstQueue, databaseClock, loggedSecret}
}

// Where the rules hold.
const (
	product    = "paceline.internal"
	platform   = product + "/platform"
	services   = product + "/services"
	onboarding = services + "/onboarding"
	messaging  = services + "/messaging"
	contracts  = product + "/proto/gen/paceline/messaging/v1"
)

// TestGuardrail breaks every rule in every way that is known, in small packages under the product's own names (testdata). A
// `want` behind a line gives the report that the guardrail has to make there; on all other lines it must report nothing.
func TestGuardrail(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, tt := range []struct {
		name      string
		guardrail *analysis.Analyzer
		fixtures  []string
	}{
		{
			name: "S0_52_NoWaitOfOnboardingIsInItsProcess", guardrail: sleep,
			fixtures: []string{
				"services/onboarding/doze", "services/messaging/send", "platform/pause", "platform/postgres", "platform/process",
			},
		},
		{
			name: "S0_53_NoStepGoesToTheOutboundQueue", guardrail: burstQueue,
			fixtures: []string{
				"services/onboarding/pacing", "services/messaging/outbound", "services/messaging/inbound",
				"gateway", "proto/gen/paceline/messaging/v1",
			},
		},
		{
			name: "TimesAreParametersInSQL", guardrail: databaseClock,
			fixtures: []string{"services/onboarding", "services/onboarding/postgres", "platform/queue"},
		},
		{
			name: "SecretsAndPeopleStayOutOfLogs", guardrail: loggedSecret,
			fixtures: []string{"services/messaging/rush", "platform/config"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, fixture := range tt.fixtures {
				paths = append(paths, "paceline.internal/"+fixture)
			}
			analysistest.Run(t, analysistest.TestData(), tt.guardrail, paths...)
		})
	}
}

// TestAll compares the table of docs/development.md with the guardrails.
func TestAll(t *testing.T) {
	t.Parallel()
	require.NoError(t, analysis.Validate(all()))
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "development.md"))
	require.NoError(t, err)
	var described, names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		described = append(described, strings.ToLower(row[1]))
	}
	for _, guardrail := range all() {
		names = append(names, guardrail.Name)
	}
	require.Equal(t, names, described)
}
