package consent

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading"
)

// RulesVersion names the rules of this file and of doubt.go in the ledger, as Version names the keywords. It changes with every change to
// them.
const RulesVersion = "2026-11-27.1"

// Wish is what a text in free words says about receiving texts.
type Wish int

// The wishes.
const (
	NoWish  Wish = iota // nothing
	Unclear             // it may be a revocation: an operator has to decide
	Clear               // it is one
)

// Revocation reads a wish to receive no more texts out of free words, in English and in Brazilian Portuguese, and the language
// that it was said in. A clear one is a clause that says nothing else: "please stop texting me", "não quero mais receber", with
// courtesies around it, and with nothing anywhere in the text that takes it back, jokes, or speaks of a time ("until tomorrow").
// Where the same words are only part of a clause, stand before such a time, or are those of an annoyed person ("leave
// me alone"), it is unclear. The rules err towards unclear: what is stopped by mistake costs a conversation, and what is missed
// breaks the law, but an operator who looks is right both times. Under them is the net of doubtful.
//
// Reactions are not the person's words. Of a text with a quote or a signature, or that looks like an automatic reply, the person's words
// are read first, and then the whole, which can only be unclear. What neither rules nor net know is Unclear where the model of
// package reading finds it like a revocation; and what only the net knows is not, where the model is sure that it is none.
func Revocation(body string) (Wish, Locale) {
	kind, own := reading.Theirs(body)
	switch kind {
	case reading.Liked, reading.Noted, reading.Disliked:
		return NoWish, English
	case reading.Own:
		if own == reading.Normalise(body) { // nothing was taken out
			return wishOf(body, own)
		}
		if wish, locale := wishOf(own, own); wish != NoWish {
			return wish, locale
		}
	case reading.Quoted, reading.Automatic:
	}
	// A person may put words between quotation marks, or write some that phones write, too: what was taken out may be theirs.
	whole := reading.WithoutFooters(body)
	wish, locale := wishOf(whole, whole)
	return min(wish, Unclear), locale
}

// wishOf reads one text, and its normalised form.
func wishOf(body, own string) (Wish, Locale) {
	clauses, text := clausesOf(body)
	wish, locale := byRules(clauses, text)
	if wish != NoWish {
		return wish, locale
	}
	score := reading.Revocation.Score(own)
	if locale, caught := doubtful(body, text); caught && (score > surelyOrdinary || strings.TrimSpace(text) == "") {
		return Unclear, locale
	}
	if score > likeARevocation && !negated.MatchString(text) && !plainNo.MatchString(text) {
		return Unclear, languageOf(own)
	}
	return NoWish, English
}

// Bounds of reading.Revocation, chosen on the texts that it was made from.
const (
	likeARevocation = -0.5
	surelyOrdinary  = -0.7
)

// plainNo refuses what was asked, and nothing more.
var plainNo = regexp.MustCompile(`^ (?:nao quero|i dont want to|no quiero|je ne veux pas|no thanks?|nao obrigad[oa]) $`)

// languageOf tells Portuguese by its commonest words.
func languageOf(text string) Locale {
	if portuguese.MatchString(" " + text + " ") {
		return Portuguese
	}
	return English
}

var portuguese = regexp.MustCompile(`[^a-z](?:nao|voces?|vcs?|minha?|meu|mensagens?|por favor|isso|quero|mais|numero|pare|pra|` +
	`essa|esse|me|de|da|do)[^a-z]`)

func byRules(clauses []string, text string) (Wish, Locale) {
	var before []string // what is said for a time
	if at := untilThen.FindStringIndex(text); at != nil {
		before, _ = clausesOf(text[:at[0]])
	}
	for _, rules := range [...]struct {
		locale           Locale
		clear, ambiguous *regexp.Regexp
	}{{English, clearEnglish, ambiguousEnglish}, {Portuguese, clearPortuguese, ambiguousPortuguese}} {
		said := slices.ContainsFunc(clauses, rules.clear.MatchString)
		switch {
		case said && !qualified.MatchString(text):
			return Clear, rules.locale
		case said, slices.ContainsFunc(before, rules.clear.MatchString), rules.ambiguous.MatchString(negated.ReplaceAllString(text, " ")):
			return Unclear, rules.locale
		}
	}
	return NoWish, English
}

