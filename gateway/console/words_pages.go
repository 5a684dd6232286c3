package console

func wordsOfLayout() glossary {
	return glossary{
		"layout.skip": {"Skip to the page", "Ir para a página"}, "layout.pages": {"Pages", "Páginas"}, "layout.out": {"Sign out", "Sair"},
		"layout.language": {"Language", "Idioma"}, "layout.zone": {"Time zone", "Fuso horário"}, "layout.choose": {"Use", "Usar"},
		"layout.refused": {"Not done:", "Não feito:"},
		"error.title":    {"That did not work", "Não funcionou"}, "error.back": {"Back to the overview", "Voltar à visão geral"},
		"status.active": {"active", "ativa"}, "status.stopped": {"stopped by STOP", "parada por STOP"}, "status.closed": {"closed", "encerrada"},
		"status.stuck": {"stuck: needs an operator", "presa: precisa de um operador"}, "status.undeliverable": {"undeliverable", "não entregável"},
		"status.none": {"not activated", "não ativada"}, "status.parked": {"parked (stuck or undeliverable)", "estacionada (presa ou não entregável)"},
		"message.accepted": {"taken by Twilio", "aceita pela Twilio"}, "message.queued": {"queued at Twilio", "na fila da Twilio"},
		"message.sent": {"sent", "enviada"}, "message.delivered": {"delivered", "entregue"}, "message.undelivered": {"not delivered", "não entregue"},
		"message.failed": {"failed", "falhou"}, "message.received": {"received", "recebida"}, "message.sending": {"being sent", "sendo enviada"},
		"message.unknown": {"in doubt", "em dúvida"}, "message.parked": {"in doubt: needs an operator", "em dúvida: precisa de um operador"},
		"message.rejected": {"refused", "recusada"}, "message.throttled": {"throttled, comes later", "limitada, virá depois"},
		"message.given_up":   {"given up", "desistida"},
		"timeline.activated": {"activated", "ativada"}, "timeline.sent": {"sent", "enviada"}, "timeline.replied": {"replied", "respondeu"},
		"timeline.held": {"held", "retida"}, "timeline.advanced": {"advanced", "avançou"}, "timeline.paused": {"paused", "pausada"},
		"timeline.stopped": {"stopped", "parada"}, "timeline.parked": {"parked", "estacionada"}, "timeline.resumed": {"resumed", "retomada"},
		"timeline.closed": {"closed", "encerrada"}, "timeline.failed": {"failed", "falhou"}, "timeline.replayed": {"replayed", "repetida"},
		"timeline.released": {"released", "liberada"}, "timeline.waiting": {"waiting", "esperando"},
		"timeline.forgotten": {"deleted", "apagada"},
		"queue.webhook_jobs": {"webhook jobs", "tarefas de webhook"}, "queue.engagement_outreach": {"outreach", "engajamento"},
		"queue.event_deliveries": {"deliveries of events", "entregas de eventos"}, "queue.sms_outbound_jobs": {"texts to send", "textos a enviar"},
	}
}

