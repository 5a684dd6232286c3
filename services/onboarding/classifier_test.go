package onboarding_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
)

func TestAModelIsConfiguredWhollyOrNotAtAll(t *testing.T) {
	t.Parallel()
	whole := map[string]string{
		"CLASSIFIER_URL": "https://models.example/v1", "CLASSIFIER_MODEL": "small", "CLASSIFIER_API_KEY": "s3cret", "CLASSIFIER_ORGS": onboardingtest.OrgID + ", " + onboardingtest.OrgID,
	}
	with := func(change func(map[string]string)) map[string]string {
		environ, model := complete(), maps.Clone(whole)
		change(model)
		maps.Copy(environ, model)
		return environ
	}
	_, err := onboarding.LoadConfig(with(func(map[string]string) {}))
	require.NoError(t, err)
	for variable := range whole {
		_, err := onboarding.LoadConfig(with(func(m map[string]string) { delete(m, variable) }))
		require.ErrorContains(t, err, "CLASSIFIER_", variable)
		require.NotContains(t, err.Error(), "s3cret")
	}
	for _, wrong := range []string{"models.example", "ftp://models.example", "https://user:s3cret@models.example"} {
		_, err := onboarding.LoadConfig(with(func(m map[string]string) { m["CLASSIFIER_URL"] = wrong }))
		require.ErrorContains(t, err, "CLASSIFIER_URL", wrong)
		require.NotContains(t, err.Error(), "s3cret")
	}
	_, err = onboarding.LoadConfig(with(func(m map[string]string) { m["CLASSIFIER_ORGS"] = "all" }))
	require.ErrorContains(t, err, "CLASSIFIER_ORGS")
}