// clausesOf cuts a text where its punctuation does, and at words that begin another thought, and folds what is between: single
// spaces, and the forms of not as one word each. It also gives the whole text back so, with a comma for the punctuation.
func clausesOf(body string) (clauses []string, text string) {
	var parts []string
	for _, part := range strings.FieldsFunc(body, punctuates) {
		folded := slices.DeleteFunc(contracted(letters.Words(part)), swears)
		if len(folded) == 0 {
			continue
		}
		parts = append(parts, strings.Join(folded, " "))
		for len(folded) > 0 {
			n := slices.IndexFunc(folded, begins)
			if n < 0 {
				n = len(folded)
			}
			if n > 0 {
				clauses = append(clauses, strings.Join(folded[:n], " "))
			}
			folded = folded[min(n+1, len(folded)):]
		}
	}
	return clauses, " " + strings.Join(parts, " , ") + " "
}

// punctuates tells the marks between thoughts from those within a word.
func punctuates(r rune) bool {
	return r == '\n' || (unicode.IsPunct(r) && !strings.ContainsRune("'’‘-‐‑_&", r))
}

func begins(word string) bool {
	return slices.Contains([]string{"and", "but", "because", "mas", "porque", "pois"}, word)
}

// swears tells a word that only makes the next one stronger.
func swears(word string) bool {
	return slices.Contains([]string{"fucking", "fuckin", "freaking", "friggin", "goddamn", "bloody"}, word)
}

// contracted puts together what an apostrophe has torn apart, and writes the forms of "not" alike: don't, do not and dont are
// one word.
func contracted(text []string) []string {
	var out []string
	for _, word := range text {
		last := len(out) - 1
		switch {
		case last < 0:
		case word == "t" && strings.HasSuffix(out[last], "n"), word == "not" && (out[last] == "do" || out[last] == "can"):
			out[last] = strings.TrimSuffix(strings.TrimSuffix(out[last], "n"), "t") + "nt"
			continue
		case word == "m" || word == "d" || word == "s" || word == "re" || word == "ve" || word == "ll":
			out[last] += word
			continue
		}
		if word == "cannot" {
			word = "cant"
		}
		out = append(out, word)
	}
	return out
}

// The rules are regular expressions over the folded words, so that they take linear time for every message. They are
// put together from parts which are named for what they mean; each part but the last of a clause brings its own space.
const (
	politeEn = `(?:(?:please|pls|plz|hi|hey|hello|yo|ok|okay|yes|no|just|kindly|sorry|again|guys|dude|man|stop|sir|madam|listen|look|` +
		`(?:can|could|would|will|wont) (?:you|u|yall)(?: guys)?|you (?:need|have) to|you (?:must|should|can)|i (?:want|need|ask|` +
		`beg) (?:you )?(?:guys )?to|` +
		`id like (?:you )?to|i would like (?:you )?to|i am asking you to|im asking you to|i said|i told you to|would you mind|` +
		`you guys|you people|for the (?:last|second|third) time) )*`
	thanksEn = `(?: (?:please|pls|plz|thanks|thank you|thx|ty|ok|okay|now|right now|right away|immediately|at once|today|forever|` +
		`ever|ever again|` +
		`again|anymore|any more|already|asap|entirely|completely|altogether|for good|sir|guys|man|dude|bro|period))*`
	// Without "now": not to be texted now is not to be texted later.
	againEn = `(?: (?:please|pls|plz|thanks|thank you|thx|ty|ok|okay|ever|ever again|again|anymore|any more|at all|sir|guys|` +
		`man|dude|bro|period))*`
	meEn    = `(?:me|us|this number|this phone|my number|my phone|my cell)`
	textsEn = `(?:texts?|text messages?|messages?|msgs?|sms|sms messages|texting|messaging|notifications?|spam|stuff|crap|shit)`
	whichEn = `(?:(?:me|us|any|all|all of|the|these|those|this|that|your|ur|more|any more|anymore|of|such|stupid|damn|annoying|` +
		`automated|promotional|marketing|further) )*`
	fromUsEn = `(?: (?:from|of|by) (?:you|u|yall|you guys|you people|this number|this|your company|your service|here))?`
	toUsEn   = `(?: (?:to|on) ` + meEn + `)?`
	listEn   = `(?: (?:from|off|of|out of) (?:this|these|the|your|ur|all|any|all your|all of your)(?: (?:text|texting|sms|` +
		`contact|mailing|messaging|phone|marketing|calling))?(?: (?:list|lists|service|database|system|program|records|contacts|` +
		`texts?|messages?|messaging|notifications))?(?: list)?)?`
	botherEn  = `(?:bothering|spamming|harassing|bugging|pestering)`
	writingEn = `(?:texting|messaging|contacting|txting|smsing)`
	// What PreferencesOf speaks of. With a word of consent beside it, it may be meant narrowly or not.
	remindersEn = `(?:reminders?|tips?)`
)

