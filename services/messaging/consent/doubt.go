package consent

import (
	"regexp"
	"slices"
	"strings"
)

// doubtful is the net under the rules of Revocation: a short text with a word of revoking in it is doubtful, unless it is one of the
// everyday phrases that have the same words. What a person may have meant as the end is looked at by an operator, and not answered with
// the next text. The last of its guesses are slips of the thumb ("STOPP") and a name that is not theirs ("I'm not Ana").
func doubtful(body, text string) (Locale, bool) {
	said := strings.Fields(strings.ReplaceAll(text, ",", " "))
	if len(said) == 0 {
		return English, strings.ContainsAny(body, "🛑🚫⛔🔕📵🙅")
	}
	if len(said) > shortText || goalWords.MatchString(text) {
		return English, false
	}
	meant := negated.ReplaceAllString(text, " ")
	if narrower.MatchString(meant) {
		return English, wider.MatchString(meant)
	}
	meant = everyday.ReplaceAllString(everyday.ReplaceAllString(meant, " "), " ") // twice, since two phrases may share a space
	meant = withoutDeeds(meant)
	switch {
	case doubtfulPortuguese.MatchString(meant), notThemPortuguese.MatchString(body):
		return Portuguese, true
	case doubtfulEnglish.MatchString(meant), notThemEnglish.MatchString(body):
		return English, true
	}
	return slip(said)
}

// shortText is the most words of a text in which one word decides. A longer one tells a story.
const shortText = 12

var (
	// goalWords begin a goal by text, which may speak of anything.
	goalWords = regexp.MustCompile(`^ (?:please |por favor )?(?:remind me|lembre me|me lembr[ae]|set a reminder) `)
	// narrower are the words of PreferencesOf, and wider is what makes more of them.
	narrower = regexp.MustCompile(` (?:remind\w*|tips?|tipping|lembr\w+|dicas?) `)
	wider    = regexp.MustCompile(` (?:stop|quit|cease|cancel|end|no more)(?: \w+)* (?:everything|anything|all of it) `)

	// everyday are phrases in which a word of revoking means something else.
	everyday = regexp.MustCompile(` (?:` + strings.Join([]string{
		`(?:bus|next|train|pit|last|first|one|non|truck|full|door|a|the|my|our|every|quick|short|rest|gas|subway|metro) stop`,
		`stop (?:(?:and|n) )?shop`,
		`stop (?:by|in|over|on|off|motion|signs?|lights?|watch|loss)`, `stop (?:at|for) (?:a|the|my|an|some|lunch|dinner|` +
			`breakfast|coffee|gas|food|water|groceries|work|home|\d+)`,
		`stop and (?:think|smell|eat|get|pick|look|rest|breathe|go|see|grab|listen)`, `let me stop`, `stop (?:you|u) there`,
		`(?:had|has) to (?:stop|cancel|remove|quit)`, `(?:i|ill|we|well|can i|should i) stop`,
		`stop texting (?:and|while) driving`, `(?:had to|i|we|ive|just) unsubscribed? from`, `opt(?:ed)? out of \w+`, `revoke nothing`,
		`mand\w+ por engano`, `me engano`, `tenho o contato`,
		`(?:vou|vamos|preciso|quero|posso|tenho que|tive que) parar (?:n[ao]|em|para|pra|hoje|agora|um pouco)`,
	}, `|`) + `) `)
)

const (
	objectsEn = `(?:texts?|text messages?|messages?|msgs?|sms|txts?|texting|messaging|notifications?|alerts?|services?|subscriptions?|` +
		`membership|enrol\w+|communications?|contact|correspondence|account|emails?|promos?|ads|marketing)`
	objectEn  = `(?: (?:me|my|the|these|this|that|those|your|ur|all|any|of|out|from|every|sending|receiving|getting))* ` + objectsEn
	mineEn    = `(?: (?:all|of|my|the|this|these|any|our|personal|from|off|phone))* `
	neverEn   = `(?:dont|do not|never|not to|didnt|no longer|quit)`
	objectsPt = `(?:` + textsPt + `|servicos?|inscricao|assinatura|cadastro|conta|envios?|tudo|isso|isto)`
	hisPt     = `(?: (?:todos|todas|os|as|o|a|meu|meus|minha|minhas|esse|este|essas|estas|suas|d[aeo]s?|envio|recebimento))* `
)

