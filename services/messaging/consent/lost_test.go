package consent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

// TestNothingThatIsTakenOutHidesARevocation has revocations with words that phones and carriers write, too.
func TestNothingThatIsTakenOutHidesARevocation(t *testing.T) {
	t.Parallel()
	var lost []string
	for _, text := range []string{
		"stop sending me automated messages", "I don't want your automated messages anymore", "parem de mandar mensagem automática",
		"every text sent via this number must stop, stop texting me", "sent from my phone, stop texting me", "please \"unsubscribe\" me",
		"I want you to \"stop texting me\" now", "\"I am writing to say that I no longer want any of these messages please\"",
		"Fwd: stop texting me", "RV: no quiero más mensajes", "I reply stop to every one of these and you keep texting me",
		"thank you for contacting me but please stop texting me", "I am out of the office for good, remove me from your list",
		"my order was not delivered, stop texting me", "loved a day without your texts, stop texting me", "> your text\nstop texting me",
		"I told you \"do not text me again\" already",
	} {
		if (consent.Asked{}).Read(text, "", consent.OptedIn).Effect == consent.None {
			lost = append(lost, text)
		}
	}
	require.Empty(t, lost)
}