// What a clause has to be.
var clearEnglish = regexp.MustCompile(`^` + politeEn + `(?:(?:` + strings.Join([]string{
	`(?:stop|quit|cease)(?: with)?(?: (?:` + writingEn + `|` +
		`` + botherEn + `))(?: ` + meEn + `)(?: with ` + whichEn + textsEn + `)?` + fromUsEn,
	`(?:stop|quit|cease) ` + writingEn,
	`(?:stop|quit|cease)(?: (?:sending|with))? ` + whichEn + textsEn + toUsEn + fromUsEn,
	`(?:stop|quit) (?:sending|messaging|texting) ` + meEn + `(?: (?:these|this|that|things|anything))?`,
	`(?:take|get) ` + meEn + ` (?:off|out of)(?: (?:of )?(?:this|these|the|your|ur|all|that))(?: (?:text|texting|sms|contact|` +
		`mailing|messaging|phone|marketing|call))? ?(?:list|lists|thing|database|system)?`,
	`(?:remove|delete|erase|unsubscribe|unlist) (?:` + meEn + `|my (?:phone|cell|mobile) ?number|my details|my contact)` + listEn,
	`unsubscribe` + listEn,
	`opt (?:me|us|this number|my number) out` + listEn,
	`(?:i (?:want|need|wish|would like)|id like|i wanna|i) ?(?:to )?(?:opt out|unsubscribe|be removed|be unsubscribed)` + listEn,
	`(?:i (?:want|need|wish|would like)|id like|i wanna) ?(?:to )?(?:be taken|come|get) off (?:this|these|the|your|ur|` +
		`all)(?: \w+)? lists?`,
	`i(?: hereby)? (?:revoke|withdraw|retract|cancel) (?:my )?(?:consent|permission|subscription|opt in)`,
	`(?:cancel|end|discontinue) (?:(?:my|the|this) )?(?:subscription|sms|(?:(?:my|these|the|your|all|all the|all these) )?` +
		`(?:texts?|messages?|text messages?|notifications))`,
	`(?:cease|desist|unsubscribe all|unsubscribe me from (?:all|everything)|opt out(?: now| (?:of|from) ` + whichEn + textsEn + `))`,
	`(?:i want to|id like to|i would like to|i wanna|i wish to) (?:stop|quit) (?:receiving|getting) ` + whichEn + textsEn + fromUsEn,
	`(?:i (?:hereby )?)?(?:revoke|withdraw|retract) (?:my )?(?:consent|permission)(?: (?:to (?:text|message|contact) me|` +
		`to (?:receive|get) ` + whichEn + textsEn + `|to be (?:contacted|texted|messaged)))?`,
}, `|`) + `)` + thanksEn + `|(?:` + strings.Join([]string{
	`(?:i )?(?:dont|do nt|never)(?: you)?(?: ever)?(?: (?:text|message|contact|txt|sms|write))(?: to)? ` + meEn,
	`(?:dont|never)(?: ever)? send ` + whichEn + textsEn + toUsEn,
	`(?:i |we )?(?:dont|do no longer|no longer|never)(?: (?:want|wanna|wish|need))(?: to)?(?: (?:get|receive|have|getting|` +
		`receiving|see))? ` + whichEn + textsEn + fromUsEn,
	`(?:i )?(?:dont|no longer|never)(?: (?:want|wanna|wish))(?: (?:you|u|yall))?(?: to)?(?: be)? (?:texted|messaged|contacted|` +
		`text me|texting me|message me|messaging me|contact me|contacting me)` + fromUsEn,
	`no more ` + textsEn + toUsEn + fromUsEn,
	`i (?:dont|no longer|never) consent(?:ed)? to ` + whichEn + textsEn + fromUsEn,
	`(?:you|u|yall) (?:dont|no longer) have my (?:consent|permission)(?: to (?:text|message|contact) me)?`,
	`i (?:dont|no longer) (?:want|wanna|wish)(?: to)? hear from (?:you|u|yall|you guys|you people)`,
}, `|`) + `)` + againEn + `)$`)

