package consent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

// sayings is what people write, by what it has to be read as.
type sayings struct {
	clear, unclear, nothing []string
}

var english = sayings{
	clear: []string{
		"please stop texting me", "Stop texting me!", "STOP TEXTING ME PLEASE", "pls stop texting me", "Can you please stop texting me?",
		"could you stop messaging me", "I want you to stop texting me", "stop messaging me now", "Stop contacting me.", "stop contacting this number",
		"quit texting me", "Please quit messaging me, thanks", "stop sending me messages", "stop sending me these texts", "Stop sending texts",
		"stop sending me text messages please", "please stop the messages", "stop these texts", "Stop all messages", "stop texting this number",
		"stop texting my phone", "Stop bothering me", "stop spamming me", "quit harassing me", "Stop spamming me with messages",
		"don't text me anymore", "Do not text me again", "dont message me", "Don’t contact me", "please do not contact me again", "never text me again",
		"Don't ever text me again", "do not send me any more messages", "Don't send me texts", "please don't send any more texts", "no more texts",
		"No more messages please", "I don't want any more texts", "I do not want to receive messages from you", "i dont want these messages",
		"I don't want to get texts from this number", "I no longer want to receive these messages", "no longer wish to receive texts",
		"I don't want to be texted", "I don't want you to text me", "I don't want to be contacted anymore", "take me off your list",
		"Please take me off this list", "take me off the texting list", "remove me from your list", "Remove my number from your list",
		"please remove my number", "remove me from this", "Please delete my number", "unsubscribe me from this list", "Unsubscribe from these texts",
		"unsubscribe from all messages", "opt me out of these messages", "I want to unsubscribe", "I'd like to opt out", "I would like to opt out of these texts please",
		"I want to be removed from your list", "I want to be taken off the list", "I revoke my consent", "I withdraw consent",
		"I hereby revoke my consent", "cancel my subscription", "cancel these texts", "Hi. Please stop texting me. Thanks",
		"I don't know who you are. Stop texting me.", "stop texting me and remove me from your list", "Stop texting me because I already signed up",
		"No, stop texting me", "ok stop sending me stuff", "Stop texting me!!! 😡", "Sorry, please stop messaging me", "stop texting me ever again",
		"you need to stop texting me", "for the last time stop texting me", "get me off this list", "ＳＴＯＰ ＴＥＸＴＩＮＧ ＭＥ please now", "Stop with the texts",
		"cease and desist", "I'd like to stop receiving texts", "I want to stop receiving messages", "stop fucking texting me", "stop the fucking texts",
		"UNSUBSCRIBE ALL", "I do not consent to these messages", "you don't have my consent", "You do not have my permission to text me", "cancel subscription",
		"cancel texts", "cancel my texts", "cancel messages", "opt out of all messages", "opt out now", "end texts", "End all texts", "revoke my consent",
		"I revoke my permission to text me", "I revoke consent to receive texts", "I withdraw my consent to be contacted", "I don't want to hear from you",
	},
	unclear: []string{
		"stop it", "Stop it!", "please stop it", "stop this", "Stop that now", "STOP ALREADY", "ok stop", "stop now", "leave me alone", "please leave me alone",
		"this is annoying leave me alone maybe", "this is annoying", "You're so annoying", "This is spam", "these texts are spam", "this is harassment",
		"lose my number", "wrong number", "Sorry, wrong number", "you have the wrong person", "not interested", "I'm not interested", "Not interested, thanks",
		"I am no longer interested", "go away", "fuck off", "enough", "enough already", "shut up", "how do I unsubscribe?", "How do I stop these texts",
		"how can i opt out", "where do I cancel this", "Don't text me, I'm driving", "don't text me before 9am", "Stop texting me so early",
		"stop texting me while I'm at work", "please stop texting me until tomorrow", "stop texting me lol", "haha stop texting me", "Stop texting me about work stuff",
		"why won't this thing quit, I told it to stop texting me", "im going to report you", "I will block you", "Reporting this as spam", "I never signed up for this",
		"is this on the do not call list", "it's Ana stop texting me", "I don't want any more texts about this", "TCPA", "who is this? stop it", "cut it out",
		"Could you stop texting me at night", "don't text me, call me instead", "im blocking this number", "the person before me said stop texting me",
		"unsubscribe from reminders", "Unsubscribe me from the reminders please", "opt out of reminders", "opt me out of your tips", "take me off the reminders",
		"stop reminder texts", "Stop sending me reminder messages!", "no more reminder texts", "I don't want tip messages", "turn off reminder notifications",
		"stop texts until tomorrow", "no more messages tonight please",
		"stop texting me reminders", "stop reminding me", "Please stop reminding me, thanks", "stop sending me reminders",
		"STPO", "stpo texting me", //nolint:misspell // they are meant to be
		"Reply STOP", "STOPP", "SOTP", "STOO", "S T O P", "st op", "🛑", "STOP -John", "STOP or I'll sue", "STOP 2 STOP", "Nah stop", "I asked you to stop",
		"stop everything", "stop sending", "stop textin me", "plz stop texing me", "dont texr me", "do not text", "make it stop", "no more",
		"please no more of this", "I don't want this", "I no longer wish to receive these", "unsub", "unsuscribe", "unsubcribe", "cancell", "cancel all",
		"I do not consent", "I never gave you permission", "you are not authorized to text me", "turn off messages", "I am on the DNC registry", "not me",
		"this is not Ana, she doesn't have this number anymore", "This isn't Ana", "I'm not Ana", "this is not Ana's number", "nobody by that name here", "Wrong #",
		"stop sending reminders and everything else", "delete my data", "please delete all my data", "GDPR", "I object to processing of my data", "remove",
		"remove from list", "take my number off", "forget me", "discontinue", "blocked", "I quit", "stop typos", "don't bother me",
	},
	nothing: []string{
		"no", "not now", "I can't stop smiling", "quit my job", "I quit my job last week", "Don't stop texting me", "please don't stop messaging me!",
		"he won't stop texting me", "my ex wouldn't stop texting me", "she can't stop laughing", "I can't stop thinking about it", "nonstop", "bus stop", "I'm at the bus stop",
		"next stop is mine", "I stopped by yesterday", "I need to stop texting while driving", "I want to stop smoking", "Trying to stop drinking", "stop and think",
		"I had to stop the car", "the rain won't stop", "we stopped for lunch", "one stop shop", "cancel my 3pm meeting", "I had to cancel my flight",
		"cancel the order please", "in the end it was fine", "at the end of the day", "the end", "weekend", "I unsubscribed from Netflix", "I had to unsubscribe from Netflix",
		"I decided to opt out of school", "I removed the app", "remove the cover first", "take me to your leader", "I quit smoking two years ago", "never quit",
		"never give up", "I don't want to talk about it", "I don't want to go", "I don't want that", "I don't know", "don't worry", "do not worry about me", "dont know yet",
		"no thanks", "no thank you", "nope", "nah", "later", "maybe later", "not today", "not yet", "I'm busy", "I'm driving, talk later", "text me later",
		"Text me tomorrow", "message me at 5", "can you text me in the morning?", "I'll text you", "ok", "yes", "Yes please", "sure thing", "sounds good!",
		"who is this?", "What is this about?", "how does it work?", "how do I start?", "help me understand", "I need help with my resume", "I'm a lawyer",
		"My boss is annoying", "traffic was annoying today", "I work in spam detection", "I report to the CFO", "writer's block", "I live on the next block",
		"my phone number is 415 555 0100", "I changed my number", "I got your message", "I love these messages", "thanks for the texts", "I'm interested",
		"very interested!", "I am not sure", "I have enough experience", "good enough", "that's enough for a start, thanks for asking about me",
		"I am the right person", "I would like to end poverty", "I end work at 6", "quitting time is 5", "stop motion films", "I made a stop in Rio", "let me stop you there",
		"I stop working at 6", "My goal is to stop procrastinating", "I revoke nothing", "I consent", "I want to cancel out the noise", "delete", "delete my last answer",
		"I don't want my kids to text", "someone keeps messaging my mother", "", "   ", "👍", "!!!",
		"stop reminders", "no more tips", "stop reminding me of my ex", "don't stop the reminder texts", "I got no reminder text today", "thanks for the reminder message",
		"set a reminder for 5pm", "cancel the reminder", "I turned off reminder notifications on my phone",
		"call me at five", "call me at 5", "don't call now please", "I'm not ready", "I'm not sure yet", "this is not a good time", "This is not working", "I'm not home",
		"I'm not near my phone", "this number works", "Is this number right?", "I don't have my phone with me", "I'll stop by at 5", "stop by at 5", "stop at the store",
		"the train stops at 5", "stop eating sugar", "I'd like to stop procrastinating", "cancel my appointment", "I had to cancel my appointment", "my flight was cancelled",
		"remove the second one", "I agree", "do I need permission?", "I quit my job today", "end of day", "block my calendar", "I contacted them already", "I don't want to",
		"I don't get it", "no more questions", "done", "I'm done", "skip", "next", "shop", "step", "top", "quite", "quiet", "stop sign", "I got your text", "I didn't get your message",
		"I forgot my account password", "update my profile", "remind me to cancel my subscription", "remind me to stop by the bank", "set a reminder to cancel gym", "This is Ana",
		"I no longer work there", "nobody called me", "wrong link", "some", "I removed it already", "turn it off", "how did you get my number",
	},
}

