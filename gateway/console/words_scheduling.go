package console

func wordsOfScheduling() glossary {
	return glossary{
		"chart.filled": {"full: delivered", "cheio: entregues"}, "chart.grey": {"grey: on their way", "cinza: a caminho"},
		"chart.hollow": {"hollow: not delivered or refused", "vazado: não entregues ou recusados"}, "chart.more": {"at least: there are more than are counted", "no mínimo: há mais do que se conta"},
		"scheduling.title":       {"Scheduling", "Agendamento"},
		"scheduling.holds":       {"paused by an operator: no step is sent and no goal begins", "pausado por um operador: nenhuma etapa é enviada e nenhum compromisso começa"},
		"scheduling.since":       {"since", "desde"},
		"scheduling.by":          {"by", "por"},
		"scheduling.reason":      {"Why (optional)", "Por quê (opcional)"},
		"scheduling.pause":       {"Pause scheduling", "Pausar o agendamento"},
		"scheduling.pause.what":  {"Within seconds no step is sent and no goal begins in your organisation; what comes due is kept. Replies are still received and answered, STOP still works, and engagement's texts and the outbound queue go on. Nothing is lost.", "Em segundos nenhuma etapa é enviada e nenhum compromisso começa na sua organização; o que vence fica guardado. As respostas continuam sendo recebidas e respondidas, STOP continua valendo, e os textos de engajamento e a fila de saída continuam. Nada se perde."},
		"scheduling.resume":      {"Resume scheduling", "Retomar o agendamento"},
		"scheduling.resume.what": {"Everything that came due meanwhile goes out at once, what is due for longest first. Each text is sent once.", "Tudo o que venceu nesse meio-tempo sai de uma vez, começando pelo mais atrasado. Cada texto é enviado uma vez."},
		"scheduling.paused":      {"Scheduling is paused.", "O agendamento está pausado."},
		"scheduling.resumed":     {"Scheduling goes on.", "O agendamento continua."},
	}
}