// Anywhere in what is left of the text. " , " is between two clauses.
var doubtfulEnglish = regexp.MustCompile(` (?:` + strings.Join([]string{
	`desist|cease|discontinue|unenroll|disenroll|unregister|deregister|dnc|gdpr|ccpa|unsu[bs]?\w*|unsbu\w*|revok(?:e|ed|ing)`,
	`(?:stopped|cancell?(?:ed|ing)|quit|stopping|pause|halt|terminate|suspend|end|disable|mute|deactivate|(?:turn|switch|shut) off|block)` +
		objectEn,
	`stopp?`, `cancel` + objectEn,
	`opt(?:ing|ed)?(?: me| us)? out`, `opt out of (?:all|any|this|these|those|your|everything|it|` + objectsEn + `)`,
	`unsubscribed? from (?:all|any|this|these|those|your|everything|it|here|you|` + objectsEn + `)`,
	`(?:withdraw|retract|cancel|rescind)(?: \w+)? (?:consent|permission|authorization)`,
	`(?:not?|dont|didnt|doesnt|never|no longer|without|havent|hasnt|arent|isnt|withdrawn|took|take)(?: \w+){0,4} ` +
		`(?:consent(?:ed)?|permission|authoriz\w+|authoris\w+)`,
	`(?:remove|delete|erase|wipe|take|unlist|deactivate|drop|forget|lose|scrub|purge)(?: (?:me|us|numbers?)) (?:off|from)`,
	`(?:remove|delete|erase|wipe|unlist|drop|forget|lose|scrub|purge|destroy|take)` + mineEn +
		`(?:numbers?|lists?|name|data|info|information|details|records?|profile|account)`,
	`right to be forgotten|object to (?:the )?processing`,
	neverEn + `(?: ever)? (?:te?x\w*|messag\w*|msg\w*|contact\w*|smsing|sms)`,
	neverEn + `(?: ever)? (?:write|reply|respond|email|bother|disturb|ping|dm)(?: to)? (?:me|us|this number)`, `dont disturb`,
	neverEn + `(?: \w+){0,3} (?:hear|hearing)(?: \w+)? from`,
	`(?:thats|that is|is|its) not me|isnt me|not (?:my|his|her|their|the right|anas|your) (?:phone )?(?:number|cell)`,
	`(?:not|isnt|doesnt|dont|never|no longer|arent)(?: \w+){0,3} this (?:number|phone|cell)`,
	`this (?:number|phone|cell)(?: \w+){0,2} (?:not|isnt|doesnt|no longer|belongs|anymore)`,
	`not \w+s (?:phone )?(?:number|phone|cell)`, `(?:no one|noone|nobody)(?: here)? by`, `wrong (?:num|nr|no|numbers?)`,
	`your? (?:are |re )?blocked`, `sue you`,
}, `|`) + `) | (?:` + strings.Join([]string{ // with which a clause ends
	`cancel (?:it|this|that|all|me|everything)`, `(?:remove|delete|erase|unlist|deactivate|drop|forget|lose) (?:me|us|numbers?)`,
	neverEn + ` call me`,
	neverEn + ` (?:want|wanna|need|wish|ask for|like)(?: to (?:get|receive|have))?(?: any(?: more)?(?: of)?)?` +
		` (?:this|these|them|it|anything from you)`,
}, `|`) + `)` + thanksEn + ` (?:,|$)|(?:^|,) ` + politeEn + `(?:` + strings.Join([]string{ // which are all of a clause
	`(?:i )?(?:quit|cancel|withdraw)|i object|remove|mute|cancel+|i (?:want|need|would like) to cancel`,
	`end it|not me|no ?more(?: of (?:this|these|that|it|them))?(?: from you)?|terminate|halt|deactivate(?: me)?|turn off|remove(?: me)?`,
	`take me off|(?:youre |you are |ur )?blocked|block|(?:this is |its |it is )?(?:a )?scam|wrong|forget me|opt me out`,
}, `|`) + `)` + thanksEn + ` (?:,|$)`)

