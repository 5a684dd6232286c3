package tickets

import (
	"slices"

	"paceline.internal/platform/letters"
)

// usualDistress are the words of distress of an organisation that has decided none.
var usualDistress = []string{
	"want to die", "wanna die", "wish i was dead", "wish i were dead", "better off dead", "kill myself", "killing myself", "end my life",
	"take my own life", "suicide", "suicidal", "self harm", "don't want to live",
	"quero morrer", "me matar", "suicídio", "suicida", "tirar minha vida", "acabar com minha vida", "não quero mais viver",
	"quiero morir", "quiero morirme", "me quiero morir", "matarme", "suicidarme", "quitarme la vida", "acabar con mi vida", "no quiero vivir",
	"veux mourir", "envie de mourir", "me tuer", "me suicider", "mettre fin à mes jours",
}

// Distressed reports whether a text has one of the words of distress of an organisation; nil are the usual ones. Nothing negates them: a
// hold too many is looked at and lifted, and one too few is not.
func Distressed(text string, words []string) bool {
	if words == nil {
		words = usualDistress
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
