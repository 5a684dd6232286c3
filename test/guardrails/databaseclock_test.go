package guardrails

import (
	"go/ast"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// databaseClock finds SQL that asks the database what time it is. Times are parameters: a statement that has its own now
// disagrees with the process that decided to run it, and no test and no simulation can move it. A service's root package
// may ask, because its doctor compares the two clocks.
var databaseClock = &analysis.Analyzer{
	Name: "databaseclock",
	Doc:  "finds SQL that reads the database's clock",
	Run:  run(runDatabaseClock),
}

const sqlReadsClock = "SQL reads the database's clock, %s - pass the time as a parameter: only that time is the one that was decided by"

var sqlNow = regexp.MustCompile(`(?i)\b(now|(clock|statement|transaction)_timestamp|timeofday)\s*\(\s*\)` +
	`|\b(current_timestamp|current_date|current_time|localtimestamp)\b`)

func runDatabaseClock(pass *analysis.Pass) {
	path := pass.Pkg.Path()
	inService := within(path, services) && strings.Count(strings.TrimPrefix(path, services+"/"), "/") > 0
	if !inService && !within(path, platform+"/queue", platform+"/outbox") {
		return
	}
	each(pass, func(n ast.Node, _ string) bool {
		said, ok := text(pass, n)
		if ok && sqlNow.MatchString(said) {
			pass.Reportf(n.Pos(), sqlReadsClock, sqlNow.FindString(said))
		}
		return !ok
	})
}
