package console

// wordsOfForms are what a form says of what was typed into it.
func wordsOfForms() glossary {
	return glossary{
		"fault.bad_code":          {"Twilio's code is a number such as 21211, of five digits; leave it empty for the usual one.", "O código da Twilio é um número como 21211, de cinco dígitos; deixe vazio para o de costume."},
		"people.enrolled.already": {"Already enrolled as %s; nothing was changed.", "Já inscrita como %s; nada foi alterado."},
		"goals.profile.neither":   {"Type a person's phone number in international form, or their id.", "Digite o telefone da pessoa em formato internacional, ou o id dela."},
		"ledger.whose":            {"This number is of", "Este número é de"},
		"menu.script":             {"Flow", "Fluxo"}, "menu.ledger": {"Ledger", "Consentimento"},
		"skip.inactive": {"silent for too long", "em silêncio há tempo demais"}, "skip.capped": {"too much in a day or a week", "demais em um dia ou uma semana"},
		"skip.expired": {"too late", "tarde demais"}, "skip.changed": {"changed meanwhile", "mudou nesse meio-tempo"},
		"run.daily": {"daily", "diária"}, "run.weekly": {"weekly", "semanal"},
		"handsets.no_phone": {"This is no phone number in international form, such as +1 202 555 0143.", "Isto não é um telefone em formato internacional, como +1 202 555 0143."},
	}
}
