// Package sms is what a text message is made of: who it goes to, what it says, what it costs and how far it got.
package sms

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// ErrPhone is what every refused phone number wraps. The texts say what to do and never repeat the number.
var ErrPhone = errors.New("phone number refused")

// Phone is a number in E.164, such as +14155550123. The zero value is no number; only ParsePhone and StoredPhone
// make one. Phones are comparable.
type Phone struct{ e164 string }

// ParsePhone reads a number that a person or a client typed. It must be international, with a leading + and the
// country code; spaces and the marks ( ) - . / between digits are allowed, letters and extensions are not. The
// number must exist in the numbering plan of its country as libphonenumber knows it.
func ParsePhone(raw string) (Phone, error) {
	typed := strings.TrimSpace(raw)
	if !strings.HasPrefix(typed, "+") {
		return Phone{}, fmt.Errorf("%w: write it in international format, with + and the country code, such as +14155550123", ErrPhone)
	}
	if strings.Trim(typed[1:], "0123456789 ()-./") != "" {
		return Phone{}, fmt.Errorf("%w: use only digits after the +, without letters or an extension", ErrPhone)
	}
	number, err := phonenumbers.Parse(typed, phonenumbers.UNKNOWN_REGION)
	switch {
	case errors.Is(err, phonenumbers.ErrInvalidCountryCode):
		return Phone{}, fmt.Errorf("%w: no country has this code; check the digits after the +", ErrPhone)
	case err != nil || !phonenumbers.IsPossibleNumber(number):
		return Phone{}, fmt.Errorf("%w: it has too few or too many digits for its country; check for a missing or doubled digit", ErrPhone)
	case !phonenumbers.IsValidNumber(number):
		return Phone{}, fmt.Errorf("%w: its country does not assign such a number; check the area code and the first digits", ErrPhone)
	}
	return Phone{e164: phonenumbers.Format(number, phonenumbers.E164)}, nil
}

// StoredPhone reads back a number that was parsed before, or that a carrier reports as a sender. Only its shape is
// checked: numbering plans change, and a row must stay readable after they did.
func StoredPhone(e164 string) (Phone, error) {
	digits, found := strings.CutPrefix(e164, "+")
	shortest, longest := 7, 15
	if !found || len(digits) < shortest || len(digits) > longest || digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return Phone{}, fmt.Errorf("%w: not in E.164, which is + and 7 to 15 digits", ErrPhone)
	}
	return Phone{e164: e164}, nil
}

// String is the number in E.164, for Twilio and for the database. Logs and errors must use the Phone itself with
// slog, which masks it.
func (p Phone) String() string { return p.e164 }

// IsZero reports whether there is no number.
func (p Phone) IsZero() bool { return p.e164 == "" }

// LogValue masks the number down to its country and its last two digits: +55*****88.
func (p Phone) LogValue() slog.Value {
	if p.IsZero() {
		return slog.StringValue("")
	}
	return slog.StringValue(p.e164[:1+countryCodeLength(p.e164[1:])] + "*****" + p.e164[len(p.e164)-2:])
}

// countryCodeLength is 1 to 3. Country codes are prefix-free, so the first one that exists is the right one.
func countryCodeLength(digits string) int {
	for length := 1; length < 3; length++ {
		code, err := strconv.Atoi(digits[:length])
		if err == nil && phonenumbers.GetRegionCodeForCountryCode(code) != phonenumbers.UNKNOWN_REGION {
			return length
		}
	}
	return 3
}
