package consent

import (
	"fmt"
	"regexp"
	"strings"

	"paceline.internal/platform/letters"
)

// PreferencesVersion names the words of this file beside what was said in them, as Version names the keywords in the ledger.
const PreferencesVersion = "2026-11-23.1"

// Switch is what a message asks of one kind of messages.
type Switch int

// The switches.
const (
	Unsaid Switch = iota
	Off
	On
)

// String is the switch as logs and the store write it.
func (s Switch) String() string { return [...]string{"unsaid", "off", "on"}[s] }

// ParseSwitch reads a switch as it is stored; nothing is Unsaid.
func ParseSwitch(stored string) (Switch, error) {
	switch stored {
	case "":
		return Unsaid, nil
	case "off":
		return Off, nil
	case "on":
		return On, nil
	}
	return Unsaid, fmt.Errorf("unknown switch %q", stored)
}

// Preferences are what a message asks about reminders and tips: narrower than consent, and apart from each other. The zero value asks
// nothing.
type Preferences struct {
	Reminders, Tips Switch
	Locale          Locale // of the words; English when nothing is asked
}

// Any reports whether something is asked.
func (p Preferences) Any() bool { return p.Reminders != Unsaid || p.Tips != Unsaid }

// PreferencesOf reads a wish to get no more reminders or tips, or to get them again, in English and Brazilian Portuguese. The whole
// message must be it, after case, diacritics, punctuation and emoji are set aside; courtesies may stand around it. Only the words
// reminder, tip, lembrete and dica are read: text, message, notification, unsubscribe, opt out and sair speak of consent, and
// whatever revokes consent is none of these. "Don't stop the reminders", "stop reminders until Monday" and "stop reminding me of my
// ex" ask nothing here. Neither do the words by which a person takes back one reminder of their own, which onboarding reads.
func PreferencesOf(body string) Preferences {
	nothing := Preferences{Locale: English}
	asked := nothing
	for _, part := range strings.FieldsFunc(strings.ReplaceAll(body, ":", " "), punctuates) { // "reminders: off"
		clause := strings.Join(contracted(letters.Words(part)), " ")
		if clause == "" || alone.MatchString(clause) {
			continue
		}
		things, to, locale := phraseOf(clause)
		if to == Unsaid || specific.MatchString(clause) || ofOne.MatchString(clause) {
			return nothing
		}
		asked.Locale = locale
		for thing := range strings.FieldsSeq(things) {
			target := &asked.Reminders
			switch thing[0] {
			case 't', 'd':
				target = &asked.Tips
			case 'r', 'l':
			default:
				continue // and, or, e, ou
			}
			if *target != Unsaid && *target != to {
				return nothing
			}
			*target = to
		}
	}
	if !asked.Any() {
		return nothing
	}
	// STOP in any of its forms is never narrowed: "stop sending me. tips", "stop, no more tips".
	if wish, _ := byRules(clausesOf(body)); wish == Clear || Classify(body, OptedIn) == OptOut {
		return nothing
	}
	return asked
}

// phraseOf is what a clause asks for, and of which things.
func phraseOf(clause string) (things string, to Switch, locale Locale) {
	for _, rule := range [...]struct {
		to     Switch
		locale Locale
		words  *regexp.Regexp
	}{{Off, English, offEnglish}, {On, English, onEnglish}, {Off, Portuguese, offPortuguese}, {On, Portuguese, onPortuguese}} {
		for _, group := range rule.words.FindStringSubmatch(clause) {
			if group != "" && group != clause {
				return group, rule.to, rule.locale
			}
		}
	}
	return "", Unsaid, English
}

// alone is a clause that only goes with another. Yes and no are courtesies when punctuation cuts them off, and only then: "no, stop
// reminders" and "não parar lembretes" are two things.
var alone = regexp.MustCompile(`^(?:yes|no|sim|nao|yeah|` + courteous + `)(?: ` + courteous + `)*$`)

// specific is one of them and not their kind: "cancel my reminder" is about an appointment.
var specific = regexp.MustCompile(` (?:the|this|that|my|your|a|o|meu|minha|seu|sua|esse|essa|este|esta|um|uma) ` +
	`(?:reminder|tip|lembrete|dica)(?: |$)`)

// ofOne are the words that cancel a goal which was said by text: one reminder, not reminders.
var ofOne = regexp.MustCompile(`^(?:` + courteous + ` )*(?:cancel reminder|cancelar lembrete)(?: ` + courteous + `)*$`)

