package goals

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNamed cancels one of several goals by the name that a message gives it. It is five past two on a Wednesday.
func TestNamed(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	now := time.Date(2026, 11, 25, 14, 5, 20, 0, zone)
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, zone) }
	all := []Goal{
		{Goal: "go to the gym", Status: Scheduled, ScheduledFor: at(25, 17, 0)},
		{Goal: "call Mom", Status: Scheduled, ScheduledFor: at(26, 9, 0)},
		{Goal: "pay rent", Status: Scheduled, ScheduledFor: at(27, 18, 30)},
		{Goal: "call dad", Status: Scheduled, ScheduledFor: at(26, 21, 0)},
		{Goal: "buy 8 new eggs", Status: Scheduled, ScheduledFor: at(28, 13, 0)},
		{Goal: "drink eight glasses", Status: Scheduled, ScheduledFor: at(29, 12, 0)},
		{Goal: "lock the door", Status: Completed, ScheduledFor: at(25, 14, 0), StartedAt: at(25, 14, 0)},
		{Goal: "water plants", Status: Completed, ScheduledFor: at(25, 14, 5), StartedAt: at(25, 14, 6)},
	}
	for message, want := range map[string]string{
		"cancel the 5pm one":                           "go to the gym",
		"please delete the one at 5":                   "go to the gym",
		"Cancel the gym reminder!":                     "go to the gym",
		"forget about the gym one":                     "go to the gym",
		"cancel today's reminder":                      "",
		"cancel my reminder for friday, please":        "pay rent",
		"i want to cancel my 6:30 reminder":            "pay rent",
		"drop the rent one":                            "pay rent",
		"cancel the rent reminder on friday":           "",
		"cancel the reminder about the rent on friday": "pay rent",
		"can you cancel the reminder to call mom?":     "call Mom",
		"cancel the one for tomorrow morning":          "call Mom",
		"cancel the 9am one":                           "call Mom",
		"sorry, cancel dad's reminder":                 "call dad",
		"cancel the one at 9pm":                        "call dad",
		"cancel the door one":                          "",
		"cancel the plants one":                        "water plants",
		"cancela o das 17h":                            "go to the gym",
		"cancela o lembrete de sexta":                  "pay rent",
		"esquece o de amanhã às 9h, por favor":         "call Mom",
		"borra el recordatorio de mom":                 "call Mom",
		"annule le rappel de demain à 9h":              "call Mom",
		"cancel the 9 o'clock one":                     "",
		"cancel the one for tomorrow":                  "",
		"cancel the call one":                          "",
		"cancel the 3pm one":                           "",
		"cancel the gym reminder for friday":           "",
		"cancel the one for the gym tomorrow":          "",
		"cancel the dentist reminder":                  "",
		"cancel the 8 one":                             "",
		"cancel the eight one":                         "",
		"cancel the new one":                           "",
		"cancel the first one":                         "",
		"cancel everything but the gym one":            "",
		"don't cancel the gym one":                     "",
		"cancel the gym one and the rent one":          "",
		"cancel the reminder for next friday":          "",
		"cancel the one in 20 minutes":                 "",
		"cancel the reminder for friday or saturday":   "",
		"cancel the gym":                               "",
		"cancela o de amanhã":                          "",
		"cancela o gym":                                "",
	} {
		name, locale := "", "en"
		if strings.HasPrefix(message, "cancela") || strings.HasPrefix(message, "esquece") {
			locale = "pt-BR"
		} else if strings.HasPrefix(message, "annule") {
			locale = "fr"
		}
		if g := only(all, whichOf(message), Owner{Locale: locale, Zone: zone}, now); g != nil {
			name = g.Goal
		}
		require.Equal(t, want, name, message)
	}
	for message, want := range map[string]undo{
		"cancel that one": undoIt, "cancel my reminder": undoReminder, "undo": undoLast, "cancel the gym one": undoNamed,
		"cancel": noUndo, "stop": noUndo, "cancel reminders": noUndo, "cancel my dentist appointment": noUndo,
	} {
		require.Equal(t, want, undoOf(message), message)
	}
}
