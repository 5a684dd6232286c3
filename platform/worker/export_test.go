package worker

// SQLByIndex goes before each of the others in its transaction.
const SQLByIndex = sqlByIndex

// SQLComplete and SQLDone show tests what the database is asked, to look at its plans.
func (q *Queue) SQLComplete() string { return q.sql.complete }
func (q *Queue) SQLDone() string     { return q.sql.done }
