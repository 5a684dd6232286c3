package letters

import (
	"strings"
	"unicode"
)

// brailleBlank is a symbol to Unicode, and shows nothing.
const brailleBlank = '\u2800'

// Visible reports whether a text shows something: a character that is no space, no control character, and none that only shapes its
// neighbours, such as a zero width space, a joiner or a variation selector. What Unicode has no name for yet may be a new emoji.
func Visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.In(r, unicode.White_Space, unicode.Cc, unicode.Cf, unicode.Variation_Selector,
			unicode.Other_Default_Ignorable_Code_Point) && r != brailleBlank
	})
}
