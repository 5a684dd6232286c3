package tickets

import (
	"slices"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/people"
)

// Distressed reports whether a text has one of the words of distress of an organisation; nil are the usual ones. Nothing negates them: a
// hold too many is looked at and lifted, and one too few is not.
func Distressed(text string, words []string) bool {
	if words == nil {
		words = people.UsualDistress()
	}
	said := letters.Words(text)
	return slices.ContainsFunc(words, func(phrase string) bool {
		of := letters.Words(phrase)
		if len(of) == 0 {
			return false
		}
		for i := 0; i+len(of) <= len(said); i++ {
			if slices.Equal(said[i:i+len(of)], of) {
				return true
			}
		}
		return false
	})
}
