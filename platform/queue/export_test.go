package queue

import (
	"fmt"
	"strings"
)

// Backoff returns the wait after the n-th failed attempt.
var Backoff = backoff

// SQL shows tests what the database is asked, to look at its plans. byIndex goes before each of the others in its transaction.
func (q *Queue) SQL(name string) string {
	return map[string]string{
		"byIndex": q.sql.byIndex, "claim": q.sql.claim[0], "snoozeBehind": q.sql.snoozeBehind[0],
		"claimOne": placed(q.sql.claimOne, "id", "token", "lease", "now"), "release": placed(q.sql.release, "id", "token", "due", "now"),
		"enqueueClaimed": q.sql.enqueueClaimed,
		"expedite":       placed(q.sql.expedite, "org", "subject", "now"),
		"complete":       q.sql.complete, "finish": q.sql.finish, "extend": q.sql.extend,
		"get": q.sql.get, "retry": q.sql.retry, "cancel": q.sql.cancel, "dismiss": q.sql.dismiss,
	}[name]
}

// placed is a statement with places instead of the names of its arguments.
func placed(sql string, names ...string) string {
	for i, name := range names {
		sql = strings.ReplaceAll(sql, "@"+name+"::", fmt.Sprintf("$%d::", i+1))
	}
	return sql
}
