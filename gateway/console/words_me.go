package console

func wordsOfMe() glossary {
	return glossary{
		"me.title":   {"Preferences", "Preferências"},
		"me.what":    {"What you choose here and what you write by text are the same setting. The later word holds.", "O que você escolhe aqui e o que você escreve por mensagem são o mesmo ajuste. Vale o que foi dito por último."},
		"me.default": {"As long as you have not chosen, messages and tips are on and come to your own phone. If you were in a household with another person when your first message came, they go to the household.", "Enquanto você não escolhe, mensagens e dicas ficam ativadas e chegam no seu próprio celular. Se você já estava em um grupo da casa com outra pessoa quando mandou a primeira mensagem, vão para o grupo da casa."},
		"me.stopped": {"You have sent STOP, so you get nothing, whatever is chosen here. Text START to get messages again.", "Você enviou SAIR, então não recebe nada, seja qual for a escolha aqui. Envie START para voltar a receber."},

		"me.reminders":             {"Messages that you did not ask for", "Mensagens que você não pediu"},
		"me.reminders.what":        {"Weekly reviews, and a word after a silence. By text: “stop reminders” or “start reminders”. Your own goals come either way.", "Resumos da semana e um oi depois de um silêncio. Por mensagem: “parar lembretes” ou “ativar lembretes”. Os compromissos que você marcou chegam de qualquer jeito."},
		"me.reminders.on":          {"These messages are on.", "Essas mensagens estão ativadas."},
		"me.reminders.off":         {"These messages are off.", "Essas mensagens estão desativadas."},
		"me.reminders.to_on":       {"Switch these messages on", "Ativar essas mensagens"},
		"me.reminders.to_off":      {"Switch these messages off", "Desativar essas mensagens"},
		"me.reminders.to_on_what":  {"Switched on, they come again from then on. What was missed does not come.", "Ativadas, elas voltam a chegar a partir daí. O que você perdeu não chega."},
		"me.reminders.to_off_what": {"Switched off, none comes from then on, and what waits to be sent is withdrawn.", "Desativadas, nenhuma chega a partir daí, e o que estava para ser enviado é retirado."},

		"me.tips":             {"Tips", "Dicas"},
		"me.tips.what":        {"Hints, and a word when you have completed something.", "Sugestões, e uma mensagem quando você completa algo."},
		"me.tips.on":          {"Tips are on.", "As dicas estão ativadas."},
		"me.tips.off":         {"Tips are off.", "As dicas estão desativadas."},
		"me.tips.to_on":       {"Switch tips on", "Ativar dicas"},
		"me.tips.to_off":      {"Switch tips off", "Desativar dicas"},
		"me.tips.to_on_what":  {"Switched on, they come again from then on.", "Ativadas, elas voltam a chegar a partir daí."},
		"me.tips.to_off_what": {"Switched off, none comes from then on.", "Desativadas, nenhuma chega a partir daí."},

		"me.destination":                    {"Where messages come", "Onde as mensagens chegam"},
		"me.destination.what":               {"To your own phone, or to the household that you are in.", "No seu próprio celular, ou no grupo da casa."},
		"me.destination.individual":         {"They come to your own phone.", "Chegam no seu próprio celular."},
		"me.destination.group":              {"They go to your household.", "Vão para todos do grupo da casa."},
		"me.destination.to_individual":      {"Send to my own phone", "Enviar para o meu celular"},
		"me.destination.to_group":           {"Send to the household", "Enviar para o grupo da casa"},
		"me.destination.to_individual_what": {"After that they come to your own phone only.", "Depois disso chegam só no seu celular."},
		"me.destination.to_group_what":      {"After that each member of your household gets them.", "Depois disso cada pessoa do grupo da casa recebe."},
		"me.destination.fixed":              {"You are in no household, so there is nothing to choose.", "Você não está em um grupo da casa, então não há o que escolher."},

		"me.no_household": {"there is no other person in your household.", "não há outra pessoa no seu grupo da casa."},
		"me.away":         {"your choice could not be saved. Try again in a minute.", "não foi possível guardar a sua escolha. Tente de novo em um minuto."},
	}
}
