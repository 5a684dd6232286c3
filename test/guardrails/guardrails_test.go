package guardrails_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"paceline.internal/test/guardrails"
)

// TestGuardrail breaks every rule in every way that is known, in small packages under the product's own names (testdata). What
// a guardrail has to say about a line stands behind it as a `want`; about all other lines it has to be silent.
func TestGuardrail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		guardrail *analysis.Analyzer
		fixtures  []string
	}{
		{
			name: "S0_52_NoWaitOfOnboardingIsInItsProcess", guardrail: guardrails.Sleep,
			fixtures: []string{
				"services/onboarding/doze", "services/messaging/delivery", "platform/pause", "platform/postgres", "platform/process",
			},
		},
		{
			name: "StepsHaveOnePublisher", guardrail: guardrails.Publisher,
			fixtures: []string{"services/onboarding/burst", "services/onboarding/inbound", "deploy/tool", "platform/qstash", "emulators/qstash"},
		},
		{
			name: "S0_53_NoStepGoesToTheOutboundQueue", guardrail: guardrails.BurstQueue,
			fixtures: []string{
				"services/onboarding/enrolment", "services/messaging/outbound", "services/messaging/postgres", "services/messaging/server",
				"gateway", "proto/gen/paceline/messaging/v1",
			},
		},
		{
			name: "PurePackagesStayPure", guardrail: guardrails.Purity,
			fixtures: []string{
				"services/onboarding/session", "services/onboarding/session/step", "services/messaging/sms", "services/messaging/consent",
				"platform/process",
			},
		},
		{
			name: "TimesAreParametersInSQL", guardrail: guardrails.DatabaseClock,
			fixtures: []string{"services/onboarding", "services/onboarding/postgres", "platform/queue"},
		},
		{
			name: "SecretsAndPeopleStayOutOfLogs", guardrail: guardrails.LoggedSecret,
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

func TestAll(t *testing.T) {
	t.Parallel()
	require.NoError(t, analysis.Validate(guardrails.All()))
}
