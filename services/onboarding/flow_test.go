package onboarding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
)

func TestGetFlow(t *testing.T) {
	t.Parallel()

	t.Run("EveryStepHasItsTextInEveryLanguage", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		out, err := b.Current().Server.GetFlow(t.Context(), &onboardingv1.GetFlowRequest{})
		require.NoError(t, err)
		require.Equal(t, b.Flow.Version(), out.GetVersion())
		require.Equal(t, catalog.Default().Current(), out.GetCopyVersion())
		texts := map[string]*onboardingv1.CopyText{}
		for _, text := range out.GetTexts() {
			texts[text.GetTextKey()+" "+text.GetLocale()] = text
			require.NotEmpty(t, text.GetText())
			require.Positive(t, text.GetSegments())
		}
		require.Len(t, out.GetSteps(), len(b.Flow.Steps()))
		for i, step := range out.GetSteps() {
			require.Equal(t, b.Flow.Steps()[i].Delay, step.GetDelay().AsDuration())
			require.Contains(t, texts, step.GetTextKey()+" en")
			require.Contains(t, texts, step.GetTextKey()+" pt-BR")
		}
		require.Contains(t, texts, "ENGAGEMENT_GOODBYE pt-BR")
		require.Contains(t, texts["ONBOARDING_OPENING en"].GetText(), "{first_name}", "as it is written")
	})
}
