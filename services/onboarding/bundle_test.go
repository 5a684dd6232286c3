package onboarding_test

import (
	"testing"

	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

func TestMain(m *testing.M) { onboardingtest.Main(m) }

// bundle adds the helpers of these tests to the service.
type bundle struct{ *onboardingtest.Bundle }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{onboardingtest.New(t)}
}

// writes has a person write a text.
func writes(body string) func(b *bundle, p people.Profile) func() error {
	return func(b *bundle, p people.Profile) func() error { return b.Posts(p, body) }
}
