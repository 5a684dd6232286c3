package postgres

const SQLOverdueGoals = sqlOverdueGoals