var portuguese = sayings{
	clear: []string{
		"não quero mais receber", "Não quero mais receber mensagens", "nao quero mais receber msgs", "eu não quero mais receber isso", "não quero receber mais nada",
		"Não quero receber mensagens de vocês", "não desejo mais receber mensagens", "não quero mais receber suas mensagens", "n quero mais receber mensagem",
		"não quero mais mensagens", "Não quero mais essas mensagens", "não quero receber isso", "não quero mais receber nada de vocês", "não gostaria mais de receber mensagens",
		"por favor não quero mais receber", "Não quero mais receber, obrigada", "pare de me mandar mensagem", "Pare de me enviar mensagens", "para de me mandar mensagem",
		"para de mandar mensagem", "parem de me mandar mensagens", "parem de enviar mensagens por favor", "pare de enviar sms", "Pare de mandar mensagens para mim",
		"para de mandar msg pra mim", "pare de me mandar isso", "Pode parar de me mandar mensagem?", "vocês podem parar de me mandar mensagens", "por favor pare de me escrever",
		"pare de me contatar", "pare de me incomodar", "parem de me perturbar", "para de me mandar msg agora", "pare com as mensagens", "parem com essas mensagens",
		"chega de mensagens", "Chega de mensagem!", "basta de mensagens", "não me mande mais mensagens", "não me mande mais mensagem por favor", "Não me envie mais mensagens",
		"não me enviem mais nada", "não mande mais mensagens", "nao mandem mais msg", "não me manda mais mensagem", "não me mande mais nada", "Não me mandem mais",
		"não me escreva mais", "não me contate mais", "Não me contatem", "não me perturbe", "não me incomode mais", "me tire da lista", "me tira dessa lista",
		"Me tirem dessa lista", "tire meu número da lista", "remova meu número", "remova o meu número da sua lista", "me remova da lista", "me remova dessa lista por favor",
		"retire meu número da sua lista", "exclua meu número", "apague meu contato", "exclua meu cadastro", "me descadastre dessa lista", "quero me descadastrar",
		"quero sair da lista", "Quero sair dessa lista", "quero parar de receber mensagens", "Gostaria de parar de receber mensagens", "quero parar de receber",
		"desejo parar de receber essas mensagens", "quero cancelar as mensagens", "quero cancelar minha inscrição", "cancele minha inscrição", "cancela o envio de mensagens",
		"quero cancelar meu cadastro", "quero deixar de receber mensagens", "revogo meu consentimento", "Retiro o meu consentimento", "não autorizo mais mensagens",
		"Oi, não quero mais receber. Obrigado", "Bom dia. Por favor, me tire da lista.", "não aceito receber mensagens", "nada de mais mensagens",
		"Não sei quem é. Pare de me mandar mensagem.", "nunca mais me mande mensagem",
		"não entre mais em contato", "Não entrem mais em contato comigo", "favor não entrar mais em contato", "sair da lista", "descadastra", "cancelar mensagens",
		"gostaria de não receber mais mensagens",
	},
	unclear: []string{
		"para", "Para!", "para com isso", "pare com isso por favor", "me deixa em paz", "Me deixe em paz", "chega", "Chega!", "já chega", "basta", "não quero mais",
		"não quero mais isso", "não tenho interesse", "Não tenho interesse, obrigado", "sem interesse", "não estou interessada", "não me interessa", "número errado",
		"Desculpa, número errado", "vocês erraram o número", "isso é spam", "Vocês são muito chatos", "isso tá chato", "essas mensagens são irritantes", "isso é golpe",
		"vou bloquear", "vou te bloquear", "vou denunciar", "me esquece", "some daqui", "não enche", "vai embora", "quero sair", "quero cancelar", "Quero cancelar isso",
		"como faço para cancelar?", "como faço para sair da lista", "Como posso parar de receber", "como faço pra me descadastrar", "não me mande mensagem agora, estou dirigindo",
		"não me mande mais mensagens até amanhã", "pare de me mandar mensagem tão cedo", "pare de me mandar mensagem kkkk", "não quero mais receber mensagens de trabalho",
		"não quero mais receber esse tipo de coisa", "não me cadastrei em nada", "não autorizei isso", "vou processar vocês", "spam", "Não me mande mensagens tarde da noite",
		"meu marido disse para parar de me mandar mensagem", "talvez eu queira parar de receber mensagens",
		"sair dos lembretes", "quero sair das dicas", "me descadastre dos lembretes", "quero me desinscrever dos lembretes", "cancelar minha inscrição nos lembretes",
		"me tira da lista de lembretes", "parar mensagens de lembrete", "chega de mensagens com dicas", "não quero mais mensagens de lembretes", "para de me lembrar",
		"exclua meus dados", "Quero que apaguem meus dados", "quero excluir meus dados", "LGPD", "cancela", "cancelar tudo", "pode cancelar", "como cancelo", "me exclua", "me remove",
		"me tira daqui", "não autorizo", "não autorizo o uso dos meus dados", "não dei permissão", "é engano", "foi engano", "Não sou a Ana", "não sou a ana", "essa não é a Ana",
		"aqui não é a Ana", "esse número não é da Ana", "não conheço nenhuma Ana", "sair agora", "sair daqui", "SAIR DESSA MERDA", "como sair", "descadastre-me", "desinscreva",
		"não envie mais", "nao qro mais receber msg", "deixa eu em paz", "remover meu número", "bloqueia meu numero", "desativar mensagens", "paarar", "dá pra parar", "não perturbe",
		"inscrição cancelar",
	},
	nothing: []string{
		"não", "Não agora", "agora não", "parei de trabalhar", "Parei de fumar", "quero parar de fumar", "não consigo parar de rir", "não para de chover", "não pare de me mandar mensagens",
		"ele não para de me mandar mensagem", "nunca pare de sonhar", "vou sair hoje", "vou sair com amigos", "quero sair com você", "saí do trabalho", "sair cedo é bom",
		"preciso cancelar uma consulta", "quero cancelar o pedido", "cancelei a viagem", "não quero", "Não quero agora", "não quero falar disso", "não quero ir", "não sei",
		"não tenho certeza", "tenho interesse", "Tenho muito interesse", "estou interessada", "me interessa muito", "depois", "mais tarde", "amanhã", "hoje não", "talvez", "ainda não",
		"sim", "Sim!", "claro", "com certeza", "pode mandar", "pode enviar", "manda", "me manda mais", "mande mais mensagens", "me mande mensagem amanhã", "me escreve depois",
		"recebi sua mensagem", "adorei as mensagens", "obrigado pelas mensagens", "quero receber mensagens", "quero receber mais", "como funciona?", "como faço para começar?",
		"quem é?", "quem está falando?", "o que é isso?", "para mim está ótimo", "para quê?", "vou para casa", "para começar", "parado no trânsito", "a parada do ônibus",
		"ponto de parada", "meu chefe é chato", "o trânsito estava chato", "trabalho com remoção", "mudei de número", "meu número é 11 98765 4321", "número certo", "é esse número mesmo",
		"chega amanhã", "ela chega às 8", "cheguei", "o pacote chega hoje", "basta clicar?", "no fim do dia", "fim", "encerrei o expediente", "vou encerrar a reunião", "trabalho até tarde",
		"estou em reunião", "estou dirigindo", "me liga", "não posso falar agora", "não posso agora", "não precisa", "não obrigado", "Não, obrigada", "tudo bem", "beleza", "ok",
		"sou advogada", "processo seletivo", "vou processar a informação", "quero denunciar um crime na minha rua", "vendi meu carro", "não recebo visitas", "não quero receber visitas hoje",
		"tire a foto", "me tira uma dúvida", "me tire uma dúvida", "remova a tampa", "apague a luz", "exclua a última resposta", "sem problema", "nada de mais",
		"parar lembretes", "sem dicas", "vou sair hoje, sem lembretes", "uso o celular para mensagens de lembrete", "obrigado pela mensagem com dicas", "me lembre amanhã",
		"pare de me lembrar do meu ex", "tirei uma dica do livro",
		"me liga às cinco", "pode me ligar", "não sou daqui", "não tenho tempo", "não tenho o contato dele", "não recebi a mensagem", "ainda não recebi nada", "preciso sair agora",
		"vou parar no mercado", "parar de fumar", "cancelar minha consulta", "mandei por engano", "se não me engano", "remove o segundo", "esqueci meu telefone", "esse número é meu",
		"meu número não mudou", "não é a hora", "aqui não é frio", "não concordo", "autorizo", "entro em contato", "lembre-me de cancelar a academia", "me lembra de sair às 5",
		"cair", "pagar", "não me ligue agora", "encerrei",
	},
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	for name, language := range map[string]struct {
		sayings sayings
		locale  consent.Locale
	}{
		"English": {english, consent.English}, "Portuguese": {portuguese, consent.Portuguese},
	} {
		total := 0
		for want, bodies := range map[consent.Wish][]string{
			consent.Clear: language.sayings.clear, consent.Unclear: language.sayings.unclear, consent.NoWish: language.sayings.nothing,
		} {
			total += len(bodies)
			for _, body := range bodies {
				t.Run(name+"/"+body, func(t *testing.T) {
					t.Parallel()
					got, locale := consent.Revocation(body)
					require.Equal(t, want, got)
					if want != consent.NoWish {
						require.Equal(t, language.locale, locale)
					}
				})
			}
		}
		require.GreaterOrEqual(t, total, 200)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	off := consent.Preferences{Reminders: consent.Off, Locale: consent.English}
	tests := []struct {
		name       string
		body       string
		optOutType string
		current    consent.State
		want       consent.Reading
	}{
		{
			name: "S0_40_KeywordThatTwilioKnows", body: " Stop ", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English, Carrier: consent.Blocks},
		},
		{
			name: "S0_40_KeywordThatTwilioDoesNotKnow", body: "PARAR", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.Portuguese},
		},
		{
			name: "TwilioReadsTheBareWordOnly", body: "Stop.", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English},
		},
		{
			name: "TwiliosReadingWinsOverTheWords", body: "please stop texting me", optOutType: "HELP", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Help, Locale: consent.English, Carrier: consent.Helps},
		},
		{
			name: "TwiliosSTOPInItsOwnWords", body: "arret", optOutType: "STOP", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English, Carrier: consent.Blocks},
		},
		{
			name: "TwiliosSTARTInItsOwnWords", body: "allons", optOutType: "START", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "KeywordBeforeRules", body: "stop texting me", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English},
		},
		{
			name: "ClearRevocation", body: "não quero mais receber", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Rules: consent.RulesVersion, Locale: consent.Portuguese},
		},
		{
			name: "ClearRevocationOfAPersonWhoIsOut", body: "please stop texting me already", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptOut, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{
			name: "DoubtfulRevocation", body: "stop it", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Ambiguous, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{
			name: "DoubtAboutAPersonWhoIsOutIsNone", body: "stop it", current: consent.OptedOut,
			want: consent.Reading{Locale: consent.English},
		},
		{
			name: "YESLiftsTwiliosBlockEvenWhereItIsAnAnswer", body: "Yes", current: consent.OptedIn,
			want: consent.Reading{Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "START", body: "start", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "UNSTOP", body: "UNSTOP", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "VoltarLiftsOursOnly", body: "voltar", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: consent.Portuguese},
		},
		{
			name: "HELPIsTwilios", body: "info", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Help, Locale: consent.English, Carrier: consent.Helps},
		},
		{
			name: "AJUDAIsOurs", body: "Ajuda!", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Help, Locale: consent.Portuguese},
		},
		{
			name: "OneLanguageForTheKeywordAndAnotherForTheCourtesy", body: "stop, por favor", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.Portuguese},
		},
		{
			name: "PreferenceThatWasAnOrdinaryText", body: "stop reminders", current: consent.OptedIn,
			want: consent.Reading{Locale: consent.English, Preferences: off},
		},
		{
			name: "PreferenceThatWasAmbiguous", body: "Stop sending me reminders", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Ambiguous, Rules: consent.RulesVersion, Locale: consent.English, Preferences: off},
		},
		{
			name: "PreferenceOfAPersonWhoIsOut", body: "parar dicas", current: consent.OptedOut,
			want: consent.Reading{Locale: consent.English, Preferences: consent.Preferences{Tips: consent.Off, Locale: consent.Portuguese}},
		},
		{
			name: "TwiliosReadingBeforeAPreference", body: "stop reminders", optOutType: "STOP", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English, Carrier: consent.Blocks},
		},
		{
			name: "ClearRevocationBeforeAPreference", body: "Stop texting me. No more reminders.", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{
			name: "WordsOfConsentAboutRemindersAreForAnOperator", body: "unsubscribe from reminders", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Ambiguous, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{name: "OrdinaryText", body: "I can't stop smiling", current: consent.OptedIn, want: consent.Reading{Locale: consent.English}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, consent.Read(tt.body, tt.optOutType, tt.current))
		})
	}
}

