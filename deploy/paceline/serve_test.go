package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServe(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"onboarding", "messaging", "gateway"} {
		t.Run("SaysWhatTheEnvironmentOfTheServiceLacks/"+service, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, run(t.Context(), []string{"serve", service}, terminal{out: io.Discard}), "SERVICE_AUTH_SECRET")
		})
	}
	t.Run("HasNothingToMigrateForTheGateway", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, run(t.Context(), []string{"serve", "gateway", "migrate"}, terminal{out: io.Discard}), "the gateway has no database")
	})
	t.Run("KnowsNoOtherService", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, run(t.Context(), []string{"serve", "billing"}, terminal{out: io.Discard}), "billing")
	})
}
