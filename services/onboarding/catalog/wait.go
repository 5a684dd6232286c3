package catalog

import (
	"strconv"
	"strings"
	"time"

	"paceline.internal/services/onboarding/words"
)

// The waits for a reminder, in days: the one that a text tells unless it is told another, and the longest.
const (
	usualWait = 14
	maxWait   = 365
)

// WaitOf returns the parameters of a text that tells how long it is until a reminder, in whole days. The usual wait is left out: a row that
// has it can be read by a release that knows no other.
func WaitOf(wait time.Duration) Params {
	const day = 24 * time.Hour
	days := int(wait.Round(day) / day)
	if days == usualWait || days < 1 || days > maxWait {
		return Params{}
	}
	return Params{Wait: days}
}

// waiting returns a wait in the words of a language, in weeks where it is whole ones; empty where there are no words for it.
func waiting(locale string, days int) string {
	if days == 0 {
		days = usualWait
	}
	known, found := words.All().Closest(locale)
	if !found || days < 0 || days > maxWait {
		return ""
	}
	n, unit := days, "wait-days-"
	if days%7 == 0 {
		n, unit = days/7, "wait-weeks-"
	}
	for _, key := range []string{strconv.Itoa(n), "other"} { // English and Portuguese have no third form
		if text := known.Text(unit + key); text != "" {
			return strings.ReplaceAll(text, "{count}", strconv.Itoa(n))
		}
	}
	return ""
}
