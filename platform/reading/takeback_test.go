package reading_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/reading"
)

func TestTakesBack(t *testing.T) {
	t.Parallel()
	for want, texts := range map[reading.Taken][]string{
		reading.TakesIt: {
			"cancel that", "Cancel it!", "cancel this please", "stop that", "nevermind, cancel", "no, cancel that", "undo that", "never mind that",
			"forget it", "ok delete it thanks", "Sorry, cancel that one", "scratch that", "don't send it", "cancela isso", "Cancela isso, por favor",
			"desfaz isso", "esquece isso", "não, cancela", "cancela ele", "cancélalo", "annule ça", "ｃａｎｃｅｌ ｔｈａｔ",
		},
		reading.TakesReminder: {
			"cancel that reminder", "never mind the reminder", "cancela o lembrete", "esquece o lembrete", "please delete my last reminder",
			"cancelar lembrete", "cancel reminder", "forget about the reminder", "annule le rappel", "borra el recordatorio",
		},
		reading.TakesNothing: {
			"cancel", "stop", "STOP", "please cancel", "sair", "cancelar", "stop texting me", "cancel everything", "cancel all", "stop it all",
			"stop that and never text me again", "cancel reminders", "cancel my dentist appointment", "no", "undo", "that", "cancel that, stop texting me",
			"cancela tudo", "no, stop", "yes, stop", "", "the reminder", "cancel these messages",
		},
	} {
		for _, text := range texts {
			require.Equal(t, want, reading.TakesBack(text), text)
		}
	}
}
