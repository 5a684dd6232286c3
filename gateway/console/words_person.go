package console

// wordsOfPerson are those of the person's page that came after wordsOfPeople.
func wordsOfPerson() glossary {
	return glossary{
		"person.lost": {"The newest text:", "O texto mais novo:"}, "person.sessions": {"Sessions, the newest first", "Sessões, a mais nova primeiro"},
		"person.kept": {"Kept back:", "Retido:"}, "person.kept.due": {"its time:", "a hora:"},
		"person.stop": {"Opted out at", "Optou por sair em"}, "person.stop.none": {"No text had gone", "Nenhum texto tinha ido"},
		"person.stop.last": {"The last text went at", "O último texto foi em"}, "person.stop.none_after": {"none after", "nenhum depois"},
		"person.stop.after":    {many("%d after", "%d after"), many("%d depois", "%d depois")},
		"person.stop.in_doubt": {many("of %d it is not known whether it went", "of %d it is not known whether they went"), many("de %d não se sabe se foi", "de %d não se sabe se foram")},
		"person.over":          {"Onboarding is over: the host application goes on from here. Nothing more comes from these steps.", "A integração acabou: o aplicativo que usa o Paceline continua daqui. Estas etapas não enviam mais nada."},
		"person.change":        {"Change number, name, language or zone", "Mudar número, nome, idioma ou fuso"},
		"person.change.what":   {"What is left empty stays. While a session is active the number stays: reset it first, then activate.", "O que ficar vazio permanece. Com uma sessão ativa o número permanece: reinicie-a antes, depois ative."},
		"person.change.done":   {"Changed.", "Mudado."},

		"bubble.went": {"sent at", "enviado em"}, "bubble.came": {"came at", "chegou em"}, "bubble.arrived": {"delivered at", "entregue em"},
		"bubble.made": {"not sent; recorded at", "não enviado; registrado em"},

		"person.unread": {"This cannot be read now:", "Não dá para ler isto agora:"},
		"person.due":    {"Due in", "Na vez em"}, "person.late": {"Due, and late by", "Na vez, com atraso de"},
		"person.zone.guessed": {"a guess", "um palpite"},
		"person.times":        {"Times", "Horários"}, "person.times.mine": {"Times in your zone (%s)", "Horários no seu fuso (%s)"},
		"person.times.theirs": {"Times in theirs (%s)", "Horários no fuso da pessoa (%s)"},
		"person.consent":      {"Consent", "Consentimento"}, "person.broken": {"the ledger is not what was written", "o registro não é o que foi escrito"},
		"person.hold.no_reason": {"no reason was given", "nenhum motivo foi dado"},
		"person.legal_hold":     {"legal hold", "retenção legal"}, "person.legal_hold.what": {"their data is not erased", "os dados não são apagados"},
		"person.replay": {"Replay the step", "Repetir a etapa"},

		"person.engaged.never": {"has never written or done anything", "nunca escreveu nem fez nada"}, "person.last": {"last seen", "vista pela última vez em"},
		"person.tier": {"tier %d", "nível %d"}, "person.goodbye": {"the goodbye ends in", "a despedida termina em"}, "person.remind": {"reminded in", "lembrada em"},
		"person.skip": {"not written to now:", "não recebe nada agora:"}, "person.engagement.all": {"Engagement of all", "Engajamento de todas"},
		"engaged.one.active": {"active", "ativa"}, "engaged.one.goodbye_sent": {"asked whether to go on", "perguntada se continua"},
		"engaged.one.help_flow": {"started over with help", "recomeçou com ajuda"}, "engaged.one.remind_later": {"reminded later", "lembrada depois"}, "engaged.one.dormant": {"dormant", "adormecida"},
		"skip.no_sender": {"the organisation has no number", "a organização não tem número"}, "skip.opted_out": {"opted out", "optou por sair"}, "skip.held": {"on hold", "retida"},
		"skip.stopped": {"the session was stopped", "a sessão foi parada"}, "skip.parked": {"the session is parked", "a sessão está estacionada"}, "skip.closed": {"the session was closed", "a sessão foi encerrada"},
		"skip.onboarding": {"still in onboarding", "ainda na integração"}, "skip.reminders_off": {"reminders are off", "lembretes desligados"}, "skip.tips_off": {"tips are off", "dicas desligadas"},
		"sent.sent": {"sent", "enviado"}, "sent.rejected": {"refused by Twilio", "recusado pela Twilio"}, "sent.given_up": {"given up", "desistido"}, "sent.expired": {"too late", "tarde demais"},
		"sent.capped": {"too much in a day or a week", "demais em um dia ou uma semana"}, "sent.returned": {"the person came back", "a pessoa voltou"}, "sent.opted_out": {"opted out", "optou por sair"},
		"sent.reminders_off": {"reminders are off", "lembretes desligados"}, "sent.ineligible": {"not eligible any more", "não elegível mais"},

		"person.preferences":       {"Change preferences", "Mudar preferências"},
		"person.preferences.title": {"Preferences", "Preferências"},
		"person.preferences.what":  {"They hold from now on for messages that the person did not ask for, such as reminders and tips. Switching reminders off withdraws those that wait. Consent and STOP stay as they are. Reminders that the person switched off only the person switches on again.", "Valem a partir de agora para mensagens que a pessoa não pediu, como lembretes e dicas. Desligar os lembretes retira os que esperam. Consentimento e STOP ficam como estão. Lembretes que a pessoa desligou só ela liga de novo."},
		"person.preferences.done":  {"Preferences changed.", "Preferências mudadas."},
		"wish.reminders":           {"Reminders", "Lembretes"}, "wish.tips": {"Tips", "Dicas"}, "wish.destination": {"Goes to", "Vai para"},
		"wish.on": {"on", "ligado"}, "wish.off": {"off", "desligado"}, "wish.individual": {"the person", "a pessoa"}, "wish.group": {"all of their household", "todos da casa"},
		"wish.keep": {"no change (%s)", "sem mudança (%s)"},

		"person.goal":         {"Schedule a goal", "Agendar um compromisso"},
		"person.goal.what":    {"At its time it is sent to the person as a text, or to the device that you choose. The time is read in the person's language and zone (%s), and shown afterwards as it was understood.", "Na hora, é enviado à pessoa como texto, ou ao dispositivo que você escolher. O horário é lido no idioma e no fuso da pessoa (%s), e depois mostrado como foi entendido."},
		"person.goal.words":   {"What, and when", "O quê, e quando"},
		"person.goal.such":    {"water the plants tomorrow at 9am", "regar as plantas amanhã às 9h"},
		"person.goal.where":   {"Where", "Onde"},
		"person.goal.offline": {"offline", "offline"},
		"person.goal.done":    {"Scheduled: %s.", "Agendado: %s."}, "person.goal.now": {"Scheduled for now.", "Agendado para agora."}, "person.goal.again": {"It is scheduled already; nothing was added.", "Já está agendado; nada foi acrescentado."},
		"person.goals.all": {"All goals of this person", "Todos os compromissos desta pessoa"},
		"why.goals":        {"Where this goal stands, and what comes next", "Como está este compromisso, e o que vem depois"},
	}
}
