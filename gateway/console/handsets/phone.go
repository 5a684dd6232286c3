package handsets

import (
	"regexp"
	"strings"
)

// spelled is a phone number in international form, with what people put between its digits.
var spelled = regexp.MustCompile(`^(?:\+|00)[1-9][-0-9 ()./\x{a0}]*$`)

// e164 matches that form without anything between.
var e164 = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

// international is a number in E.164, whatever its spelling. The services know the plans of countries and judge more; this is for the
// emulated phones, which are no service's.
func international(text string) (phone string, ok bool) {
	text = strings.TrimSpace(text)
	if !spelled.MatchString(text) || strings.Contains(text, "(0)") { // a trunk prefix, as in +44 (0)20, is in no E.164
		return "", false
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
	phone = "+" + strings.TrimPrefix(digits, "00")
	return phone, e164.MatchString(phone)
}
