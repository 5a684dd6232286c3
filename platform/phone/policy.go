package phone

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// ErrRefused is wrapped by every refusal of a number that exists, but may not be written to. The texts never repeat the number.
var ErrRefused = errors.New("messages to this number are not allowed")

// Advice begins what to do about it, in the text of a refusal.
const Advice = "; to do: "

// Policy is which numbers may be written to. The zero value allows every country, and none of the kinds that cost their caller more.
type Policy struct {
	Countries Countries `env:"SMS_COUNTRIES" help:"ISO codes of countries that are texted, such as US,CA,BR; empty for all"`
	Kinds     Kinds     `env:"SMS_NUMBER_TYPES" help:"costly numbers that are texted all the same: premium, shared_cost, personal, pager, company, voicemail, international"`
}

// Countries are ISO 3166 codes.
type Countries []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Countries) UnmarshalText(text []byte) error {
	known := phonenumbers.GetSupportedRegions()
	for _, code := range listed(string(text)) {
		code = strings.ToUpper(code)
		if _, ok := known[code]; !ok {
			return errors.New("it must list ISO codes of countries, such as US,CA,BR")
		}
		*c = append(*c, code)
	}
	return nil
}

// Read reads a list of codes. A blank one is refused: a list of nothing else would allow every country.
func (c *Countries) Read(codes []string) error {
	if slices.ContainsFunc(codes, blank) {
		return errBlank
	}
	return c.UnmarshalText([]byte(strings.Join(codes, ",")))
}

// Kind is a class of numbers, where a message to it may cost more than one to a phone.
type Kind string

// The kinds that are refused unless they are allowed.
const (
	Premium       Kind = "premium"
	SharedCost    Kind = "shared_cost"
	Personal      Kind = "personal"
	Pager         Kind = "pager"
	Company       Kind = "company" // a number for all of a company, wherever it rings
	Voicemail     Kind = "voicemail"
	International Kind = "international" // of a network of no country, such as a satellite's
)

// kinds are all of them.
var kinds = []Kind{Premium, SharedCost, Personal, Pager, Company, Voicemail, International}

// Kinds are some of them.
type Kinds []Kind

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kinds) UnmarshalText(text []byte) error {
	for _, name := range listed(string(text)) {
		if !slices.Contains(kinds, Kind(name)) {
			return fmt.Errorf("it must list some of %v", kinds)
		}
		*k = append(*k, Kind(name))
	}
	return nil
}

// Read reads a list of names.
func (k *Kinds) Read(names []string) error {
	if slices.ContainsFunc(names, blank) {
		return errBlank
	}
	return k.UnmarshalText([]byte(strings.Join(names, ",")))
}

var errBlank = errors.New("it must have no blank entry; leave the list out for all countries, or for no costly kind")

func blank(entry string) bool { return len(listed(entry)) == 0 }

func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// Class has what the numbering plans say of a number.
type Class struct {
	Country string // an ISO code, International, or empty where they do not say
	kind    Kind   // empty of a number that costs what a phone's does
}

// Classify looks a number in E.164 up. A number that the plans no longer have is of the main country of its code, for it was read when they
// had it.
func Classify(e164 string) Class {
	number, err := phonenumbers.Parse(e164, phonenumbers.UNKNOWN_REGION)
	if err != nil {
		return Class{}
	}
	country := phonenumbers.GetRegionCodeForNumber(number)
	if country == "" {
		country = phonenumbers.GetRegionCodeForCountryCode(int(number.GetCountryCode()))
	}
	if country == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY {
		return Class{string(International), International}
	}
	return Class{country, costly[phonenumbers.GetNumberType(number)]}
}

// Check reports whether a number in E.164 may be written to, and its country. ErrRefused.
func (p Policy) Check(e164 string) (country string, err error) {
	class := Classify(e164)
	return class.Country, p.Allows(class)
}

// Allows returns ErrRefused for the numbers that may not be written to.
func (p Policy) Allows(c Class) error {
	switch {
	case c.kind != "" && !slices.Contains(p.Kinds, c.kind):
		return fmt.Errorf("%w: it is of the kind %s, which may cost more than a phone's"+Advice+
			"use the number of a phone, or have the settings of the organisation, or SMS_NUMBER_TYPES, allow %s", ErrRefused, c.kind, c.kind)
	case c.kind != International && len(p.Countries) > 0 && !slices.Contains(p.Countries, c.Country):
		return fmt.Errorf("%w: its country is not among those that are texted"+Advice+
			"have the settings of the organisation, or SMS_COUNTRIES, list it", ErrRefused)
	}
	return nil
}

// costly are the types of the numbering plans that are of a Kind. A number that may be a landline or a mobile phone, and one that is free
// to call, cost what a phone's does.
var costly = map[phonenumbers.PhoneNumberType]Kind{
	phonenumbers.PREMIUM_RATE: Premium, phonenumbers.SHARED_COST: SharedCost, phonenumbers.PERSONAL_NUMBER: Personal,
	phonenumbers.PAGER: Pager, phonenumbers.UAN: Company, phonenumbers.VOICEMAIL: Voicemail,
}
