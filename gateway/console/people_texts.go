package console

import (
	"context"
	"slices"
	"unicode"
	"unicode/utf8"

	"paceline.internal/platform/letters"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	textsFound    = 10
	shortestWords = 3 // fewer letters would find nearly every text
)

// foundText is a text of a person with the words that were searched for.
type foundText struct {
	*messagingv1.Message

	Person *onboardingv1.Profile // nil where they cannot be read
}

// textsWith finds the newest texts of people with these words. It is a part of the page: without it the people are shown.
func (c *Console) textsWith(ctx context.Context, words string) (found []foundText) {
	if utf8.RuneCountInString(words) < shortestWords || !slices.ContainsFunc([]rune(words), unicode.IsLetter) {
		return nil
	}
	out, err := c.services.Messaging.ListMessages(ctx, &messagingv1.ListMessagesRequest{Words: words, PageSize: textsFound})
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "console.part_failed", "part", "texts", "error", err)
	}
	var ids []string
	for _, m := range out.GetMessages() {
		if hasWords(m.GetBody(), words) { // a messaging of the release before lists all
			found, ids = append(found, foundText{Message: m}), append(ids, m.GetProfileId())
		}
	}
	people := c.profilesOf(ctx, ids)
	for i, m := range found {
		found[i].Person = people[m.GetProfileId()]
	}
	return found
}

// hasWords reports whether a text has all of these words.
func hasWords(text, words string) bool {
	has := letters.Words(text)
	return !slices.ContainsFunc(letters.Words(words), func(word string) bool { return !slices.Contains(has, word) })
}
