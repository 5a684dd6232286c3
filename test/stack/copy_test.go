package stack_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/goals"
)

// The services do not know of each other's packages; what the texts of the one cost and promise in the other is checked
// here, where both meet.
func TestCopy(t *testing.T) {
	t.Parallel()
	texts := catalog.Default()
	keys := []string{opening, explanation, later, message1, message2, message3, message4}
	const longName = "Maximiliana Fernanda" // as long as a name is rendered

	t.Run("S0_68_EveryTextTakesTwoSegmentsAtMostWhoeverItGreets", func(t *testing.T) {
		t.Parallel()
		for _, locale := range texts.Locales(texts.Current()) {
			for _, key := range keys {
				body, err := texts.Render(texts.Current(), locale, key, longName)
				require.NoError(t, err)
				require.LessOrEqual(t, sms.Segments(body).Count, catalog.Segments(key), "%s in %s: %q", key, locale, body)
			}
		}
	})

	t.Run("S0_68_EveryWordThatATextOffersIsUnderstood", func(t *testing.T) {
		t.Parallel()
		word := regexp.MustCompile(`\b[A-Z]{4,}\b`)
		found := 0
		for _, locale := range texts.Locales(texts.Current()) {
			for _, key := range keys {
				body, err := texts.Render(texts.Current(), locale, key, "Ana")
				require.NoError(t, err)
				for _, offered := range word.FindAllString(body, -1) {
					found++
					require.NotEqual(t, consent.None, consent.Classify(offered, consent.OptedIn), "%s in %s offers %s", key, locale, offered)
				}
			}
		}
		require.GreaterOrEqual(t, found, 4)
	})
}

// TestCopyOfEngagement is TestCopy for the texts of engagement.
func TestCopyOfEngagement(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	texts := catalog.DefaultEngagement()

	t.Run("S4_25_NoTextTakesMoreSegmentsThanItMayWhateverFillsIt", func(t *testing.T) {
		t.Parallel()
		for _, locale := range texts.Locales() {
			for _, key := range catalog.EngagementKeys() {
				name, params := catalog.Widest(key)
				body, err := texts.Render(locale, key, name, params)
				require.NoError(t, err)
				require.LessOrEqual(t, sms.Segments(body).Count, catalog.Segments(key), "%s in %s: %q", key, locale, body)
			}
		}
	})

	t.Run("NoWordThatATextOffersMeansStop", func(t *testing.T) {
		t.Parallel()
		for _, offers := range catalog.Offered() {
			for _, words := range offers {
				for _, state := range []consent.State{consent.OptedIn, consent.OptedOut} {
					require.Equal(t, consent.None, consent.Classify(words, state), words)
				}
				wish, _ := consent.Revocation(words)
				require.NotEqual(t, consent.Clear, wish, words)
				require.Equal(t, consent.Passes, consent.Asked{}.Read(words, "", consent.OptedIn).Carrier, words)
			}
		}
	})

	t.Run("EveryWordThatATextOffersIsUnderstood", func(t *testing.T) {
		t.Parallel()
		quoted := regexp.MustCompile(`"([^"]+)"`)
		for _, locale := range texts.Locales() {
			for _, key := range catalog.EngagementKeys() {
				name, params := catalog.Widest(key)
				body, err := texts.Render(locale, key, name, params)
				require.NoError(t, err)
				for _, words := range quoted.FindAllStringSubmatch(body, -1) {
					if goals.Moves(words[1], noon) {
						continue
					}
					_, destination := rules.ParseDestination(words[1])
					_, goal := goals.DefaultWords().After(words[1])
					require.True(t, destination || goal || goals.Undoes(words[1]) || consent.PreferencesOf(words[1]).Any() || rules.RecogniseExpense(words[1]) != nil, "%s in %s offers %q", key, locale, words[1])
				}
			}
		}
	})
}
