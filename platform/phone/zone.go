package phone

import (
	"time"

	"github.com/nyaruka/phonenumbers"
	"golang.org/x/text/language"
)

// Zone is the only time zone that a number in E.164 allows, and empty when it allows several. It is a guess: people travel, and keep
// their numbers when they move.
func Zone(e164 string) string {
	if zones := Zones(e164); len(zones) == 1 {
		return zones[0].String()
	}
	return ""
}

// Zones are all time zones that a number in E.164 allows; none where the numbering plans do not say.
func Zones(e164 string) []*time.Location {
	number, err := phonenumbers.Parse(e164, phonenumbers.UNKNOWN_REGION)
	if err != nil {
		return nil
	}
	names, err := phonenumbers.GetTimezonesForNumber(number)
	if err != nil {
		return nil
	}
	var zones []*time.Location
	for _, name := range names {
		if zone, err := time.LoadLocation(name); err == nil { // not Etc/Unknown, and not newer than our list of zones
			zones = append(zones, zone)
		}
	}
	return zones
}

// Language is the language that most people of a number's country speak, such as pt of +55; und where there is no country. It is a guess.
func Language(e164 string) string {
	number, err := phonenumbers.Parse(e164, phonenumbers.UNKNOWN_REGION)
	if err != nil {
		return language.Und.String()
	}
	spoken, err := language.Parse("und-" + phonenumbers.GetRegionCodeForNumber(number))
	if err != nil {
		return language.Und.String()
	}
	base, _ := spoken.Base()
	return base.String()
}