// For every message: a keyword keeps its effect, decoration changes nothing, and the same words are read the same twice.
func FuzzRevocation(f *testing.F) {
	for _, language := range []sayings{english, portuguese} {
		for _, bodies := range [][]string{language.clear[:6], language.unclear[:6], language.nothing[:6]} {
			for _, body := range bodies {
				f.Add(body)
			}
		}
	}
	for _, seed := range []string{"STOP", "ajuda", "don't don't", "n't", "t", "…—", "stop\x00texting\xffme", "s t\u0303o p 🛑", "I'm not Ana\u0303.", strings.Repeat("stop texting ", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		wish, locale := consent.Revocation(body)
		again, _ := consent.Revocation("\t🙂 " + body + " 👍!! ")
		require.Equal(t, wish, again, "decoration changes nothing")
		for _, current := range []consent.State{"", consent.OptedIn, consent.OptedOut} {
			keyword, read := consent.Classify(body, current), consent.Read(body, "", current)
			if keyword != consent.None {
				require.Equal(t, keyword, read.Effect, "the keywords come first")
				require.Empty(t, read.Rules)
				continue
			}
			switch {
			case wish == consent.Clear:
				require.Equal(t, consent.OptOut, read.Effect)
			case wish == consent.Unclear && current != consent.OptedOut:
				require.Equal(t, consent.Ambiguous, read.Effect)
			default:
				require.Equal(t, consent.None, read.Effect)
			}
			require.Equal(t, read.Effect != consent.None, read.Rules != "")
			if wish != consent.NoWish {
				require.Equal(t, locale == consent.Portuguese, consent.Read(body, "", consent.OptedIn).Locale == consent.Portuguese)
			}
		}
		if wish == consent.Clear {
			softer, _ := consent.Revocation(body + " until tomorrow")
			require.Equal(t, consent.Unclear, softer, "a clear word with a time is doubtful, and never lost")
		}
	})
}
