package console

func wordsOfNeeds() glossary {
	return glossary{
		"needs.title": {"Needs you", "Precisa de você"}, "needs.kinds": {"Kinds", "Tipos"}, "needs.all": {"everything", "tudo"},
		"needs.none": {"Nothing needs you.", "Nada precisa de você."}, "needs.ago": {"%s ago", "há %s"},
		"needs.choose": {"Choose:", "Escolher:"}, "needs.person": {"Person", "Pessoa"}, "needs.open": {"Look at it and resolve", "Ver e resolver"},
		"needs.bulk":      {"Review what is ticked", "Conferir o que está marcado"},
		"needs.bulk.what": {"The next page says what would happen. Nothing is done before.", "A próxima página diz o que aconteceria. Nada é feito antes."},
		"needs.more":      {"More than %[1]d %[2]s: only the newest are shown. Deal with these, and the next appear.", "Mais de %[1]d %[2]s: só as entradas mais novas aparecem. Resolva-as, e as próximas aparecem."},

		"needs.refusal": {"Texts are refused until somebody acts", "Textos recusados até que alguém aja"}, "needs.refusal.many": {"refusals", "recusas"},
		"needs.refusal.do":    {"Do what stands here, at Twilio or in the settings. The texts are tried again by themselves; this goes once they pass.", "Faça o que está escrito aqui, na Twilio ou nas configurações. Os textos são tentados de novo sozinhos; isto some quando passarem."},
		"needs.refusal.texts": {many("text is refused", "texts are refused"), many("texto recusado", "textos recusados")},

		"needs.session": {"Session is parked", "Sessão estacionada"}, "needs.session.many": {"parked sessions", "sessões estacionadas"},
		"needs.session.do": {"Mend what the reason names: where it names a text, resolve that first. Then resume. If it cannot be mended, reset.", "Corrija o que o motivo diz: se ele cita um texto, resolva-o antes. Depois retome. Se não tiver correção, reinicie."},
		"needs.message":    {"Text in doubt", "Texto em dúvida"}, "needs.message.many": {"texts in doubt", "textos em dúvida"},
		"needs.message.do":  {"Open the evidence, and say whether Twilio has it.", "Abra as evidências e diga se a Twilio tem o texto."},
		"needs.undelivered": {"Text did not reach the person", "Texto não chegou à pessoa"}, "needs.undelivered.many": {"undelivered texts", "textos não entregues"},
		"needs.undelivered.do": {"The session waits for a reply that cannot come. Mend what the code names; for a new number reset, change it on the person's page, and activate.", "A sessão espera uma resposta que não pode vir. Corrija o que o código diz; para um número novo reinicie, mude-o na página da pessoa e ative."},
		"needs.letter":         {"QStash gave an alarm up", "A QStash desistiu de um alarme"}, "needs.letter.many": {"dead letters", "alarmes desistidos"},
		"needs.letter.do": {"Mend what the answer names, then replay. A step that is not due any more is left alone.", "Corrija o que a resposta diz e depois repita. Uma etapa que não está mais na vez não é tocada."},
		"needs.job":       {"Webhook job failed", "Tarefa de webhook falhou"}, "needs.job.many": {"failed jobs", "tarefas com falha"},
		"needs.job.do": {"Words that may be an opt-out: judge them, then retry or cancel. Else mend the cause and retry.", "Palavras que podem ser um pedido de saída: decida e depois tente de novo ou cancele. Senão, corrija a causa e tente de novo."},
		"needs.text":   {"Text of the queue failed", "Texto da fila falhou"}, "needs.text.many": {"failed texts", "textos com falha"},
		"needs.text.do":  {"It is not sent any more. If it still matters, enqueue it anew under a new key.", "Não será mais enviado. Se ainda importa, enfileire de novo com uma chave nova."},
		"needs.outreach": {"Outreach failed", "Engajamento falhou"}, "needs.outreach.many": {"failed outreach", "engajamentos com falha"},
		"needs.outreach.do":       {"Mend what the error names, then retry, or cancel it.", "Corrija o que o erro diz e depois tente de novo, ou cancele."},
		"needs.subscription":      {"Subscription is paused", "Assinatura pausada"},
		"needs.subscription.many": {"paused subscriptions", "assinaturas pausadas"},
		"needs.subscription.do":   {"Mend the subscriber, then resume: it goes on where it stopped.", "Corrija o assinante e depois retome: ela continua de onde parou."},

		"resume.title": {"Resume parked sessions by their reason", "Retomar sessões estacionadas pelo motivo"}, "resume.reason": {"Words of the reason", "Palavras do motivo"},
		"resume.look": {"Show which", "Mostrar quais"}, "resume.matched": {many("%d parked session has this in its reason:", "%d parked sessions have this in their reason:"), many("%d sessão estacionada tem isto no motivo:", "%d sessões estacionadas têm isto no motivo:")},
		"resume.all": {"Resume them all", "Retomar todas"}, "resume.done": {"%s resumed, %s could not be.", "%s retomadas, %s não puderam ser."},
	}
}

