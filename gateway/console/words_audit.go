package console

func wordsOfAudit() glossary {
	return glossary{
		"audit.title": {"Audit", "Auditoria"},
		"audit.what":  {"Who changed something, and which operator read what is about a person. Newest first; this page is kept, too.", "Quem mudou algo, e qual operador leu o que é de uma pessoa. Do mais novo ao mais antigo; esta página também fica registrada."},
		"audit.who":   {"Who", "Quem"}, "audit.deed": {"What", "O quê"}, "audit.about": {"About", "Sobre"}, "audit.from": {"From", "De onde"},
		"audit.target": {"Id of a session, text or job", "Id de sessão, texto ou tarefa"}, "audit.none": {"Nothing is kept of this.", "Nada está registrado sobre isto."},
		"audit.unended": {"not known: it may have happened", "não se sabe: pode ter acontecido"},
		"role.operator": {"operator", "operador"}, "role.app": {"app", "aplicativo"}, "role.user": {"person", "pessoa"},
	}
}
