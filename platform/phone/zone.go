package phone

import (
	"time"

	"github.com/nyaruka/phonenumbers"
)

// Zone is the only time zone that a number in E.164 allows, and empty when it allows several. It is a guess: people travel, and keep
// their numbers when they move.
func Zone(e164 string) string {
	number, err := phonenumbers.Parse(e164, phonenumbers.UNKNOWN_REGION)
	if err != nil {
		return ""
	}
	zones, err := phonenumbers.GetTimezonesForNumber(number)
	if err != nil || len(zones) != 1 {
		return ""
	}
	if _, err := time.LoadLocation(zones[0]); err != nil { // Etc/Unknown, or newer than our list of zones
		return ""
	}
	return zones[0]
}
