package people

// UsualDistress returns the words of distress of an organisation that has decided none.
func UsualDistress() []string {
	return []string{
		"want to die", "wanna die", "wish i was dead", "wish i were dead", "better off dead", "kill myself", "killing myself", "end my life",
		"take my own life", "ending my life", "taking my own life", "suicide", "suicidal", "self harm", "don't want to live", "no point living",
		"no point in living", "no reason to live", "nothing to live for", "want to end it all",
		"quero morrer", "me matar", "suicídio", "suicida", "tirar minha vida", "tirar a minha vida",
		"acabar com minha vida", "acabar com a minha vida",
		"não quero mais viver", "não quero viver", "não aguento mais viver", "sem vontade de viver", "quero sumir",
		"quiero morir", "quiero morirme", "me quiero morir", "matarme", "suicidarme", "quitarme la vida", "acabar con mi vida", "no quiero vivir",
		"sin ganas de vivir",
		"veux mourir", "envie de mourir", "me tuer", "me suicider", "mettre fin à mes jours", "en finir avec la vie",
		"plus envie de vivre", "veux plus vivre",
	}
}
