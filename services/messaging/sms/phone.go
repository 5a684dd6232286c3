// Package sms has the parts of a text message: number, words, segments and status.
package sms

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"paceline.internal/platform/phone"
)

// ErrPhone is wrapped by every refused phone number. The texts say what to do and never repeat the number.
var ErrPhone = errors.New("phone number refused")

// Phone is a number in E.164, such as +14155550123. The zero value is no number; only ParsePhone and StoredPhone
// make one. Phones are comparable.
type Phone struct{ e164 string }

// ReadPhone reads a number that something is looked up by; see phone.Read.
func ReadPhone(raw string) (Phone, error) {
	e164, err := phone.Read(raw)
	if err != nil {
		return Phone{}, fmt.Errorf("%w: %w", ErrPhone, err)
	}
	return Phone{e164: e164}, nil
}

// ParsePhone reads a number that a person or a client typed, to write to it; see phone.Parse.
func ParsePhone(raw string) (Phone, error) {
	e164, err := phone.Parse(raw)
	if err != nil {
		return Phone{}, fmt.Errorf("%w: %w", ErrPhone, err)
	}
	return Phone{e164: e164}, nil
}

// StoredPhone reads back a number that was parsed before, or that a carrier reports as a sender, in its stored form. Only its shape is
// checked: numbering plans change, and a row must stay readable after they did.
func StoredPhone(e164 string) (Phone, error) {
	exact, err := ExactPhone(e164)
	if err != nil {
		return Phone{}, err
	}
	return Phone{e164: phone.Canonical(exact.e164)}, nil
}

// ExactPhone reads a number of a row as it stands there, also in a form that is stored no more. ErrPhone.
func ExactPhone(e164 string) (Phone, error) {
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
	return slog.StringValue("+" + phone.CountryCode(p.e164) + "*****" + p.e164[len(p.e164)-2:])
}