func wordsOfSignIn() glossary {
	return glossary{
		"signin.title": {"Sign in", "Entrar"}, "signin.enter": {"Sign in", "Entrar"}, "signin.out": {"You are signed out.", "Você saiu."},
		"signin.token": {"Operator token", "Token de operador"}, "signin.token.how": {"It is what an operator calls the API with, and it lives an hour. To make one:", "É com ele que um operador chama a API, e vale por uma hora. Para criar um:"},
		"signin.token.none":       {"Paste a token.", "Cole um token."},
		"signin.token.refused":    {"This token is not accepted: it is malformed, over, or of another key.", "Este token não é aceito: está malformado, vencido ou é de outra chave."},
		"signin.token.role":       {"This token is of an app. Sign in with an operator's or a person's own.", "Este token é de um aplicativo. Entre com o de um operador ou o da própria pessoa."},
		"signin.refused":          {"You could not be signed in. Try again.", "Não foi possível entrar. Tente de novo."},
		"signin.too_many":         {"Too many attempts. Wait a little.", "Tentativas demais. Espere um pouco."},
		"signin.provider":         {"Sign in with your organisation", "Entrar com a sua organização"},
		"signin.provider.away":    {"The provider does not answer. Try again, or sign in with a token.", "O provedor não responde. Tente de novo ou entre com um token."},
		"signin.provider.refused": {"The provider refused.", "O provedor recusou."},
		"signin.provider.token":   {"What the provider says cannot be trusted. Tell who runs Paceline.", "Não dá para confiar no que o provedor diz. Avise quem opera o Paceline."},
		"signin.claim.missing":    {"The provider says nothing usable in the claim %s. Tell who runs it.", "O provedor não diz nada utilizável na claim %s. Avise quem o opera."},
		"signin.claim.role":       {"The claim %s does not make you an operator.", "A claim %s não faz de você um operador."},
		"signin.flow.lost":        {"The visit to the provider took too long, or began in another browser. Try again.", "A visita ao provedor demorou demais ou começou em outro navegador. Tente de novo."},
		"signin.link.ready":       {"This link signs in once, at this machine's Paceline.", "Este link entra uma vez, no Paceline desta máquina."},
		"signin.link.enter":       {"Open the console", "Abrir o console"},
		"signin.link.over":        {"This link was used, or is over.", "Este link já foi usado ou venceu."},
		"signin.link.how":         {"For a new link run", "Para um novo link, rode"},
	}
}

func wordsOfOverview() glossary {
	return glossary{
		"overview.title": {"Overview", "Visão geral"}, "overview.needs": {"Needs you", "Precisa de você"},
		"overview.nothing": {"Nothing needs you.", "Nada precisa de você."}, "overview.processes": {"Processes", "Processos"},
		"overview.scheduling": {"steps are scheduled", "as etapas são agendadas"},
		"overview.paused":     {"scheduling is off: nothing is sent by itself (ONBOARDING_SCHEDULING_DISABLED)", "o agendamento está desligado: nada é enviado sozinho (ONBOARDING_SCHEDULING_DISABLED)"},
		"overview.sessions":   {"People by their session", "Pessoas por sessão"}, "overview.in_burst": {"getting their messages now", "recebendo as mensagens agora"},
		"overview.texts": {"Texts", "Textos"}, "overview.chart": {"Last hour: %d on their way, %d not delivered", "Última hora: %d a caminho, %d não entregues"},
		"overview.chart.all": {"Last hour: %d texts: %d delivered, %d on their way, %d not delivered or refused", "Última hora: %d textos: %d entregues, %d a caminho, %d não entregues ou recusados"},
		"overview.unknown":   {"In doubt, being settled", "Em dúvida, sendo resolvidos"}, "overview.without": {"Without a final status", "Sem estado final"},
		"overview.overdue": {"Steps overdue", "Etapas atrasadas"}, "overview.unpublished": {"Alarms that QStash does not have yet", "Alarmes que a QStash ainda não tem"},
		"overview.goals": {"Goals overdue", "Compromissos atrasados"}, "overview.oldest": {"oldest", "mais antigo"},
		"overview.queues": {"Queues", "Filas"}, "overview.queue": {"Queue", "Fila"}, "overview.running": {"Running", "Em curso"},
		"overview.due": {"Due", "Na vez"}, "overview.later": {"Later", "Depois"}, "overview.failed": {"Failed", "Falhas"},
		"overview.parked":          {many("session is parked", "sessions are parked"), many("sessão estacionada", "sessões estacionadas")},
		"overview.doubtful":        {many("text in doubt", "texts in doubt"), many("texto em dúvida", "textos em dúvida")},
		"overview.dead_letters":    {many("dead letter of QStash", "dead letters of QStash"), many("alarme desistido pela QStash", "alarmes desistidos pela QStash")},
		"overview.failed_jobs":     {many("failed webhook job", "failed webhook jobs"), many("tarefa de webhook que falhou", "tarefas de webhook que falharam")},
		"overview.failed_outreach": {many("failed outreach", "failed outreach"), many("engajamento que falhou", "engajamentos que falharam")},
		"overview.subscriptions":   {many("paused subscription", "paused subscriptions"), many("assinatura pausada", "assinaturas pausadas")},
		"overview.holds":           {many("person on hold: nothing is sent to them", "people on hold: nothing is sent to them"), many("pessoa retida: nada é enviado a ela", "pessoas retidas: nada é enviado a elas")},
	}
}

