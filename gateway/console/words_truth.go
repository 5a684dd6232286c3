package console

// wordsOfTruth are what the pages say of why, of what came of a deed, and of what a service's text leads to.
func wordsOfTruth() glossary {
	return glossary{
		"why.held": {"On hold", "Retida"}, "why.waiting": {"usual wait", "espera normal"}, "why.waits": {"Waits for:", "Espera por:"},
		"why.later": {"counts for later texts only", "vale só para textos seguintes"},

		"outcome.sent": {"The text would be sent now", "O texto seria enviado agora"}, "outcome.opened": {"An activation would open a session now", "Uma ativação abriria uma sessão agora"},
		"outcome.started": {"The goal would start now", "O lembrete começaria agora"}, "outcome.stale": {"Waiting for the person's reply", "Esperando a resposta da pessoa"},
		"outcome.paused": {"Waiting: the person asked for later", "Esperando: a pessoa pediu para depois"}, "outcome.not_due": {"Waiting for its time", "Esperando a hora"},
		"outcome.early": {"Waiting for its time", "Esperando a hora"}, "outcome.quiet_hours": {"Waiting for the end of quiet hours", "Esperando o fim do horário de silêncio"},
		"outcome.awaiting_delivery": {"Waiting for the delivery of the text before", "Esperando a entrega do texto anterior"}, "outcome.already_sent": {"Twilio has this text already", "A Twilio já tem este texto"},
		"outcome.already_accepted": {"Twilio has this text", "A Twilio tem este texto"}, "outcome.received": {"A text from the person", "Um texto da pessoa"},
		"outcome.in_flight": {"Being sent now", "Sendo enviado agora"}, "outcome.unknown": {"In doubt: whether Twilio has the text is not known", "Em dúvida: não se sabe se a Twilio tem o texto"},
		"outcome.throttled": {"Throttled: Twilio did not take the text, it is tried again", "Limitado: a Twilio não aceitou o texto, haverá nova tentativa"},
		"outcome.rejected":  {"Refused by Twilio", "Recusado pela Twilio"}, "outcome.parked": {"In doubt: an operator has to resolve the text", "Em dúvida: um operador precisa resolver o texto"},
		"outcome.given_up": {"Given up by an operator", "Desistido por um operador"}, "outcome.opted_out": {"The person has opted out", "A pessoa optou por sair"},
		"outcome.safety_hold": {"On hold", "Retida"}, "outcome.held": {"On hold", "Retida"}, "outcome.reminders_off": {"The person wants no reminders", "A pessoa não quer lembretes"},
		"outcome.scheduling_paused": {"Scheduling is switched off", "O agendamento está desligado"}, "outcome.session_inactive": {"The session is not active", "A sessão não está ativa"},
		"outcome.session_parked": {"The session is parked", "A sessão está estacionada"}, "outcome.no_sender": {"The organisation has no number", "A organização não tem número"},
		"outcome.key_reused": {"The key was used for another text", "A chave foi usada para outro texto"}, "outcome.awaits_operator": {"Words of the person wait for an operator", "Palavras da pessoa esperam por um operador"},
		"outcome.consent_record_required": {"A consent record is required", "É preciso um registro de consentimento"}, "outcome.offline": {"The device is not connected", "O dispositivo não está conectado"},
		"outcome.busy": {"The device is busy", "O dispositivo está ocupado"}, "outcome.scheduled": {"Scheduled", "Agendado"}, "outcome.running": {"Running", "Em execução"},
		"outcome.completed": {"Completed", "Concluído"}, "outcome.cancelled": {"Cancelled", "Cancelado"}, "outcome.failed": {"Failed", "Falhou"},

		"gate.stopped.send.attempt":   {"Our text has not reached the person", "Nosso texto não chegou à pessoa"},
		"gate.stopped.send.delivered": {"Our text did not reach the person", "Nosso texto não chegou à pessoa"},
		"gate.stopped.send.backoff":   {"Our text has not reached the person yet", "Nosso texto ainda não chegou à pessoa"},
		"gate.stopped.send.consent":   {"The person has opted out", "A pessoa optou por sair"},
		"gate.stopped.send.sender":    {"The organisation has no number", "A organização não tem número"},
		"gate.stopped.send.key":       {"The key was used for another text", "A chave foi usada para outro texto"},
		"gate.stopped.pause":          {"The person asked for later", "A pessoa pediu para depois"},
		"gate.stopped.not_accepted":   {"Not delivered", "Não entregue"},
		"gate.stopped.send.reminders": {"The person wants no reminders", "A pessoa não quer lembretes"},
		"gate.stopped.device":         {"The device is not connected", "O dispositivo não está conectado"},
		"gate.stopped.consent":        {"The person has opted out", "A pessoa optou por sair"},
		"gate.stopped.scheduling":     {"Scheduling is switched off", "O agendamento está desligado"},

		"came_of.parked":         {"Resumed, and parked again at once: %s", "Retomada, e estacionada de novo na hora: %s"},
		"came_of.unresolved":     {"Resumed, but it will be parked again, because of its text: %s. First: %s. Then resume again.", "Retomada, mas será estacionada de novo por causa do texto: %s. Primeiro: %s. Depois retome de novo."},
		"came_of.resumed":        {"Resumed. %s", "Retomada. %s"},
		"evidence.resolved.then": {"Resolved. Now %s, which waits for it.", "Resolvido. Agora %s, que espera por ele."}, "evidence.resolved.alone": {"Resolved. No session waits for it.", "Resolvido. Nenhuma sessão espera por ele."},

		"timeline.unsent": {"not sent any more:", "não será enviada:"}, "timeline.mended": {"mended since", "já resolvido"}, "timeline.resolved": {"the text was resolved", "o texto foi resolvido"},
		"message.again":     {"is sent again once its session is resumed", "será enviada de novo quando a sessão for retomada"},
		"timeline.taken_up": {"their reply, which was kept, is taken up", "a resposta guardada é retomada"}, "person.by_operator": {"by an operator", "por um operador"},
		"bubble.lost": {"did not reach them", "não chegou"}, "bubble.doubtful": {"may not have reached them", "talvez não tenha chegado"},
		"token.onboarding:awaiting_opening_response":     {"waits for a reply to the opening", "espera resposta à abertura"},
		"token.onboarding:awaiting_explanation_response": {"waits for a reply to the explanation", "espera resposta à explicação"},
		"token.onboarding:awaiting_burst":                {"gets the messages in a row", "recebe a sequência de mensagens"},
		"token.onboarding:awaiting_interview_start":      {"waits for a reply to the last message", "espera resposta à última mensagem"},
		"token.interview:activity_01":                    {"onboarding is over, the host application goes on", "a integração acabou, o aplicativo continua"},
		"step.onboarding_message_1":                      {"first message", "primeira mensagem"}, "step.onboarding_message_2": {"second message", "segunda mensagem"},
		"step.onboarding_message_3": {"third message", "terceira mensagem"}, "step.onboarding_message_4": {"fourth message", "quarta mensagem"},
		"detail.ONBOARDING_OPENING": {"the opening", "a abertura"}, "detail.ONBOARDING_EXPLANATION": {"the explanation", "a explicação"}, "detail.ONBOARDING_LATER": {"the answer to later", "a resposta ao pedido de depois"},
		"detail.ONBOARDING_MESSAGE_1": {"the first message", "a primeira mensagem"}, "detail.ONBOARDING_MESSAGE_2": {"the second message", "a segunda mensagem"},
		"detail.ONBOARDING_MESSAGE_3": {"the third message", "a terceira mensagem"}, "detail.ONBOARDING_MESSAGE_4": {"the fourth message", "a quarta mensagem"},

		"overview.in_doubt": {"for longer than a minute: the carrier gives no usable answer", "há mais de um minuto: a operadora não dá resposta utilizável"},

		"ref.person": {"the person's page", "a página da pessoa"}, "ref.release": {"release the person", "libere a pessoa"}, "ref.activate": {"activate the person", "ative a pessoa"},
		"ref.preferences": {"change the person's preferences", "mude as preferências da pessoa"}, "ref.session": {"this session", "esta sessão"}, "ref.resume": {"resume the session", "retome a sessão"},
		"ref.reset": {"reset the session", "reinicie a sessão"}, "ref.message": {"this text", "este texto"}, "ref.evidence": {"what is known of the text", "o que se sabe do texto"},
		"ref.resolve": {"resolve the text", "resolva o texto"}, "ref.not_sent": {"(“Twilio does not have it”)", "(“A Twilio não tem”)"},
		"ref.goal": {"this goal", "este lembrete"}, "ref.reschedule": {"move the goal", "mude a hora do lembrete"}, "ref.unschedule": {"cancel the goal", "cancele o lembrete"},
		"ref.outreach": {"cancel the outreach", "cancele o engajamento"}, "ref.outbound": {"cancel the text of the queue", "cancele o texto da fila"},
	}
}
