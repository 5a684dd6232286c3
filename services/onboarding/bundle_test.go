package onboarding_test

import (
	"testing"

	"paceline.internal/services/onboarding/onboardingtest"
)

func TestMain(m *testing.M) { onboardingtest.Main(m) }

// bundle adds the helpers of these tests to the service.
type bundle struct{ *onboardingtest.Bundle }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{onboardingtest.New(t)}
}