func wordsOfPeople() glossary {
	return glossary{
		"people.title": {"People", "Pessoas"}, "people.search": {"Phone, name or id", "Telefone, nome ou id"}, "people.state": {"State", "Estado"},
		"people.all": {"all", "todas"}, "people.locale": {"Language", "Idioma"}, "people.held": {"on hold", "retida"},
		"people.opted_out": {"opted out", "optou por sair"}, "people.find": {"Find", "Buscar"}, "people.name": {"First name", "Primeiro nome"},
		"people.phone": {"Phone", "Telefone"}, "people.since": {"Enrolled", "Inscrita"}, "people.none": {"No person is found.", "Ninguém encontrado."},
		"people.more": {"Next page", "Próxima página"}, "people.enrol": {"Enrol a person", "Inscrever uma pessoa"}, "people.zone": {"Time zone", "Fuso horário"},
		"people.enrolled": {"Enrolled. Activate sends the opening text.", "Inscrita. Ativar envia o texto de abertura."},
		"person.title":    {"Person", "Pessoa"}, "person.paused": {"asked for later", "pediu para depois"},
		"person.why": {"Why? What would happen now", "Por quê? O que aconteceria agora"}, "person.why_session": {"Why, for the session", "Por quê, para a sessão"},
		"person.activate": {"Activate", "Ativar"}, "person.activate.what": {"Opens a session and sends the opening text now.", "Abre uma sessão e envia agora o texto de abertura."},
		"person.activate.done": {"Activated.", "Ativada."},
		"person.hold":          {"Hold", "Reter"}, "person.hold.what": {"Nothing is sent to this person until you release them.", "Nada é enviado a esta pessoa até você liberá-la."},
		"person.hold.done": {"On hold.", "Retida."}, "person.reason": {"Reason", "Motivo"},
		"person.release": {"Release", "Liberar"}, "person.release.what": {"Ends the hold; what waited goes on.", "Encerra a retenção; o que esperava continua."},
		"person.release.done": {"Released.", "Liberada."},
		"person.resume":       {"Resume", "Retomar"}, "person.resume.what": {"Makes the parked session active and schedules its step again. A text that Twilio has is not sent again.", "Torna a sessão ativa e agenda a etapa de novo. Um texto que a Twilio tem não é enviado de novo."},
		"person.resume.done": {"Resumed.", "Retomada."},
		"person.reset":       {"Reset", "Reiniciar"}, "person.reset.what": {"Closes the session, so that the person can be activated anew. Nothing is sent.", "Encerra a sessão, para que a pessoa possa ser ativada de novo. Nada é enviado."},
		"person.reset.done":   {"Reset.", "Reiniciada."},
		"person.conversation": {"Conversation", "Conversa"}, "person.no_texts": {"No texts yet.", "Ainda não há textos."},
		"person.earlier": {"Earlier texts are not shown.", "Textos anteriores não são mostrados."}, "person.timeline": {"What happened", "O que aconteceu"},
		"person.no_session": {"Never activated.", "Nunca ativada."}, "person.by": {"by", "por"},
	}
}

func wordsOfWhy() glossary {
	return glossary{
		"why.title": {"Why", "Por quê"}, "why.profiles": {"What would happen to this person now", "O que aconteceria com esta pessoa agora"},
		"why.sessions": {"What would happen to this session now", "O que aconteceria com esta sessão agora"},
		"why.messages": {"What would happen to this text now", "O que aconteceria com este texto agora"},
		"why.outcome":  {"Outcome", "Resultado"}, "why.next": {"Next:", "A seguir:"}, "why.advice": {"What to do:", "O que fazer:"},
		"why.passed": {"passed", "passou"}, "why.stopped": {"not passed", "não passou"}, "why.since": {"since", "desde"}, "why.change": {"What changes it:", "O que muda isso:"},
	}
}