func wordsOfDeeds() glossary {
	return glossary{
		"deeds.title": {"What would happen", "O que aconteceria"}, "deeds.nothing_yet": {"Nothing is done yet. What stays ticked is done.", "Nada foi feito ainda. O que ficar marcado será feito."},
		"deeds.now": {"As it stands now:", "Como está agora:"}, "deeds.do": {"Do it", "Fazer"}, "deeds.back": {"Back, do nothing", "Voltar sem fazer nada"},
		"deeds.done": {"Done: %s.", "Feito: %s."}, "deeds.some": {"Done: %s. Refused: %s, the first because %s", "Feito: %s. Recusado: %s, o primeiro porque %s"},

		"deed.resume-session":           {"Resume", "Retomar"},
		"deed.resume-session.what":      {"The session is active again, and a step that is due gets a new alarm. A text that Twilio has is not sent again; if the cause is still there, the session is parked again.", "A sessão volta a ser ativa, e uma etapa na vez ganha um novo alarme. Um texto que a Twilio tem não é enviado de novo; se a causa continuar, a sessão é estacionada de novo."},
		"deed.reset-session":            {"Reset", "Reiniciar"},
		"deed.reset-session.what":       {"The session is closed for good, so that the person can be activated anew. Nothing is sent.", "A sessão é encerrada de vez, para que a pessoa possa ser ativada de novo. Nada é enviado."},
		"deed.replay-letter":            {"Replay", "Repetir"},
		"deed.replay-letter.what":       {"The step gets its alarm again, at once. A step that is done or not due is left alone.", "A etapa ganha o alarme de novo, na hora. Uma etapa feita ou que não está na vez não é tocada."},
		"deed.retry-job":                {"Retry", "Tentar de novo"},
		"deed.retry-job.what":           {"The job has all of its attempts again and is due at once.", "A tarefa recupera todas as tentativas e fica na vez agora."},
		"deed.cancel-job":               {"Cancel", "Cancelar"},
		"deed.cancel-job.what":          {"The job is never done. A session that waits for it is parked.", "A tarefa nunca será feita. Uma sessão que espera por ela é estacionada."},
		"deed.cancel-text":              {"Cancel", "Cancelar"},
		"deed.cancel-text.what":         {"The text is never sent. One that Twilio may have is refused.", "O texto nunca será enviado. Um que a Twilio talvez tenha é recusado."},
		"deed.retry-outreach":           {"Retry", "Tentar de novo"},
		"deed.retry-outreach.what":      {"It has all of its tries again; whether it is still wanted is decided anew.", "Recupera todas as tentativas; se ainda é desejado, decide-se de novo."},
		"deed.cancel-outreach":          {"Cancel", "Cancelar"},
		"deed.cancel-outreach.what":     {"It is never sent.", "Nunca será enviado."},
		"deed.resume-subscription":      {"Resume", "Retomar"},
		"deed.resume-subscription.what": {"Events are posted again from where it stopped, or from the oldest that is kept.", "Os eventos voltam a ser enviados de onde parou, ou do mais antigo que foi guardado."},
		"deed.replay-delivery":          {"Replay", "Repetir"},
		"deed.replay-delivery.what":     {"The event is posted again, with all of its tries.", "O evento é enviado de novo, com todas as tentativas."},
	}
}

