package console

// wordsOfRecord are those of the forms that record an opt-out or an opt-in.
func wordsOfRecord() glossary {
	return glossary{
		"person.words":              {"These words may be an opt-out:", "Estas palavras podem ser um pedido de saída:"},
		"person.opted_out":          {"Record opt-out", "Registrar saída"},
		"person.opted_out.what":     {"The person asked for no more texts. Nothing is sent after it. A session that waits for this decision is closed.", "A pessoa pediu para não receber mais textos. Nada é enviado depois. Uma sessão que espera por esta decisão é encerrada."},
		"person.opted_out.reason":   {"What they wrote or said, and where", "O que a pessoa escreveu ou disse, e onde"},
		"person.opted_out.done":     {"The opt-out is recorded.", "A saída foi registrada."},
		"person.opted_out.reset":    {"The opt-out is recorded, and the session that waited for it is closed.", "A saída foi registrada, e a sessão que esperava por ela foi encerrada."},
		"person.opted_out.open":     {"The opt-out is recorded, but its session is still open; reset it. %s", "A saída foi registrada, mas a sessão continua aberta; reinicie-a. %s"},
		"person.opted_in":           {"Record opt-in", "Registrar adesão"},
		"person.opted_in.what":      {"Needs evidence from after the opt-out. An opt-out in the person's own words ends only when they text START.", "Precisa de uma prova posterior à saída. Uma saída nas palavras da própria pessoa só termina quando ela envia START."},
		"person.opted_in.method":    {"How they said so, such as a phone call", "Como a pessoa disse, por exemplo por telefone"},
		"person.opted_in.at":        {"When they said so (%s)", "Quando a pessoa disse (%s)"},
		"person.opted_in.reference": {"Where that is documented", "Onde isso está documentado"},
		"person.opted_in.when":      {"Not done: give the day and the time when they said so.", "Não feito: dê o dia e a hora em que a pessoa disse."},
		"person.opted_in.done":      {"The opt-in is recorded. %s", "A adesão foi registrada. %s"},
		"person.consent.stale":      {"Not done: the consent or the number changed after this page was shown. Read it again.", "Não feito: o consentimento ou o telefone mudou depois que esta página foi mostrada. Leia de novo."},
		"person.judged.missing":     {"Not done: the words may be an opt-out. Read them and confirm.", "Não feito: as palavras podem ser um pedido de saída. Leia e confirme."},
		"person.judge.first":        {"This does not record an opt-out. Read the person's words first.", "Isto não registra uma saída. Leia antes as palavras da pessoa."},
		"person.judged":             {"I read the words: none of them is an opt-out, or it is recorded.", "Li as palavras: nenhuma é um pedido de saída, ou ele está registrado."},
		"person.resume.judged":      {"I read the words: they are no opt-out.", "Li as palavras: não são um pedido de saída."},
		"person.release.judged":     {"I read the words: they are no opt-out.", "Li as palavras: não são um pedido de saída."},
		"resume.unjudged":           {"Sessions that wait for your judgement of a person's words are not among these: read the words, and resume each alone.", "Sessões que esperam a sua decisão sobre palavras da pessoa não estão entre estas: leia as palavras e retome cada uma sozinha."},
		"person.reset.judged":       {"I read the words. Reset records no opt-out.", "Li as palavras. Reiniciar não registra saída."},

		"refused.REASON_OPTED_OUT_BY_PERSON": {"The person opted out in their own words. Only they opt in again, by texting START.", "A pessoa saiu nas próprias palavras. Só ela volta, enviando START."},
		"refused.REASON_EVIDENCE_TOO_OLD":    {"The evidence is older than the opt-out.", "A prova é anterior à saída."},
	}
}
