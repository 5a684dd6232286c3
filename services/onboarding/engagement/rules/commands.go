package rules

import (
	"regexp"
	"strings"

	"paceline.internal/platform/letters"
)

// Destination is the place that a person wants to be written to.
type Destination string

// The destinations.
const (
	Individual Destination = "individual" // their own phone
	Group      Destination = "group"      // every phone of their household
)

// Destinations lists them all.
func Destinations() []Destination { return []Destination{Individual, Group} }

// The verbs and the places of both languages, over folded words.
const (
	courtesies = `(?:(?:please|pls|plz|hi|hey|hello|ok|okay|thanks|thank you|thx|ty|por favor|pf|pfv|oi|ola|obrigad[oa]|obg|valeu|vlw) )*`
	canYou     = `(?:(?:can|could|would|will) you|(?:(?:voce|vc) )?(?:pode|poderia))(?: please| por favor)?`
	iWant      = `i want|i want you|i would like|i d like|id like|quero|queria|gostaria de|prefiro`
	asks       = `(?:(?:` + canYou + `|(?:` + iWant + `)(?: to)?) )?`

	switchEn = `(?:(?:switch|change|move)(?: (?:it|me|us|messages|everything))?(?: back)?|go back) to`
	writeEn  = `(?:write|reply|answer)(?: (?:to )?(?:me|us))?|(?:message|text) (?:me|us)|` +
		`send(?: me| us)? (?:messages|everything)|(?:get|receive) (?:messages|everything)`
	groupEn = `(?:(?:the|our|my) )?(?:group|family group|household|group chat)`
	ownEn   = `(?:(?:the )?(?:individual|private|individual chat|private chat)|my (?:own )?(?:phone|number))`

	switchPt = `(?:mude|muda|mudar|troque|troca|trocar|passe|passa|passar|volte|volta|voltar)(?: as mensagens| tudo)? (?:para|pra|pro|ao)`
	writePt  = `(?:me )?(?:mande|manda|mandar|envie|envia|enviar|escreva|escreve|escrever|` +
		`responda|responde|responder|receber)(?: me)?(?: (?:as )?mensagens| tudo)?`
	groupPt = `(?:(?:o|meu|nosso) )?(?:grupo|grupo da familia)`
	ownPt   = `(?:(?:o )?(?:individual|privado|particular)|(?:a )?conversa privada|(?:o )?meu (?:proprio )?(?:telefone|celular|numero))`
)

// phrases are whole intents: only courtesies may stand around them.
func phrases(of ...string) *regexp.Regexp {
	return regexp.MustCompile(`^` + courtesies + `(?:` + strings.Join(of, "|") + `) ` + courtesies + `$`)
}

var (
	toGroup = phrases(
		asks+switchEn+` `+groupEn, asks+`(?:`+writeEn+`) (?:in|to|on) `+groupEn, asks+`use `+groupEn, `(?:group|household) (?:mode|messages)`,
		asks+switchPt+` `+groupPt, asks+writePt+` (?:no|para|pra|pro) `+groupPt, asks+`(?:use|usa|usar) `+groupPt, `modo grupo`,
		`mensagens no grupo`,
	)
	toIndividual = phrases(
		asks+switchEn+` `+ownEn, asks+`(?:`+writeEn+`) (?:in|to|on) `+ownEn, asks+`use `+ownEn, `(?:individual|private) (?:mode|messages)`,
		asks+`(?:write|message|text) (?:to )?me (?:privately|directly|only)`,
		asks+switchPt+` `+ownPt, asks+writePt+` (?:no|na|em|para|pra|pro) `+ownPt, asks+`(?:use|usa|usar) `+ownPt, `modo individual`,
		`mensagens no privado`, asks+writePt+` (?:so|somente|apenas) (?:para|pra) mim`,
	)
	request = regexp.MustCompile(`^` + courtesies + canYou + ` `)
)

// ParseDestination reads a switch of the destination, in both languages. The whole message must be the switch: "the group meets on Monday"
// and "não mande para o grupo" are none.
func ParseDestination(message string) (Destination, bool) {
	words := strings.Join(letters.Words(message), " ") + " "
	switch {
	case strings.ContainsRune(message, '?') && !request.MatchString(words): // "use the group?" asks what we would do
		return "", false
	case toGroup.MatchString(words):
		return Group, true
	case toIndividual.MatchString(words):
		return Individual, true
	}
	return "", false
}

// Resolve returns the place that a person is written to, and reports whether they prefer another: without a group it is their own
// phone. It is asked when something is sent, so that the newest preference counts.
func Resolve(preferred Destination, hasGroup bool) (to Destination, instead bool) {
	if preferred == Group && hasGroup {
		return Group, false
	}
	return Individual, preferred == Group
}

// FirstDestination is the destination after a person's first message: the group that they wrote in, unless they have chosen.
func FirstDestination(current Destination, chosen, inGroup bool) Destination {
	if !chosen && inGroup {
		return Group
	}
	return current
}
