package worker

// SQLClaim, SQLComplete, SQLFinish and SQLExtend show tests what the database is asked, to look at its plans.
func (q *Queue) SQLClaim() string    { return q.sql.claim }
func (q *Queue) SQLComplete() string { return q.sql.complete }
func (q *Queue) SQLFinish() string   { return q.sql.finish }
func (q *Queue) SQLExtend() string   { return q.sql.extend }

// SQLStats and SQLList are what operators ask; the status of SQLList may be empty.
func (q *Queue) SQLStats() string             { return q.sql.stats }
func (q *Queue) SQLList(status string) string { return q.sql.list[status] }