func wordsOfEvidence() glossary {
	return glossary{
		"evidence.title": {"What is known of a text", "O que se sabe de um texto"}, "evidence.attempt": {"attempt %d", "tentativa %d"}, "evidence.next": {"Twilio is asked again in", "A Twilio é consultada de novo em"},
		"evidence.looks": {"What Twilio's list had", "O que a lista da Twilio tinha"}, "evidence.no_looks": {"It was not looked for yet.", "Ainda não foi procurado."},
		"evidence.receipts": {"Receipts", "Recibos"}, "evidence.no_receipts": {"None came.", "Nenhum chegou."},
		"evidence.code":    {"Twilio's code:", "Código da Twilio:"},
		"evidence.resolve": {"Resolve", "Resolver"}, "evidence.what": {"What is true?", "O que é verdade?"},
		"evidence.sent":     {"Twilio has it, under the id below. That is checked with Twilio.", "A Twilio tem, com o id abaixo. Isso é conferido com a Twilio."},
		"evidence.not_sent": {"Twilio does not have it: it may be sent again when it is next asked for.", "A Twilio não tem: pode ser enviado de novo quando for pedido."},
		"evidence.give_up":  {"It is never sent, whether Twilio has it or not.", "Nunca será enviado, tenha a Twilio ou não."},
		"evidence.sid":      {"Twilio's id, only if Twilio has it", "Id da Twilio, só se a Twilio tem"}, "evidence.reason": {"Why; it is kept with the evidence", "Por quê; fica guardado com as evidências"},
		"evidence.resolved": {"Resolved. Resume the session that waits for it.", "Resolvido. Retome a sessão que espera por ele."},
		"look.absent":       {"not there", "não estava"}, "look.found": {"found", "encontrado"}, "look.ambiguous": {"several may be it", "vários podem ser"},
		"look.failed": {"Twilio could not be asked", "não deu para consultar a Twilio"}, "look.resolved": {"resolved by an operator", "resolvido por um operador"},
	}
}

func wordsOfQueues() glossary {
	return glossary{
		"queues.title": {"Queues", "Filas"}, "queues.choose": {"Choose", "Escolher"}, "queues.what": {"What", "O quê"}, "queues.attempts": {"Failed attempts", "Tentativas com falha"},
		"queues.created": {"Stored", "Guardado"}, "queues.ends": {"Ended or due", "Fim ou vez"}, "queues.due": {"due", "na vez"}, "queues.error": {"Why", "Por quê"},
		"queues.do": {"Do", "Fazer"}, "queues.none": {"There are none.", "Não há nenhum."},
		"job.pending": {"waiting", "esperando"}, "job.processing": {"running", "em curso"}, "job.completed": {"done", "feito"}, "job.failed": {"failed", "falhou"}, "job.cancelled": {"cancelled", "cancelado"},
		"job.title": {"Webhook job", "Tarefa de webhook"}, "job.key": {"Key", "Chave"}, "job.payload": {"Payload", "Conteúdo"},
		"job.kept": {"That you read it is kept:", "Fica registrado que você leu:"},
	}
}