// What may stand anywhere, or has to be all of a clause (" , " is between two).
var ambiguousEnglish = regexp.MustCompile(strings.Join([]string{
	` (?:stop|quit|cease) (?:` + writingEn + `|` + botherEn + `|calling|sending) ` + meEn + ` `,
	` (?:stop|quit|cease)(?: sending)?(?: (?:me|these|the|your|all|all these|this))+ (?:texts?|text messages?|messages?|msgs?|` +
		`sms|notifications) `,
	` (?:dont|never)(?: ever)? (?:text|message|contact|txt) (?:me|us|this number) `,
	` (?:dont|no longer) (?:want|wish)(?: to (?:get|receive))? ` + whichEn + `(?:texts?|text messages?|msgs?|sms) (?:,|from you|` +
		`about|any|$)`,
	` (?:unsubscribe|opt out|opting out|unsubscribed)(?: (?:(?:from|of|to) )?(?:this|these|it|your|you|the texts?|the messages?|` +
		`texts?|messages?|here)| me)? ,? ?$`,
	` (?:unsubscribe|opt out|opting out) (?:from|of) (?:this|these|it|your|texts?|messages?) `,
	` (?:remove|take|get|delete) (?:me|my number|my phone number) (?:off|from|out of) (?:this|these|the|your) (?:\w+ )?(?:list|` +
		`database|system) `,
	` (?:leave me (?:the \w+ )?alone|leave us alone|lose my number|forget my number) `,
	` (?:wrong (?:number|person|guy|girl|phone|contact)|not (?:my|his|her) (?:number|phone) anymore) `,
	` (?:(?:im|i am|were|we are)? ?(?:not|no longer) interested(?: (?:in this|in these|thanks|thank you|sorry|anymore|` +
		`at all))?) (?:,|$)`,
	` (?:im|i am|ill|i will|will be|going to|gonna) (?:report|reporting|block|blocking|sue|suing) (?:you|u|this|this number|yall) `,
	` (?:reported|reporting|report) (?:you|this|it|to|as) (?:as |the )?(?:spam|fcc|ftc|harassment) `,
	` (?:tcpa|dont (?:call|contact|text) list) `,
	`(?:^|,) ` + politeEn + `(?:stop|quit|cut)(?: (?:it|this|that|already|bothering|doing this|doing that|it out|out|w this|` +
		`with this))+(?: ` + meEn + `)?` + thanksEn + ` (?:,|$)`,
	`(?:^|,) ` + politeEn + `stop` + thanksEn + ` (?:,|$)`,
	`(?:^|,) ` + politeEn + `(?:enough(?: already| is enough| of this| texts| messages)?|go away|get lost|shut up|fuck off|` +
		`fuck you|piss off|screw you|back off|f off|not interested)` + thanksEn + ` (?:,|$)`,
	`(?:^|,) (?:ok |so |wow |man |ugh |omg )*(?:this|these|these texts|these messages|youre|you are|its|it is|ur|u r|thats|` +
		`that is)(?: is| are)?(?: (?:so|really|very|super|getting|just|too|becoming|all))* (?:annoying|spam|harassment|harassing me|` +
		`spamming me|spamming|bothering me|bugging me|irritating|intrusive)`,
	` (?:i )?(?:never|didnt|did not) (?:sign|signed|subscribe|subscribed|consent|consented|agree|agreed)(?: up)? (?:for|` +
		`to) (?:this|these|any of this|your|it|texts|messages) `,
	` (?:how|where) (?:do|can|could|would|to) (?:i |we )?(?:stop|cancel|end|turn off|get out of|quit)(?: (?:getting|` +
		`receiving))? (?:this|these|it|the|your|texts|messages)`,
	` (?:blocked|blocking) (?:you|this number) `,
	` (?:unsubscribe|opt out|opting out|opt me out|(?:remove|take|get) me)(?: me)? (?:from|of|to|off|out of) ` + whichEn + remindersEn + ` `,
	` (?:stop|quit|cease|no more|disable|mute|(?:turn|switch|shut) off|(?:dont|no longer|never) (?:want|wish|need|send))` +
		`(?: (?:to|get|receive|sending|getting|receiving|giving|with|me|us))* ` + whichEn + remindersEn + ` ` + textsEn + ` `,
	`(?:^|,) ` + politeEn + `(?:stop|quit) reminding ` + meEn + thanksEn + ` (?:,|$)`,
}, `|`))

