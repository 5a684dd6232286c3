package inbox

import (
	"strings"

	"paceline.internal/services/messaging/consent"
)

// ReplyCopy is what our replies about consent say. They are short, promote nothing, and name the organisation if it is known.
type ReplyCopy struct {
	Brand   string // the organisation, in a few words; may be empty
	Contact string // where people get help: an address or a number; may be empty
}

// Stopped tells a person that they get nothing more, and how to take that back. START, and not a Portuguese word: it is the one
// that lifts Twilio's block as well as ours.
func (c ReplyCopy) Stopped(l consent.Locale) string {
	switch l {
	case consent.Portuguese:
		return c.signed("Você não receberá mais mensagens deste número. Responda START para voltar a receber.")
	case consent.English:
	}
	return c.signed("You are unsubscribed and will get no more texts from this number. Reply START to get them again.")
}

// Asks asks a person who is held whether the texts are to stop.
func (c ReplyCopy) Asks(l consent.Locale) string {
	if l == consent.Portuguese {
		return c.signed("Você quer que a gente pare de enviar mensagens? Responda PARAR para parar ou SIM para continuar.")
	}
	return c.signed("Do you want us to stop texting you? Reply STOP to stop, or YES to go on.")
}

// Help tells a person why they get messages and how to get no more, and what carriers (CTIA) ask of it: how often and at what cost.
func (c ReplyCopy) Help(l consent.Locale) string {
	text := "You get these texts because you signed up for them."
	contact, ending := " Help: ", " Reply STOP to get no more. Msg frequency varies. Msg & data rates may apply."
	if l == consent.Portuguese {
		text, contact = "Você recebe estas mensagens porque se inscreveu.", " Ajuda: "
		ending = " Responda PARAR para não receber mais. A frequência varia. Tarifas da operadora podem ser cobradas."
	}
	if c.Contact != "" {
		text += contact + strings.TrimSuffix(c.Contact, ".") + "."
	}
	return c.signed(text + ending)
}

func (c ReplyCopy) signed(text string) string {
	if c.Brand == "" {
		return text
	}
	return c.Brand + ": " + text
}
