// Package phone reads phone numbers as their countries assign them, and holds the policy which of them may be written to.
package phone

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Parse reads a number that a person or a client typed, and returns it in E.164. It must be international, with a leading + and the country
// code; spaces and the marks ( ) - . / between digits are allowed, letters and extensions are not. The number must exist in the numbering
// plan of its country as libphonenumber knows it. Errors say what to do and never repeat the number.
func Parse(raw string) (e164 string, err error) {
	typed := strings.TrimSpace(raw)
	if !strings.HasPrefix(typed, "+") {
		return "", errors.New("write it in international format, with + and the country code, such as +14155550123")
	}
	if strings.Trim(typed[1:], "0123456789 ()-./") != "" {
		return "", errors.New("use only digits after the +, without letters or an extension")
	}
	number, err := phonenumbers.Parse(typed, phonenumbers.UNKNOWN_REGION)
	switch {
	case errors.Is(err, phonenumbers.ErrInvalidCountryCode):
		return "", errors.New("no country has this code; check the digits after the +")
	case err != nil || !phonenumbers.IsPossibleNumber(number):
		return "", errors.New("it has too few or too many digits for its country; check for a missing or doubled digit")
	case !phonenumbers.IsValidNumber(number):
		return "", errors.New("its country does not assign such a number; check the area code and the first digits")
	}
	return phonenumbers.Format(number, phonenumbers.E164), nil
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