const (
	notPt    = `(?:nao|n|naum|nunca)`
	politePt = `(?:(?:por favor|pf|pfv|pfvr|favor|oi|ola|bom dia|boa tarde|boa noite|ok|gente|moca|moco|sim|ja|eu|so|entao|olha|` +
		`galera|pessoal|amigo|amiga|senhor|senhora|desculpa|desculpe|ei|` +
		`(?:vc|voce|vcs|voces) (?:pode|podem|poderia|poderiam)|(?:pode|podem|poderia|poderiam|podes)|tem como|eu quero que(?: (?:vc|` +
		`voce|vcs|voces))?|quero que|gostaria que|peco que|ja disse|ja falei|pela ultima vez|para) )*?`
	thanksPt = `(?: (?:por favor|pf|pfv|pfvr|obrigado|obrigada|obg|vlw|valeu|grato|grata|agora|ja|agora mesmo|imediatamente|` +
		`nunca mais|mais|gente|moca|moco|ok|ta|ta bom|ta bem|de vez|hoje mesmo|urgente|porra|caramba|poxa|pessoal))*`
	againPt = `(?: (?:por favor|pf|pfv|pfvr|obrigado|obrigada|obg|vlw|valeu|grato|grata|nunca mais|mais|nada|gente|moca|moco|` +
		`ok|ta|ta bom|ta bem|de vez|porra|caramba|poxa|pessoal))*`
	textsPt = `(?:mensagem|mensagens|mensagen|msg|msgs|msn|sms|torpedo|torpedos|texto|textos|notificacao|notificacoes|contato|` +
		`contatos|propaganda|propagandas|spam)`
	whichPt = `(?:(?:a|as|o|os|essa|essas|esse|esses|esta|estas|este|estes|sua|suas|seu|seus|dessa|dessas|desta|destas|desse|` +
		`desses|deste|destes|de|nenhuma|nenhum|outra|outras|mais|tanta|tantas|todas|qualquer|tipo) )*`
	toMePt = `(?: (?:para|pra|p|pro) (?:mim|ca|nos|este numero|esse numero|(?:o )?meu (?:numero|celular)|` +
		`meu telefone|aqui))?(?: (?:no meu|neste|nesse) (?:celular|numero|telefone|whatsapp|zap))?(?: aqui)?`
	fromUsPt = `(?: (?:de (?:voces|vcs|voce|vc)|d vcs|suas|desse numero|deste numero|da empresa|dessa empresa|dai))?`
	sendPt   = `(?:mandar|enviar|mandarem|enviarem|escrever|escreverem|contatar|contactar|mandando|enviando|ficar mandando|` +
		`ficar enviando|ficar me mandando|ficar me enviando)`
	botherPt = `(?:incomodar|perturbar|importunar|spammar|assediar|incomodando|perturbando)`
	// As in English.
	remindersPt = `(?:lembretes?|dicas?)`
	sendNotPt   = `(?:mande|mandem|envie|enviem|manda|mandar|envia|enviar|escreva|escrevam|escreve|contate|contatem|contacte|contactem)`
)

