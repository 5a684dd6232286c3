package phone

import (
	"fmt"
	"strings"
	"unicode"
)

// Reason is why a number was refused.
type Reason string

// The reasons.
const (
	NoPlus         Reason = "no_plus"
	Mark           Reason = "mark"    // a character that is no digit, and is not dropped
	Letters        Reason = "letters" // or an extension
	UnknownCountry Reason = "unknown_country"
	WrongLength    Reason = "wrong_length"
	NotAssigned    Reason = "not_assigned"
)

// Refusal is the error of a number that cannot be read. Its text says what to do, and never repeats the number.
type Refusal struct {
	Reason Reason
	Mark   rune // of Mark and Letters: the character in the way
}

// Error returns the remedy for the reason.
func (r *Refusal) Error() string {
	switch r.Reason {
	case NoPlus:
		return "write it in international format, with + and the country code, such as +14155550123"
	case Mark:
		return "use only digits after the +: " + r.Shown() + " is in the way"
	case Letters:
		return "use only digits after the +, without letters or an extension: " + r.Shown() + " is in the way"
	case UnknownCountry:
		return "no country has this code; check the digits after the +"
	case WrongLength:
		return "it has too few or too many digits for its country; check for a missing or doubled digit"
	case NotAssigned:
		return "its country does not assign such a number; check the area code and the first digits " +
			"(an operator can allow a new area code: PHONE_EXTRA_PREFIXES)"
	}
	return "it cannot be read"
}

// Shown names the character in the way, also where it cannot be seen.
func (r *Refusal) Shown() string {
	if unicode.IsPrint(r.Mark) {
		return fmt.Sprintf("%q (U+%04X)", string(r.Mark), r.Mark)
	}
	return fmt.Sprintf("the invisible U+%04X", r.Mark)
}

// schemes may stand before a number.
var schemes = []string{"tel:", "sms:", "whatsapp:"}

// digitsOf returns the digits of an international number, without the +, in ASCII. It drops what people paste with a number and what says
// nothing: see dropped.
func digitsOf(raw string) (string, error) {
	text := strings.TrimLeftFunc(raw, dropped)
	for _, scheme := range schemes {
		if len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			text = text[len(scheme):]
			break
		}
	}
	var plain strings.Builder // digits, + and parentheses
	for _, r := range text {
		switch {
		case r == '+' || r == '＋' || r == '﹢':
			plain.WriteByte('+')
		case r == '(' || r == '（':
			plain.WriteByte('(')
		case r == ')' || r == '）':
			plain.WriteByte(')')
		case unicode.Is(unicode.Nd, r):
			plain.WriteByte('0' + digit(r))
		case dropped(r):
		case unicode.IsLetter(r), strings.ContainsRune("#*,;", r): // what follows them is an extension, or no number at all
			return "", &Refusal{Reason: Letters, Mark: r}
		default:
			return "", &Refusal{Reason: Mark, Mark: r}
		}
	}
	digits := strings.ReplaceAll(plain.String(), "(0)", "") // +44 (0)20: what is dialled within the country
	digits = strings.NewReplacer("(", "", ")", "").Replace(digits)
	digits, international := strings.CutPrefix(digits, "+")
	if !international {
		return "", &Refusal{Reason: NoPlus}
	}
	if strings.Contains(digits, "+") {
		return "", &Refusal{Reason: Mark, Mark: '+'}
	}
	if digits == "" {
		return "", &Refusal{Reason: WrongLength}
	}
	return digits, nil
}

// dropped reports whether a character says nothing in a number: spaces, dashes, brackets, quotes, dots and slashes of any script, and what
// cannot be seen, such as the marks of the direction of writing that address books paste along.
func dropped(r rune) bool {
	return unicode.IsSpace(r) || unicode.In(r, unicode.Z, unicode.Pd, unicode.Ps, unicode.Pe, unicode.Pi, unicode.Pf) ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) ||
		strings.ContainsRune(`.·•∙⋅・．･‧․/\⁄∕／−'"＇＂_|‐⁃`, r)
}

// digit returns the value of a decimal digit of any script. Each script has its ten digits in a row, from zero (Unicode, chapter 4.6).
func digit(r rune) byte {
	for _, of := range unicode.Nd.R16 {
		if r >= rune(of.Lo) && r <= rune(of.Hi) {
			return byte((r - rune(of.Lo)) % 10) //nolint:gosec // below 10
		}
	}
	for _, of := range unicode.Nd.R32 {
		if r >= rune(of.Lo) && r <= rune(of.Hi) { //nolint:gosec // code points
			return byte((r - rune(of.Lo)) % 10) //nolint:gosec // below 10
		}
	}
	return 0
}
