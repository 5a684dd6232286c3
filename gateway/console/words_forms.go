package console

// wordsOfForms are what a form says of what was typed into it.
func wordsOfForms() glossary {
	return glossary{
		"fault.bad_code":          {"Twilio's code is a number such as 21211, of five digits; leave it empty for the usual one.", "O código da Twilio é um número como 21211, de cinco dígitos; deixe vazio para o de costume."},
		"people.enrolled.already": {"Already enrolled as %s; nothing was changed.", "Já inscrita como %s; nada foi alterado."},
		"goals.profile.several":   {"Several people have this name: take the number or the id of one from People.", "Várias pessoas têm este nome: use o telefone ou o id de uma, da página Pessoas."},
		"ledger.whose":            {"This number is of", "Este número é de"},
		"menu.script":             {"Flow", "Fluxo"}, "menu.ledger": {"Ledger", "Registro"},
		"skip.inactive": {"silent for too long", "em silêncio há tempo demais"}, "skip.capped": {"too much in a day or a week", "demais em um dia ou uma semana"},
		"skip.expired": {"too late", "tarde demais"}, "skip.changed": {"changed meanwhile", "mudou nesse meio-tempo"},
		"skip.already_queued": {"queued already", "já na fila"},
		"run.daily":           {"daily", "diária"}, "run.weekly": {"weekly", "semanal"},
		"detail.again": {"again", "de novo"}, "detail.safety_hold": {"the person is on hold", "a pessoa está retida"}, "detail.paused": {"asked for later", "pediu para depois"},
		"detail.opted_out": {"the person has opted out", "a pessoa optou por sair"}, "detail.already_sent": {"it was sent already", "já foi enviado"},
		"detail.interviewing": {"it belongs to the interview", "pertence à entrevista"}, "detail.stale": {"the session waits for another thing", "a sessão espera por outra coisa"},
		"detail.session_inactive": {"the session is not active", "a sessão não está ativa"}, "detail.burst": {"their messages come one after another now", "as mensagens chegam agora, uma após a outra"},
		"detail.parked": {"the session is parked", "a sessão está estacionada"}, "detail.early": {"nothing is asked yet", "nada foi perguntado ainda"},
		"detail.overtaken": {"a later message was answered first", "uma mensagem posterior foi respondida antes"}, "detail.before_session": {"from before this session", "de antes desta sessão"},
		"detail.quiet_hours":     {"quiet hours", "horário de silêncio"},
		"person.hold.already":    {"This person was on hold already; the first reason stays.", "Esta pessoa já estava retida; o primeiro motivo continua."},
		"person.release.already": {"This person was not on hold.", "Esta pessoa não estava retida."},
		"signin.folder":          {"FOLDER", "PASTA"},
		"signin.folder.what":     {"The folder is that of paceline up --data; leave --data out if it was started without.", "A pasta é a de paceline up --data; omita --data se foi iniciado sem ela."},
		"layout.what":            {"Paceline sends people conversations by SMS, one message at a time and when it suits them, and keeps proof of what was sent and what they agreed to.", "O Paceline conversa com pessoas por SMS, uma mensagem por vez e na hora certa, e guarda provas do que foi enviado e do que elas aceitaram."},
		"handsets.no_phone":      {"This is no phone number in international form, such as +1 202 555 0143.", "Isto não é um telefone em formato internacional, como +1 202 555 0143."},
	}
}