func wordsOfGoals() glossary {
	return glossary{
		"goals.title": {"Goals", "Compromissos"}, "goals.all": {"all", "todos"}, "goals.profile": {"Person's phone, name or id", "Telefone, nome ou id da pessoa"}, "goals.none": {"There are no goals here.", "Não há compromissos aqui."},
		"goals.runs_in": {"Runs in", "Roda em"}, "goals.runs_at": {"Runs at", "Roda às"}, "goals.late": {"Its time has come:", "Chegou a hora:"},
		"goals.retrying": {"Retrying. Tries that found its device offline: %d", "Tentando de novo. Tentativas com o dispositivo offline: %d"},
		"goals.waiting":  {"Waiting for its device to be free, since", "Esperando o dispositivo ficar livre, há"},
		"goals.paused":   {"Scheduling is off.", "O agendamento está desligado."},
		"goals.cancel":   {"Cancel", "Cancelar"}, "goals.cancelled": {"Cancelled. It can be brought back until its time.", "Cancelado. Dá para trazer de volta até a hora dele."},
		"goals.undo": {"Undo: bring it back", "Desfazer: trazer de volta"}, "goals.undone": {"It is back, as a new goal.", "Está de volta, como um compromisso novo."},
		"goals.brought_back": {"brought back", "trazido de volta"},
		"goals.reschedule":   {"Reschedule", "Remarcar"}, "goals.rescheduled": {"Rescheduled.", "Remarcado."}, "goals.when": {"When", "Quando"},
		"goals.when.such": {"tomorrow at 9am", "amanhã às 9h"},
		"goal.scheduled":  {"Scheduled", "Agendado"}, "goal.running": {"Running", "Em curso"}, "goal.completed": {"Completed", "Concluído"},
		"goal.failed": {"Failed", "Falhou"}, "goal.cancelled": {"Cancelled", "Cancelado"},
		"goalreason.device_failed": {"the device said that it failed", "o dispositivo disse que falhou"}, "goalreason.device_offline": {"the device was offline", "o dispositivo estava offline"},
		"goalreason.device_busy": {"the device was busy for an hour", "o dispositivo ficou ocupado por uma hora"}, "goalreason.device_lost": {"the device fell silent", "o dispositivo parou de responder"},
		"goalreason.device_removed": {"the device was removed", "o dispositivo foi removido"}, "goalreason.alarm_lost": {"no alarm came through", "nenhum alarme chegou"},
		"goalreason.on_hold": {"the person is on hold", "a pessoa está retida"}, "goalreason.opted_out": {"the person has opted out", "a pessoa optou por sair"},
		"goalreason.undelivered": {"the text was not taken", "o texto não foi aceito"}, "goalreason.run_limit": {"it ran too long", "demorou demais"},
		"device.phone": {"a text to their phone", "um texto para o celular"}, "device.stream": {"on their device", "no dispositivo"},
	}
}

