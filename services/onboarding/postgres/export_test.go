package postgres

// SQLOverdue, SQLOverdueGoals and SQLPlannedNow show tests what the sweeper asks the database, to count what it reads.
const (
	SQLOverdue      = sqlOverdue
	SQLOverdueGoals = sqlOverdueGoals
	SQLPlannedNow   = sqlPlannedNow
	OverdueReach    = overdueReach
)