var clearPortuguese = regexp.MustCompile(`^` + politePt + `(?:(?:` + strings.Join([]string{
	`(?:pare|para|parem|parar|parando|pfv pare)(?: com| de|` +
		` d)?(?: me)? ` + sendPt + `(?: me)?(?: ` + whichPt + `(?:` + textsPt + `|isso|coisas|coisa))` + toMePt,
	`(?:pare|para|parem|parar)(?: de| d)?(?: (?:me ` + sendPt + `|` + sendPt + ` me|me ` + botherPt + `|` + botherPt + ` me))` + toMePt,
	`(?:pare|para|parem|parar|chega|basta)(?: de| com)? ` + whichPt + textsPt + toMePt + fromUsPt,
	`(?:me )?(?:tire|tira|tirem|tirar|remova|remove|removam|remover|retire|retira|retirem|retirar|exclua|exclui|excluam|excluir|` +
		`apague|apaga|apagar|delete|deleta|deletar|descadastre|descadastra|descadastrar|` +
		`desinscreva)(?: me)?(?: (?:o )?meu (?:numero|telefone|contato|cadastro|nome|celular|whatsapp|zap))?(?: (?:da|dessa|desta|` +
		`de|do|desse|deste|dai)(?: sua| seu| tua)?(?: (?:lista|listas|cadastro|sistema|grupo|banco de dados|mailing|` +
		`base))?(?: de (?:contatos|mensagens|transmissao|envio))?)`,
	`(?:tire|tira|tirem|remova|remove|removam|retire|retira|exclua|exclui|apague|apaga|delete|deleta) (?:o )?meu (?:numero|` +
		`telefone|contato|cadastro|celular)`,
	`(?:quero|queria|gostaria de|desejo|prefiro|preciso|solicito|peco para|vou)(?: me)? (?:sair (?:da|dessa|desta|de sua) lista|` +
		`(?:me )?descadastrar(?:me)?(?: daqui| da lista| disso)?|me desinscrever|me desinscrever (?:disso|da lista)|cancelar (?:as|` +
		`essas|estas|suas|o recebimento de|o recebimento das|o envio de|o envio das)? ?` + textsPt + `|cancelar (?:a |o )?(?:minha |` +
		`meu )?(?:inscricao|cadastro|assinatura)|parar de receber(?: ` + whichPt + `(?:` + textsPt + `|isso|nada))?|` +
		`deixar de receber(?: ` + whichPt + `(?:` + textsPt + `|isso))?|ser removid[oa](?: da lista| dessa lista)?|` +
		`ser retirad[oa] (?:da|dessa) lista)` + fromUsPt,
	`(?:cancela|cancele|cancelem|cancelar) (?:as|essas|estas|suas|o envio de|o envio das|o recebimento de) ?` + textsPt,
	`(?:cancela|cancele|cancelem|cancelar) (?:a |o )?(?:minha |meu )(?:inscricao|cadastro|assinatura)`,
	`(?:descadastra|me descadastra|me descadastrem|me descadastrar|me desinscreve|me desinscreva|sair da lista|cancelar ` + textsPt + `)`,
	`(?:revogo|retiro|cancelo) (?:o )?(?:meu )?consentimento`,
}, `|`) + `)` + thanksPt + `|(?:` + strings.Join([]string{
	notPt + `(?: mais)?(?: me)?(?: mais)? ` + sendNotPt + `(?: me)?(?: mais)?(?: ` + whichPt + `(?:` + textsPt + `|nada|isso))` + toMePt,
	notPt + `(?: mais)? me(?: mais)? (?:escreva|escrevam|escreve|contate|contatem|contacte|contactem|perturbe|perturbem|perturba|` +
		`incomode|incomodem|incomoda|importune|importunem)`,
	notPt + ` me (?:mande|mandem|manda|envie|enviem|envia) mais`,
	notPt + `(?: mais)? (?:quero|queremos|desejo|gostaria|pretendo|aceito|` +
		`autorizo)(?: mais)?(?: de)? receber(?: mais)?(?: ` + whichPt + `(?:` + textsPt + `|isso|nada))?` + toMePt + fromUsPt,
	notPt + `(?: mais)? (?:quero|queremos|desejo|aceito|autorizo)(?: mais)?(?: ter)? ` + whichPt + textsPt + toMePt + fromUsPt,
	notPt + `(?: mais)? (?:quero|desejo)(?: mais)? que (?:vc|voce|vcs|voces)?(?: )?me (?:mande|mandem|envie|enviem|escreva|` +
		`escrevam)(?: mais)?(?: ` + whichPt + textsPt + `)?`,
	`(?:sem|nada de|chega de) mais ` + textsPt,
	notPt + `(?: mais)? (?:entre|entrem|entrar)(?: mais)? em contato(?: comigo)?`,
	`(?:gostaria|quero|queria|desejo|prefiro)(?: de)? ` + notPt + `(?: mais)? receber(?: mais)?` +
		`(?: ` + whichPt + `(?:` + textsPt + `|isso|nada))?`,
}, `|`) + `)` + againPt + `)$`)

