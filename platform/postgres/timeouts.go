package postgres

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"paceline.internal/platform/config"
)

// Timeouts are the part of a service's environment that says how long the server waits for a session, so that a process that has
// frozen, or lost its host, blocks no other for long. A wait for a row ends before the statement does, and a statement
// is ended before the call or the pass of a loop that made it: Lock < Statement < those.
type Timeouts struct {
	Statement         time.Duration `env:"STATEMENT_TIMEOUT"           envDefault:"10s" help:"longest statement, migrations excepted"`
	Lock              time.Duration `env:"LOCK_TIMEOUT"                envDefault:"3s"  help:"longest wait for a row; shorter than STATEMENT_TIMEOUT"`
	IdleInTransaction time.Duration `env:"IDLE_IN_TRANSACTION_TIMEOUT" envDefault:"15s" help:"longest silence in a transaction"`
}

// Validate refuses what the server would take for no limit: it counts milliseconds, and 0 is for ever.
func (t *Timeouts) Validate() error {
	var problems []error
	for variable, d := range map[string]time.Duration{
		"STATEMENT_TIMEOUT": t.Statement, "LOCK_TIMEOUT": t.Lock, "IDLE_IN_TRANSACTION_TIMEOUT": t.IdleInTransaction,
	} {
		if d < time.Millisecond {
			problems = append(problems, &config.Problem{Variable: variable, Reason: "must be 1ms or more: nothing waits without an end"})
		}
	}
	if t.Lock >= t.Statement && t.Statement >= time.Millisecond {
		problems = append(problems, &config.Problem{Variable: "LOCK_TIMEOUT", Reason: "must be shorter than STATEMENT_TIMEOUT"})
	}
	return errors.Join(problems...)
}

// settings are the timeouts by their names at the server, in milliseconds; none for the zero value.
func (t *Timeouts) settings() map[string]int64 {
	if *t == (Timeouts{}) {
		return nil
	}
	return map[string]int64{
		"statement_timeout":                   t.Statement.Milliseconds(),
		"lock_timeout":                        t.Lock.Milliseconds(),
		"idle_in_transaction_session_timeout": t.IdleInTransaction.Milliseconds(),
	}
}

// set is the SQL that gives them to a new connection, but for those that came with its URL. They do not ride with the connection as well,
// for poolers refuse that, those too that give their connections away by the session.
func (t *Timeouts) set(given map[string]string) string {
	var sql strings.Builder
	for name, value := range t.settings() {
		if _, said := given[name]; !said {
			fmt.Fprintf(&sql, "set %s = %d; ", name, value)
		}
	}
	return sql.String()
}
