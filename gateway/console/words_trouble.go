package console

// wordsOfTrouble are what a page says when it could not be read again, or a choice could not be used. The browser puts the time in.
func wordsOfTrouble() glossary {
	return glossary{
		"refused.REASON_OPTED_OUT":                   {"The person has opted out. They opt in again by texting START.", "A pessoa optou por sair. Ela volta enviando START."},
		"refused.REASON_SAFETY_HOLD":                 {"The person is on hold. Release them first.", "A pessoa está retida. Libere-a antes."},
		"refused.REASON_SESSION_ENDED":               {"The session has ended. Activate the person to begin a new one; after STOP they text START first.", "A sessão terminou. Ative a pessoa para começar outra; depois de STOP ela envia START antes."},
		"refused.REASON_REMINDERS_OFF_BY_PERSON":     {"The person has switched their reminders off, and only they switch them on.", "A pessoa desligou os lembretes, e só ela os liga."},
		"refused.REASON_ORGANISATION_WITHOUT_SENDER": {"Your organisation owns no number to send from.", "A sua organização não tem número para enviar."},
		"refused.REASON_PHONE_TAKEN":                 {"Another person has this number; search it at People.", "Outra pessoa tem este número; busque-o em Pessoas."},
		"refused.REASON_TIME_MISSING":                {"A text to a phone needs a time: say when.", "Um texto para um telefone precisa de uma hora: diga quando."},
		"refused.REASON_TIME_PAST":                   {"The time has passed.", "A hora já passou."},
		"refused.REASON_BEING_ERASED":                {"The person is being erased, which is not taken back.", "A pessoa está sendo apagada, e isso não se desfaz."},
		"refused.REASON_SEND_IN_FLIGHT":              {"A text is being sent at this moment. Try again in a minute.", "Um texto está sendo enviado neste momento. Tente de novo em um minuto."},
		"refused.REASON_GOAL_NOT_FOUND":              {"There is no such goal.", "Esse compromisso não existe."},
		"refused.REASON_SESSION_NOT_FOUND":           {"There is no such session.", "Essa sessão não existe."},
		"refused.REASON_MESSAGE_NOT_FOUND":           {"There is no such text.", "Esse texto não existe."},
		"refused.REASON_TOO_MANY_GOALS":              {"The person has as many goals as may be.", "A pessoa já tem o máximo de compromissos."},
		"layout.stale":                               {"Not up to date since {time}: the console does not answer. This page asks again by itself.", "Sem atualização desde {time}: o console não responde. Esta página tenta de novo sozinha."},
		"layout.zone.unknown":                        {"there is no time zone %s. Choose one such as America/Sao_Paulo.", "não existe o fuso horário %s. Escolha um como America/Sao_Paulo."},
		"people.problem":                             {"This search does not work:", "Esta busca não funciona:"},
	}
}