func wordsOfEngagement() glossary {
	return glossary{
		"engagement.title": {"Engagement", "Engajamento"}, "engagement.states": {"Where people are", "Onde as pessoas estão"}, "engagement.flows": {"Ways between, in 7 days", "Caminhos, em 7 dias"},
		"engagement.from": {"From", "De"}, "engagement.to": {"To", "Para"}, "engagement.by": {"By", "Por"}, "engagement.count": {"People", "Pessoas"}, "engagement.any": {"any", "qualquer"},
		"engagement.dry": {"What the next run would do", "O que a próxima execução faria"}, "engagement.dry.what": {"A dry run writes and sends nothing.", "Um ensaio não grava nem envia nada."},
		"engagement.daily": {"Dry run of the daily one", "Ensaiar a diária"}, "engagement.weekly": {"Dry run of the weekly one", "Ensaiar a semanal"},
		"engagement.dry.found": {many("%d person looked at, something would change for %d.", "%d people looked at, something would change for %d."), many("%d pessoa examinada, algo mudaria para %d.", "%d pessoas examinadas, algo mudaria para %d.")},
		"engagement.dry.none":  {"No person would be written to.", "Ninguém receberia nada."}, "engagement.type": {"Outreach", "Engajamento"}, "engagement.skip": {"Why not", "Por que não"},
		"engagement.sent": {"Sent in 7 days", "Enviado em 7 dias"}, "engagement.sent.none": {"Nothing was sent.", "Nada foi enviado."},
		"engagement.runs": {"Runs", "Execuções"}, "engagement.runs.none": {"There was no run yet.", "Ainda não houve execução."}, "engagement.period": {"Period", "Período"},
		"engagement.processed": {"Looked at", "Examinadas"}, "engagement.changed": {"Changed", "Mudadas"},
		"engaged.active": {"active", "ativas"}, "engaged.goodbye_sent": {"asked whether to go on", "perguntadas se continuam"}, "engaged.help_flow": {"started over with help", "recomeçaram com ajuda"},
		"engaged.remind_later": {"reminded later", "lembradas depois"}, "engaged.dormant": {"dormant", "adormecidas"},
		"trigger.user_message": {"a message or an action", "uma mensagem ou ação"}, "trigger.inactivity_14d": {"14 days of silence", "14 dias de silêncio"},
		"trigger.goodbye_response_1": {"choice 1: confused", "opção 1: confusa"}, "trigger.goodbye_response_2": {"choice 2: busy", "opção 2: na correria"},
		"trigger.goodbye_response_3": {"choice 3: all good", "opção 3: tudo certo"}, "trigger.goodbye_timeout": {"no answer in 48 hours", "sem resposta em 48 horas"},
		"trigger.reminder_due": {"the reminder's time", "a hora do lembrete"},
		"outreach.welcome":     {"welcome", "boas-vindas"}, "outreach.tier_unlock": {"celebration", "comemoração"}, "outreach.goodbye": {"goodbye", "despedida"},
		"outreach.weekly_review": {"weekly review", "resumo da semana"}, "outreach.reminder": {"reminder", "lembrete"}, "outreach.help_restart": {"fresh start", "recomeço"},
		"run.running": {"running", "em curso"}, "run.completed": {"completed", "concluída"}, "run.superseded": {"superseded", "substituída"},
	}
}

func wordsOfScript() glossary {
	return glossary{
		"script.title": {"Flow and copy", "Fluxo e textos"}, "script.version": {"Flow %s, texts %s. Segments are counted with the longest name.", "Fluxo %s, textos %s. Os segmentos são contados com o nome mais longo."},
		"script.opening": {"At activation", "Na ativação"}, "script.explanation": {"In answer to a yes", "Em resposta a um sim"}, "script.first": {"After the reply to it", "Depois da resposta"},
		"script.step": {"Then", "Depois"}, "script.later": {"In answer to Later", "Em resposta a Depois"}, "script.after": {"after %s", "após %s"},
		"script.delivered": {"waits %s at most for the one before to be delivered", "espera no máximo %s pela entrega do anterior"},
		"script.segments":  {"segments: %d", "segmentos: %d"},
		"script.others":    {"Texts of engagement and of goals", "Textos de engajamento e de compromissos"},
	}
}

func wordsOfLedger() glossary {
	return glossary{
		"ledger.title": {"Ledger of consent", "Registro de consentimento"}, "ledger.none": {"Nothing is recorded of this number.", "Nada está registrado deste número."},
		"ledger.verified": {"Verified. Lines: %d; all are as they were written, and none is missing.", "Verificado. Linhas: %d; todas são como foram escritas, e nenhuma falta."},
		"ledger.broken":   {"The ledger is not what was written. Line %d:", "O registro não é o que foi escrito. Linha %d:"}, "ledger.head": {"Last hash", "Último hash"},
		"ledger.blocked": {"Twilio refuses to send; only START from the phone lifts that", "A Twilio recusa o envio; só START vindo do celular libera"},
		"ledger.at":      {"When", "Quando"}, "ledger.state": {"State", "Estado"}, "ledger.source": {"By", "Por"}, "ledger.words": {"Words", "Palavras"}, "ledger.by": {"Operator", "Operador"},
		"ledger.confirmed": {"Confirmed", "Confirmado"}, "ledger.hash": {"Hash", "Hash"},
		"consent.opted_in": {"opted in", "aceitou"}, "consent.opted_out": {"opted out", "optou por sair"},
		"source.first_send": {"consent record at the first message", "registro de consentimento no primeiro envio"}, "source.collected_elsewhere": {"consent that your organisation collected before", "consentimento que a sua organização obteve antes"},
		"source.inbound": {"the person, by text", "a pessoa, por texto"}, "source.operator": {"an operator", "um operador"}, "source.twilio_21610": {"Twilio refused (21610)", "a Twilio recusou (21610)"},
		"source.confirmation": {"our confirmation was taken", "nossa confirmação foi aceita"},
		"source.question":     {"we asked whether the texts are to stop", "perguntamos se as mensagens devem parar"},
		"confirmed.carrier":   {"by the carrier", "pela operadora"}, "confirmed.paceline": {"by us", "por nós"},
	}
}

