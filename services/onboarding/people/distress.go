package people

// UsualDistress returns the words of distress of an organisation that has decided none.
func UsualDistress() []string {
	return []string{
		"want to die", "wanna die", "wish i was dead", "wish i were dead", "better off dead", "kill myself", "killing myself", "end my life",
		"take my own life", "suicide", "suicidal", "self harm", "don't want to live",
		"quero morrer", "me matar", "suicídio", "suicida", "tirar minha vida", "acabar com minha vida", "não quero mais viver",
		"quiero morir", "quiero morirme", "me quiero morir", "matarme", "suicidarme", "quitarme la vida", "acabar con mi vida", "no quiero vivir",
		"veux mourir", "envie de mourir", "me tuer", "me suicider", "mettre fin à mes jours",
	}
}