const (
	courteous = `(?:please|pls|plz|thanks|thank you|thank you so much|thx|ty|ok|okay|hi|hey|hello|sorry|now|` +
		`por favor|pf|pfv|pfvr|favor|obrigad[oa]|muito obrigad[oa]|obg|valeu|vlw|oi|ola|bom dia|boa tarde|boa noite|desculpa|desculpe)`

	askEn = `(?:(?:can|could|would|will) (?:you|u)(?: please)?|i want(?: you)? to|i would like(?: you)? to|` +
		`id like(?: you)? to|i need you to|just|kindly)`
	theseEn  = `(?:(?:me|us|any|any more|more|all|all the|all of the|the|these|those|this|your|my|daily|weekly) )*`
	thingsEn = `((?:reminders?|tips?)(?: (?:and|or) (?:the |your |my )?(?:reminders?|tips?))?)`
	tailEn   = `(?: (?:from (?:you|now on)|to me|for me|anymore|any more|again|at all|for now|entirely|` +
		`completely|altogether|right now|` + courteous + `))*`

	askPt = `(?:(?:voce |vc |voces |vcs )?(?:pode|podem|poderia|poderiam)(?: por favor)?|` +
		`(?:eu )?(?:quero|queria|gostaria de|desejo|prefiro|preciso)|(?:da|tem como)(?: para| pra)?)`
	thesePt = `(?:(?:de|com|os|as|o|a|meus|minhas|seus|suas|esses|essas|estes|estas|desses|` +
		`dessas|dos|das|todos os|todas as|mais|me|nenhum|nenhuma) )*`
	thingsPt = `((?:lembretes?|dicas?)(?: (?:e|ou|nem) (?:os |as |de |com )?(?:lembretes?|dicas?))?)`
	tailPt   = `(?: (?:mais|para mim|pra mim|por enquanto|de vez|agora|a partir de agora|de voces|` + courteous + `))*`
)

// whole are clauses of one of these, with courtesies around it.
func whole(ask string, of ...string) *regexp.Regexp {
	return regexp.MustCompile(`^(?:(?:` + courteous + `|` + ask + `) )*(?:` + strings.Join(of, "|") + `)$`)
}

var (
	offEnglish = whole(askEn,
		`(?:stop|end|quit|disable|pause|mute|silence|cancel|deactivate)(?: sending| giving| getting| receiving| with)? `+theseEn+thingsEn+tailEn,
		`(?:turn|switch|shut) off `+theseEn+thingsEn+tailEn,
		`(?:turn|switch|shut) `+theseEn+thingsEn+` off`+tailEn,
		`(?:i )?(?:dont|never) (?:(?:want|wanna|need|wish)(?: to)?(?: (?:get|receive|have|see))?|send|give) `+theseEn+thingsEn+tailEn,
		`no(?: more)? `+thingsEn+tailEn, `enough(?: of)? `+theseEn+thingsEn+tailEn,
		thingsEn+` off`+tailEn,
	)
	onEnglish = whole(askEn,
		`(?:start|restart|resume|enable|reenable|re enable|activate|reactivate|unmute|unpause)(?: sending| giving)? `+theseEn+thingsEn+tailEn,
		`(?:turn|switch)(?: back)? on `+theseEn+thingsEn+tailEn,
		`(?:turn|switch) `+theseEn+thingsEn+`(?: back)? on`+tailEn,
		thingsEn+`(?: back)? on`+tailEn,
	)
	offPortuguese = whole(askPt,
		`(?:parar|pare|parem|desativar|desative|desativa|desligar|desligue|desliga|cancelar|cancele|cancela|pausar|pause|pausa|`+
			`suspender|suspenda|suspende|silenciar|silencie|silencia|encerrar|encerre)`+
			`(?: de (?:me )?(?:mandar|enviar|receber|dar))? `+thesePt+thingsPt+tailPt,
		// "para lembretes" alone is "for reminders".
		`para (?:com|de (?:me )?(?:mandar|enviar|dar)) `+thesePt+thingsPt+tailPt,
		`(?:chega|basta) (?:de|com|dos|das) `+thesePt+thingsPt+tailPt, `sem (?:mais )?`+thingsPt+tailPt, `nada de `+thesePt+thingsPt+tailPt,
		`(?:eu )?(?:nao|n|naum)(?: me)?(?: mais)? (?:mande|mandem|manda|envie|enviem|envia)(?: me)? `+thesePt+thingsPt+tailPt,
		`(?:eu )?(?:nao|n|naum)(?: mais)? (?:quero|queria|desejo|preciso|gostaria)(?: mais)?(?: de)?`+
			`(?: receber| ter| ver)? `+thesePt+thingsPt+tailPt,
		`deixar de receber `+thesePt+thingsPt+tailPt,
		thingsPt+` (?:off|desligad[oa]s?|desativad[oa]s?)`+tailPt,
	)
	onPortuguese = whole(askPt,
		`(?:ativar|ative|ativa|reativar|reative|reativa|ligar|ligue|liga|religar|religue|habilitar|habilite|retomar|retome|retoma)`+
			` (?:de novo |novamente )?`+thesePt+thingsPt+`(?: de novo| novamente)?`+tailPt,
		`(?:volte|volta|voltem|voltar) (?:a|com) (?:me )?(?:mandar |enviar |receber |dar )?`+thesePt+thingsPt+tailPt,
		thingsPt+` (?:on|ligad[oa]s?|ativad[oa]s?)`+tailPt,
	)
)