var ambiguousPortuguese = regexp.MustCompile(strings.Join([]string{
	` (?:pare|para|parem|parar) (?:de |d )?(?:me )?(?:` + sendPt + `|` + botherPt + `|ligar|encher|torrar)(?: me)? (?:o saco|` +
		`a paciencia|` + textsPt + `|isso|,|$)`,
	` ` + notPt + ` (?:me )?(?:mais )?` + sendNotPt + ` (?:mais |me )*(?:nenhuma |essas |as )?` + textsPt + ` `,
	` ` + notPt + ` (?:quero|desejo)(?: mais)? receber(?: mais)? ` + whichPt + `(?:` + textsPt + `|nada|isso) `,
	` ` + notPt + ` (?:quero|desejo) mais receber `,
	` (?:parar|deixar) de receber (?:` + whichPt + textsPt + `|isso|,|$)`,
	` (?:me )?(?:deixa|deixe|deixem)(?: me)? em paz `,
	` (?:me esquece|me esqueca|me esquecam|some daqui|suma daqui|some da minha vida|vai embora|vao embora|` +
		`` + notPt + ` enche(?: o saco)?|vai se foder|vai pra merda|vai tomar no cu) `,
	` (?:numero|contato|pessoa|telefone) errad[oa] `,
	` (?:errou|erraram|errado) (?:de |o )?numero `,
	`(?:^|,) (?:` + politePt + `)?` + notPt + ` (?:tenho(?: mais)? interesse|(?:estou|to|tou) (?:mais )?interessad[oa]|` +
		`me interessa(?: mais)?|tenho mais interesse|quero mais(?: isso| nada| participar)?)` + thanksPt + ` (?:,|$)`,
	`(?:^|,) (?:sem interesse|perdi o interesse)` + thanksPt + ` (?:,|$)`,
	`(?:^|,) (?:` + politePt + `)?(?:para|pare|parem|parar|chega|basta|para com isso|pare com isso|parem com isso|chega disso|` +
		`chega de isso|ja chega|ja deu|deu)` + thanksPt + ` (?:,|$)`,
	`(?:^|,) (?:` + politePt + `)?(?:quero|queria|gostaria de|vou) (?:sair|cancelar|parar|sair disso|sair daqui|cancelar isso|` +
		`cancelar tudo|parar com isso)` + thanksPt + ` (?:,|$)`,
	` como (?:eu )?(?:faco|faz|posso|fazer) (?:para |pra )?(?:eu )?(?:sair|cancelar|parar|me descadastrar|` +
		`descadastrar)(?: (?:disso|isso|daqui|da lista|dessa lista|as mensagens|essas mensagens|de receber|as|essas))* ?(?:,|$|` +
		`` + textsPt + `)`,
	`(?:^|,) (?:poxa |gente |nossa |ai )*(?:isso|isto|essas mensagens|essas msgs|vcs|voces|voce|vc)(?: (?:e|eh|ta|esta|sao|estao|` +
		`tao|ja|muito|so|ficando|me|virou))* (?:spam|chato|chata|chatos|irritante|irritantes|incomodando|enchendo|perturbando|` +
		`assedio|golpe|inconvenientes?|insuportavel)`,
	` (?:vou|irei) (?:te |vos |os )?(?:bloquear|denunciar|processar)(?: (?:vc|voce|vcs|voces|esse numero|este numero|isso|` +
		`voces todos))? (?:,|$)`,
	` ` + notPt + ` (?:me cadastrei|me inscrevi|autorizei|pedi|assinei|solicitei) (?:para|pra|isso|nisso|essas|nada|nenhum|` +
		`nenhuma|em|,|$)`,
	` (?:spam|procon|lgpd|anatel) (?:,|$)`,
	` (?:sair|(?:me )?(?:descadastr|desinscrev|remov|tir)[a-z]+|(?:cancel[a-z]+)(?: (?:a|o|minha|meu))? (?:inscricao|cadastro|` +
		`assinatura))(?: me)? (?:d[aeo]s?|n[ao]s?) (?:lista d[aeo]s? )?` + whichPt + remindersPt + ` `,
	` (?:pare|parem|parar|para (?:com|de)|chega|basta|` + notPt + `(?: mais)? (?:quero|queremos|desejo|preciso))` +
		`(?: (?:mais|de|com|me|receber|` + sendPt + `))* ` + whichPt + textsPt + ` (?:de|com|d[ao]s|sobre) ` + whichPt + remindersPt + ` `,
	`(?:^|,) ` + politePt + `(?:pare|para|parem|parar) de (?:me )?lembrar` + thanksPt + ` (?:,|$)`,
}, `|`))

