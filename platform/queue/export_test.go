package queue

// Backoff is how long to wait after the n-th failed attempt.
var Backoff = backoff

// SQL shows tests what the database is asked, to look at its plans. byIndex goes before each of the others in its transaction.
func (q *Queue) SQL(name string) string {
	return map[string]string{
		"byIndex": q.sql.byIndex, "claim": q.sql.claim, "claimOne": q.sql.claimOne, "snoozeBehind": q.sql.snoozeBehind,
		"release": q.sql.release, "complete": q.sql.complete, "finish": q.sql.finish, "extend": q.sql.extend, "expedite": q.sql.expedite,
		"get": q.sql.get, "retry": q.sql.retry, "cancel": q.sql.cancel, "dismiss": q.sql.dismiss,
	}[name]
}
