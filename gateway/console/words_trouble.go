package console

// wordsOfTrouble are what a page says when it could not be read again, or a choice could not be used. The browser puts the time in.
func wordsOfTrouble() glossary {
	return glossary{
		"layout.stale":        {"Not up to date since {time}: the console does not answer. This page asks again by itself.", "Sem atualização desde {time}: o console não responde. Esta página tenta de novo sozinha."},
		"layout.zone.unknown": {"there is no time zone %s. Choose one such as America/Sao_Paulo.", "não existe o fuso horário %s. Escolha um como America/Sao_Paulo."},
		"people.problem":      {"This search does not work:", "Esta busca não funciona:"},
	}
}
