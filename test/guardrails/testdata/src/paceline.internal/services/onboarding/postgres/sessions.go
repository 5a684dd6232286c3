package postgres

const (
	sqlAdvance = `update conversation_sessions set next_fire_at = @now where id = @id` +
		` and version = @version`
	sqlOverdue = `select id from conversation_sessions where next_fire_at < NOW ( )` // want `SQL reads the database's clock, NOW \( \) - pass the time as a parameter`
	sqlInsert  = `insert into sessions (id, at) values ($1, ` + `current_timestamp)` // want `current_timestamp`
)

func claim(where string) string {
	return `update alarms set leased_at = clock_timestamp() where ` + where // want `clock_timestamp\(\)`
}
