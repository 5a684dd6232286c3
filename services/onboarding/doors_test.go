package onboarding_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

// TestDoorsCompose writes letters with their accents apart at every door for words: what is kept has them together.
func TestDoorsCompose(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept := func(t *rapid.T, column, id string) (is string) {
		require.NoError(t, b.Pool.QueryRow(b.T.Context(), `select `+column+` = $1`, id).Scan(&is))
		return is
	}
	rapid.Check(t, func(t *rapid.T) {
		words := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"pão", "João", "é", "Müller", "Đặng", "한국", "가", "ação", "ok"}), 1, 5).Draw(t, "words"), " ")
		words = norm.NFC.String(words)
		apart := norm.NFD.String(words)
		p := onboardingtest.American(b.Bundle)

		_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.UpdateProfile, &onboardingv1.UpdateProfileRequest{ProfileId: p.ID, FirstName: &apart})
		require.NoError(t, err)
		require.Equal(t, words, kept(t, "first_name from profiles where id", p.ID))

		b.Reports(p, "add_expense", onboardingtest.InCategory(apart))
		require.Equal(t, strings.ToLower(words), kept(t, "category from engagement_actions where profile_id", p.ID))

		b.Reply(p, "Remind me to call "+apart+" tomorrow at 9am")
		require.Equal(t, "to call "+words+" tomorrow at 9am", b.SaidGoal(p).Said)

		itself := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "onboarding", Role: rpc.RoleService, OrgID: onboardingtest.OrgID})
		_, err = b.Current().Server.HoldProfile(itself, &onboardingv1.HoldProfileRequest{ProfileId: p.ID, Reason: apart})
		require.NoError(t, err)
		require.Equal(t, words, kept(t, "hold_reason from profiles where id", p.ID))

		paused, err := onboardingtest.Ask(b.Bundle, b.Current().Server.PauseScheduling, &onboardingv1.PauseSchedulingRequest{Reason: apart})
		require.NoError(t, err)
		require.Equal(t, words, paused.GetPause().GetReason())
		_, err = onboardingtest.Ask(b.Bundle, b.Current().Server.ResumeScheduling, &onboardingv1.ResumeSchedulingRequest{})
		require.NoError(t, err)
	})
}
