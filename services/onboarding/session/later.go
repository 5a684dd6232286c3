package session

import (
	"regexp"
	"strings"

	"paceline.internal/platform/letters"
)

// later asks to be reminded at another time, of nothing else: "remind me tomorrow", "me lembra semana que vem". It is a not now.
var later = regexp.MustCompile(`^(?:(?:please|pls|can you|could you|no|not now|ok|yes|por favor|pode|nao|agora nao|sim) )*` +
	`(?:(?:remind|ping|nudge|text) me|lembre me|me lembr[ae]r?|me avis[ae]r?|me cham[ae]r?)(?: (?:` + strings.Join([]string{
	`later|tomorrow|tonight|today|soon|again|next|another|some|other|time|days?|weeks?|weekend|months?|hours?|minutes?|mins?|in|at|on|a|an`,
	`the|few|couple|of|this|after(?: (?:lunch|dinner|work))?|before|morning|afternoon|evening|night|noon|am|pm|please|thanks`,
	`\d{1,2}(?:am|pm|h)?|por favor|obrigad[oa]|(?:mon|tues|wednes|thurs|fri|satur|sun)day`,
	`amanha|hoje|mais|tarde|cedo|outr[ao]|horas?|minutos?|dias?|semana|mes|que|vem|proxim[ao]|daqui|em|uma?|umas|as|o|de|da|na|no|pela|noite`,
	`depois(?: d[oe] (?:almoco|jantar|trabalho))?|manha|meio|segunda|terca|quarta|quinta|sexta|sabado|domingo|feira|fim|final`,
}, "|") + `))*$`)

// putsOff reports whether a message asks for nothing but another time.
func putsOff(message string) bool {
	return later.MatchString(strings.Join(letters.Words(message), " "))
}
