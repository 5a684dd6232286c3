package postgres

// SQLOverdue and SQLPlannedNow show tests what the sweeper asks the database, to count what it reads.
const (
	SQLOverdue      = sqlOverdue
	SQLPlannedNow   = sqlPlannedNow
	OverdueReach    = overdueReach
	SQLOverdueGoals = sqlOverdueGoals
	GoalReach       = goalReach
)
