// Package phone reads phone numbers, and holds the policy which of them may be written to.
package phone

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Parse reads a number that a person or a client typed or pasted, for a new entry, and returns its stored form in E.164; see Read for the
// spellings. The numbering plan of its country must have it as libphonenumber knows it, or Allow its prefix. Errors are a Refusal.
func Parse(raw string) (e164 string, err error) {
	digits, err := digitsOf(raw)
	if err != nil {
		return "", err
	}
	given := Canonical("+" + digits)
	number, err := phonenumbers.Parse(given, phonenumbers.UNKNOWN_REGION)
	switch {
	case errors.Is(err, phonenumbers.ErrInvalidCountryCode):
		return "", &Refusal{Reason: UnknownCountry}
	case err != nil || !phonenumbers.IsPossibleNumber(number):
		return "", &Refusal{Reason: WrongLength}
	}
	e164 = phonenumbers.Format(number, phonenumbers.E164)
	switch {
	case len(e164) < len(given): // a 0 that is dialled within the country was taken out: what is left may be in an old form
		return Parse(e164)
	case !phonenumbers.IsValidNumber(number) && !allowed(e164):
		return "", &Refusal{Reason: NotAssigned}
	}
	return e164, nil
}

// Read reads a number to look something up by, or one that a carrier names, and returns its stored form in E.164. It must be international,
// with a + and the country code. Spaces, dashes, dots, brackets, slashes, quotes and invisible characters of any script are dropped, and
// digits of any script are read. Of a number that Parse refuses only the shape is checked: what was stored must be found after numbering
// plans have changed.
func Read(raw string) (e164 string, err error) {
	if e164, err = Parse(raw); err == nil {
		return e164, nil
	}
	digits, err := digitsOf(raw)
	if err != nil {
		return "", err
	}
	if len(digits) < shortest || len(digits) > longest || digits[0] == '0' {
		return "", &Refusal{Reason: WrongLength}
	}
	return Canonical("+" + digits), nil
}

// E.164 has at most 15 digits with the country code; the shortest numbers of a country have 7.
const shortest, longest = 7, 15

// Canonical returns the stored form of a number in E.164. Countries changed how a mobile number is written, and phones, carriers and
// WhatsApp go on with the old form; one handset must be one person, or a STOP would be kept for a number that is never texted:
//   - Brazil: since 2016 a 9 stands before the eight digits of a mobile number, which began with 6 to 9 (Anatel, Resolution 553).
//   - Mexico: the 1 behind +52 was dropped in 2019 (IFT, Plan Técnico Fundamental de Numeración).
//   - Argentina: the 9 behind +54 marks a mobile phone, which is all that can be texted; people leave it out (ENACOM; ITU, +54).
//   - Benin: since 30 November 2024 a 01 stands before the eight digits (ARCEP Bénin; ITU Operational Bulletin).
func Canonical(e164 string) string {
	digits, plus := strings.CutPrefix(e164, "+")
	switch n := len(digits); {
	case !plus:
		return e164
	case n == 12 && strings.HasPrefix(digits, "55") && digits[4] >= '6':
		digits = digits[:4] + "9" + digits[4:]
	case n == 13 && strings.HasPrefix(digits, "521"):
		digits = "52" + digits[3:]
	case n == 12 && strings.HasPrefix(digits, "54") && digits[2] >= '1' && digits[2] <= '3': // 0800 and the like have no mobile form
		digits = "549" + digits[2:]
	case n == 11 && strings.HasPrefix(digits, "229") && strings.ContainsRune("24569", rune(digits[3])):
		digits = "22901" + digits[3:]
	}
	return "+" + digits
}

// IsCountryCode reports whether a text is a country code, such as +1.
func IsCountryCode(text string) bool {
	digits, plus := strings.CutPrefix(text, "+")
	code, err := strconv.Atoi(digits)
	return plus && err == nil && strconv.Itoa(code) == digits && phonenumbers.GetRegionCodeForCountryCode(code) != phonenumbers.UNKNOWN_REGION
}

// CountryCode is the country code of a number in E.164, without the +. Country codes are prefix-free, so the first one that exists is the
// right one; without one it is the first three digits.
func CountryCode(e164 string) string {
	digits := strings.TrimPrefix(e164, "+")
	longest := min(3, len(digits))
	for length := 1; length < longest; length++ {
		code, err := strconv.Atoi(digits[:length])
		if err == nil && phonenumbers.GetRegionCodeForCountryCode(code) != phonenumbers.UNKNOWN_REGION {
			return digits[:length]
		}
	}
	return digits[:longest]
}