// negated is a stop that is not asked for: "don't stop texting me", "he won't stop messaging me".
var negated = regexp.MustCompile(` (?:dont|cant|couldnt|wont|wouldnt|didnt|doesnt|never|not|hasnt|havent|nao|nunca)(?: (?:you|` +
	`ever|de|me))? (?:stop|quit|pare|para|parem|parar|parou|param|paro)(?: \w+)?(?: \w+)? `)

// untilThen is a time until which the words before it are meant.
var untilThen = regexp.MustCompile(` (?:until|till|til|tonight|tomorrow|later|for now|ate|amanha|depois|por enquanto) `)

// qualified is what makes clear words ambiguous: a time after which it may be otherwise, another way, a joke, a taking back.
var qualified = regexp.MustCompile(` (?:later|until|till|til|unless|while|tonight|tomorrow|maybe|perhaps|if|lol|lmao|haha\w*|` +
	`jk|kidding|joking|joke|` +
	`driving|meeting|meetings|busy|asleep|sleeping|sleep|working|call|calling|email|mail|instead|before|after|weekend|weekends|` +
	`hours?|minutes?|` +
	`early|late|at night|in the morning|for now|except|only|keep|continue|` +
	`depois|ate|amanha|enquanto|talvez|quem sabe|se|kk+|rs+|brincadeira|brincando|zoando|dirigindo|reuniao|ocupad[oa]|dormindo|` +
	`trabalhando|` +
	`ligue|liga|ligar|tarde|cedo|noite|madrugada|horas|minutos|por enquanto|exceto|apenas|somente|continue|continua|de novo nao) `)