var doubtfulPortuguese = regexp.MustCompile(` (?:` + strings.Join([]string{
	`(?:descadastr|desinscrev|desinscri)\w*|lgpd`,
	`(?:cancel(?:a|ar|e|em|o|ando|amento)|suspend(?:er|a|e|am)|interromp(?:er|a|am)|desativ(?:ar|a|e|em)|deslig(?:ar|ue|a)|` +
		`encerr(?:ar|a|e|em)|bloque(?:ar|ia|ie|iem)|anular|inscricao)` + hisPt + `(?:` + objectsPt + `|cancelar)`,
	`(?:parar|parem|pare|para) (?:com|de) (?:tudo|isso|me|` + sendPt + `|receber|texto|spam)`, `parar|parem|pare`,
	`sair (?:(?:d[aeo]|d?ess[ea]s?|dest[ea]s?|dum|duma) )*(?:listas?|grupo|cadastro|disso|disto|merda|porra|bosta|` + textsPt + `)`,
	`(?:me|nos) (?:remov|exclu|delet|retir|apag|desativ|descadastr|bloque)(?:a|e|i|ia|am|em|ir|er|ar|ue)(?: d\w+)?`,
	`me (?:tir(?:a|e|em|ar)) (?:daqui|dai|disso|disto|fora|dess[ea]|dest[ea])`,
	`(?:(?:remov|exclu|apag|retir|tir|delet|bloque|elimin)(?:a|e|i|ia|am|em|uem|ir|er|ar|ue)|` +
		`esque(?:ca|cam|ce|cer))` + hisPt +
		`(?:dados|numero|nome|telefone|contato|cadastro|conta|perfil|informacoes|lista)`,
	notPt + `(?: \w+){0,3} (?:autoriz\w+|permiss(?:ao|oes)|autorizacao|consentimento|consinto|consenti|permito|permiti)`,
	`sem (?:a )?(?:minha )?(?:permissao|autorizacao|consentimento)`,
	notPt + `(?: \w+){0,3} (?:contato|contatar|contactar|contatem)`, `sem contato|engano`,
	notPt + `(?: \w+){0,2} (?:receber|mais receb\w+)(?: mais)? (?:,|nada|isso|` + whichPt + textsPt + `)`,
	`(?:` + notPt + `|sem)(?: (?:me|nos|mais))* (?:mande|mandem|mandar|envie|enviem|enviar|escreva|escrevam|ligue|liguem|ligar)(?: me)? mais`,
	notPt + ` (?:me )?(?:perturb|incomod|importun)(?:e|em|a|ar)`, `(?:deix)(?:a|e|em)(?: \w+){1,2} em paz`,
	`aqui ` + notPt + ` (?:e|tem) (?:a|o|nenhum\w*)`,
	`(?:numero|telefone|celular) ` + notPt + ` (?:e|pertence)(?: mais)? (?:meu|del[ea]s?|d[aeo]|a|o|minha)`,
	notPt + ` (?:conheco (?:nenhum\w*|ninguem|vc|voce|voces)|te conheco)`,
}, `|`) + `) | (?:` + notPt + ` (?:sou|somos) (?:mais )?(?:a|o) \w+|` + notPt + `(?: \w+){0,2} receber(?: mais)?)` + thanksPt +
	` (?:,|$)|(?:^|,) ` + politePt + `(?:` + strings.Join([]string{
	`(?:quero |queria |pode |podem |como (?:eu )?(?:faco (?:para|pra) )?)?` +
		`(?:cancel(?:a|ar|e|em|o)|sair|saia)(?: (?:daqui|agora|ja|tudo|isso|fora))*`,
	`(?:excluir|retirar|suspender|interromper|desativar|desativa|desative|desligar|anular|bloquear|encerra|encerre|denunciar|` +
		`golpe|vaza|vtnc|vsf|no mas)`, notPt + ` preciso mais`, `(?:da|tem como) (?:para|pra) parar`,
}, `|`) + `)` + thanksPt + ` (?:,|$)`)

