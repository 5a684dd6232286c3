package queue

// SQL shows tests what the database is asked, to look at its plans. byIndex goes before each of the others in its transaction.
func (q *Queue) SQL(name string) string {
	return map[string]string{
		"byIndex": q.sql.byIndex, "claim": q.sql.claim, "claimOne": q.sql.claimOne, "snoozeBehind": q.sql.snoozeBehind, "yield": q.sql.yield, "complete": q.sql.complete,
		"finish": q.sql.finish, "extend": q.sql.extend, "expedite": q.sql.expedite, "hold": q.sql.hold, "holdOne": q.sql.holdOne,
		"done": q.sql.done, "notDone": q.sql.notDone, "takeBack": q.sql.takeBack, "get": q.sql.get, "retry": q.sql.retry,
		"cancel": q.sql.cancel, "dismiss": q.sql.dismiss, "expire": q.withKeep("false"),
	}[name]
}