func wordsOfHandsets() glossary {
	return glossary{
		"handsets.title": {"Handsets", "Celulares"}, "handsets.what": {"Emulated phones: what you write goes to %s as if a person sent it. No real number is reached.", "Celulares emulados: o que você escreve chega a %s como se uma pessoa tivesse enviado. Nenhum número real é alcançado."},
		"handsets.clock": {"Clock:", "Relógio:"}, "handsets.phone": {"Phone number", "Número do celular"}, "handsets.handset": {"Handset %s", "Celular %s"}, "handsets.show": {"Show", "Mostrar"}, "handsets.messages": {"Messages on %s", "Mensagens em %s"},
		"handsets.none": {"No messages yet. The opening text comes when a person with this number is enrolled under People and activated.", "Ainda não há mensagens. O texto de abertura chega quando uma pessoa com este número é inscrita em Pessoas e ativada."}, "handsets.carrier": {"Twilio itself", "a própria Twilio"},
		"handsets.stopped": {"This phone has stopped us: Twilio sends it nothing. START lifts that.", "Este celular nos parou: a Twilio não envia nada. START libera."},
		"handsets.write":   {"Write as this person", "Escrever como esta pessoa"}, "handsets.send": {"Send", "Enviar"}, "handsets.sent": {"Sent.", "Enviado."},
		"handsets.not_taken": {"the webhook was lost, or not answered with 200. Paceline finds the message later in Twilio's list.", "o webhook se perdeu ou não foi respondido com 200. O Paceline encontra a mensagem depois, na lista da Twilio."},
		"handsets.faults":    {"What goes wrong", "O que dá errado"}, "handsets.faults.what": {"It counts from the next message on, for both phones and everybody else.", "Vale a partir da próxima mensagem, para os dois celulares e todos os outros."},
		"handsets.changed": {"Switched.", "Trocado."},
		"fault.none":       {"nothing", "nada"}, "fault.code": {"Twilio's code", "Código da Twilio"}, "fault.apply": {"Switch", "Trocar"},
		"fault.sends": {"Sending at Twilio", "Envio na Twilio"}, "fault.sends.down": {"down: 503", "fora do ar: 503"}, "fault.sends.slow": {"slow: 5 s", "lento: 5 s"},
		"fault.sends.throttled": {"throttled: 429", "limitado: 429"}, "fault.sends.refused": {"refused with the code", "recusado com o código"}, "fault.sends.lost": {"taken, answer lost", "aceito, resposta perdida"},
		"fault.handset": {"At the handset", "No celular"}, "fault.handset.undelivered": {"not delivered, with the code", "não entregue, com o código"},
		"fault.receipts": {"Receipts", "Recibos"}, "fault.receipts.lost": {"lost", "perdidos"}, "fault.receipts.late": {"20 s late", "20 s atrasados"}, "fault.receipts.twice": {"twice", "duas vezes"},
		"fault.replies": {"What people write", "O que as pessoas escrevem"}, "fault.replies.lost": {"its webhook is lost", "o webhook se perde"},
		"fault.alarms": {"Alarms at QStash", "Alarmes na QStash"}, "fault.alarms.down": {"down: 503", "fora do ar: 503"}, "fault.alarms.late": {"30 s late", "30 s atrasados"},
		"fault.alarms.lost": {"lost", "perdidos"}, "fault.alarms.twice": {"twice", "duas vezes"},
	}
}
