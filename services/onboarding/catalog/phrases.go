package catalog

// What texts do not say, in lower case, in English and Portuguese. A phrase is found as whole words, whatever stands between them.

// praise judges a person, even when it is kind. Texts of onboarding have none; texts of engagement celebrate what a person did.
func praise() []string {
	return []string{
		"great job", "good job", "nice work", "well done", "congratulations", "congrats", "amazing", "awesome", "proud of you",
		"parabéns", "muito bem", "bom trabalho", "ótimo trabalho", "mandou bem", "incrível", "orgulho de você",
	}
}

func pressure() []string {
	return []string{
		"last chance", "final chance", "hurry", "act now", "act fast", "don't miss", "urgent", "only today", "too late",
		"you must", "you have to",
		"última chance", "corra", "não perca", "urgente", "só hoje", "tarde demais", "você deve", "você precisa", "você tem que",
	}
}

func guilt() []string {
	return []string{
		"disappointed", "we miss you", "you forgot", "you haven't", "still waiting", "don't give up",
		"decepcionado", "decepcionada", "sentimos sua falta", "você esqueceu", "você ainda não", "não desista",
	}
}

// guarantees promise what no service can promise.
func guarantees() []string {
	return []string{
		"guarantee", "guaranteed", "guarantees", "promise", "risk-free", "never fails",
		"garantia", "garantido", "garantida", "garantimos", "prometemos", "sem risco",
	}
}

// reproach is guilt about an absence, for engagement: a person who was away has done nothing wrong and owes no reason.
func reproach() []string {
	return []string{
		"missed you", "miss you", "missing you", "where have you been", "long time no see", "too long", "you disappeared", "you vanished",
		"you left", "you stopped", "you never", "you didn't", "you've been away", "you've been gone", "you've been quiet",
		"haven't heard from you", "we noticed", "i noticed", "don't forget", "sad to see you", "sorry to see you", "sad that", "let us down",
		"let down", "shame", "guilty", "about time", "at last", "finally",
		"saudade", "saudades", "sentimos a sua falta", "sentimos falta", "sua falta", "você sumiu", "sumiu", "sumido", "sumida",
		"cadê você", "por onde você", "por onde andou", "faz tempo que você", "quanto tempo", "você parou", "você abandonou", "abandonou",
		"você desistiu", "desistiu", "você nunca", "você não respondeu", "notei que", "notamos que", "percebi que", "percebemos que",
		"não esqueça", "não se esqueça", "que pena", "uma pena", "ficamos tristes", "culpa", "vergonha", "até que enfim", "finalmente",
		"já era hora",
	}
}

// insistence is pressure and manipulation, for engagement.
func insistence() []string {
	return []string{
		"you should", "you need to", "you'd better", "make sure you", "don't wait", "don't stop", "keep it up", "limited time",
		"now or never", "last call", "time is running out", "running out", "immediately", "asap", "are you sure", "do you really",
		"you'll regret", "regret", "you'll miss", "missing out", "miss out", "you'll lose", "exclusive", "special offer", "only for you",
		"final notice", "last message", "reply now",
		"você deveria", "deveria", "você tem de", "é obrigatório", "não deixe", "não espere", "não pare", "continue assim", "agora ou nunca",
		"antes que seja tarde", "tempo limitado", "última chamada", "imediatamente", "o quanto antes", "tem certeza", "se arrepender",
		"vai se arrepender", "você vai perder", "vai perder", "exclusivo", "exclusiva", "oferta", "só pra você", "última mensagem",
		"responda já", "responda agora",
	}
}

// judgement is of how people live and spend, or compares them with others, or counts their days.
func judgement() []string {
	return []string{
		"bad habit", "bad habits", "overspent", "overspending", "spent too much", "spending too much", "too much", "wasted", "waste", "lazy",
		"irresponsible", "you failed", "should have", "everyone else", "most people", "other people", "better than", "only noted",
		"streak", "streaks", "in a row", "days without", "falling behind", "fall behind", "fell behind", "behind schedule", "broke your",
		"gastou demais", "gastando demais", "gastos demais", "exagerou", "exagerando", "desperdício", "desperdiçou", "desperdiçando",
		"preguiça", "irresponsável", "mau hábito", "maus hábitos", "você falhou", "devia ter", "todo mundo", "a maioria das pessoas",
		"outras pessoas", "melhor que",
		"sequência", "dias seguidos", "semanas seguidas", "dias sem", "ficar pra trás", "ficar para trás", "ficou para trás", "atrasado",
		"atrasada",
	}
}

// stiffness is formal address, and the casual one without its accent.
func stiffness() []string {
	return []string{
		"dear customer", "dear user", "dear sir", "dear madam", "valued customer", "kindly",
		"voce", "voces", "prezado", "prezada", "caro cliente", "cara cliente", "estimado", "estimada", "senhor", "senhora", "vossa",
	}
}