// doing is what a person stops doing; texts of ours are what we may be told to stop, however they are written.
var (
	doing = regexp.MustCompile(` (?:stop \w+ing|(?:parar|parem|pare|para) de (?:me )?\w+[aei]r) `)
	texts = regexp.MustCompile(` (?:te?x|tet|txt|msg|mess?ag|mass?ag|contact|send|call|both|spam|harr?as|bug|pest|rec[ei]+v|getting|writ|` +
		`email|commun|sms|notif|ping|annoy|stalk|bombard|market|everyt|anyt|` +
		`mand|envi|escrev|contat|incomod|perturb|importun|assedi|lig|ench|torr|receb)\w* $`)
)

// withoutDeeds takes out what has nothing to do with our texts: "stop smoking".
func withoutDeeds(text string) string {
	return doing.ReplaceAllStringFunc(text, func(deed string) string {
		if texts.MatchString(deed) {
			return deed
		}
		return " "
	})
}

// A name that is not theirs. Only its capital tells it from "I'm not sure".
var (
	notThemEnglish    = regexp.MustCompile(`(?:^|[^\pL\pM\pN])(?i:i['’]?m not|i am not|this is not|this isn['’]?t)` + capital)
	notThemPortuguese = regexp.MustCompile(`(?:^|[^\pL\pM\pN])(?i:n[ãa]o (?:sou|[ée]))(?: [ao])?` + capital)
)

const capital = ` \p{Lu}\p{Ll}+(?:[^\pL\pN]*$|[,.!?;])`

// slip finds the stop words in a text of one word, or at the beginning of one, that is a letter off.
func slip(said []string) (Locale, bool) {
	if spelled, locale := meaning(strings.Join(said, "")); spelled == stop { // "S T O P"
		return locale, true
	}
	for len(said) > 1 && slices.Contains([]string{"please", "pls", "plz", "por", "favor"}, said[0]) {
		said = said[1:]
	}
	for _, of := range [...]struct {
		word   string
		locale Locale
	}{
		{"stop", English},
		{"unsubscribe", English},
		{"cancel", English},
		{"revoke", English},
		{"optout", English},
		{"quit", English},
		{"parar", Portuguese},
		{"sair", Portuguese},
		{"cancelar", Portuguese},
		{"remover", Portuguese},
		{"encerrar", Portuguese},
		{"descadastrar", Portuguese},
	} {
		alone := len(said) == 1 || of.word == "stop"
		if alone && oneOff(said[0], of.word) && !slices.Contains(ownWords, said[0]) {
			return of.locale, true
		}
	}
	return English, false
}

// ownWords are a letter away from a stop word, and words of their own.
var ownWords = []string{
	"shop", "step", "top", "slop", "stoop", "stomp", "strop", "stow", "sop", "stops", "cancer", "removed", "removes", "evoke", "quite",
	"quiet", "suit", "quid", "quip", "said", "sail", "sais", "saiu", "cair", "fair", "hair", "pair", "lair", "sari", "pagar",
	"pairar", "parir", "parear", "varar",
}

// oneOff reports whether one letter was left out, put in, changed, or swapped with the next.
func oneOff(a, b string) bool {
	if a == b || len(a) < 3 {
		return false
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 0:
		return a[i+1:] == b[i+1:] || (i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:])
	case 1:
		return a[i:] == b[i+1:]
	}
	return false
}
