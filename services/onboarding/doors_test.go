package onboarding_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// TestDoorsCompose writes letters with their accents apart at every door for words: what is kept has them together.
func TestDoorsCompose(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept := func(t *rapid.T, column, id string) (is string) {
		require.NoError(t, b.pool.QueryRow(b.t.Context(), `select `+column+` = $1`, id).Scan(&is))
		return is
	}
	rapid.Check(t, func(t *rapid.T) {
		words := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"pão", "João", "é", "Müller", "Đặng", "한국", "가", "ação", "ok"}), 1, 5).Draw(t, "words"), " ")
		words = norm.NFC.String(words)
		apart := norm.NFD.String(words)
		p := american(b)

		_, err := asks(b, b.current().server.UpdateProfile, &onboardingv1.UpdateProfileRequest{ProfileId: p.ID, FirstName: &apart})
		require.NoError(t, err)
		require.Equal(t, words, kept(t, "first_name from profiles where id", p.ID))

		b.reports(p, "add_expense", inCategory(apart))
		require.Equal(t, strings.ToLower(words), kept(t, "category from engagement_actions where profile_id", p.ID))

		b.reply(p, "Remind me to call "+apart+" tomorrow at 9am")
		require.Equal(t, "to call "+words+" tomorrow at 9am", b.saidGoal(p).Said)

		itself := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "onboarding", Role: rpc.RoleService, OrgID: orgID})
		_, err = b.current().server.HoldProfile(itself, &onboardingv1.HoldProfileRequest{ProfileId: p.ID, Reason: apart})
		require.NoError(t, err)
		require.Equal(t, words, kept(t, "hold_reason from profiles where id", p.ID))

		paused, err := asks(b, b.current().server.PauseScheduling, &onboardingv1.PauseSchedulingRequest{Reason: apart})
		require.NoError(t, err)
		require.Equal(t, words, paused.GetPause().GetReason())
		_, err = asks(b, b.current().server.ResumeScheduling, &onboardingv1.ResumeSchedulingRequest{})
		require.NoError(t, err)
	})
}
