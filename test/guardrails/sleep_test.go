package guardrails

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// sleep finds waits inside onboarding's process: timers, sleeps, and what comes to the same. A wait in a process is lost with
// it, and the text that was to follow with that. A wait of a conversation is the due time of an alarm; loops rest by a
// process.Repetition, with a Rest that the simulation plays on its own clock. A time limit is no sleep, unless code waits for
// nothing else.
//
// It sees through calls: one of our functions outside of onboarding that waits is a sleep as well, unless it is sanctioned. What
// is behind an interface it does not see.
var sleep = &analysis.Analyzer{
	Name:      "sleep",
	Doc:       "finds in-process sleeps and timers in onboarding",
	Run:       run(runSleep),
	FactTypes: []analysis.Fact{new(waits)},
}

const (
	sleepDetected = "in-process sleep detected - use the QStash delay parameter: %s. " +
		"A wait between texts is the due time of an alarm (session.Alarm); a loop rests by a process.Repetition that is given deps.Rest"

	rest      = platform + "/process.Rest"
	restByAll = platform + "/process.RestOnMachineClock"
)

// sanctioned are the functions outside of onboarding that may wait on behalf of it, and why none of these waits is one of a
// conversation. One that does not wait any more is reported, so that the list stays short.
var sanctioned = map[string]string{
	restByAll:                                   "is the Rest that production gives to every loop",
	platform + "/process.Bounded":               "ends a pass of a loop that is silent",
	platform + "/postgres.InTx":                 "tries a transaction again that lost a conflict, some milliseconds later",
	"(" + platform + "/postgres.Migrations).Up": "tries a migration again that did not get its locks",
	platform + "/rpc.Dial":                      "asks the replicas of an upstream whether they answer",
	platform + "/rpc.NewServer":                 "ends streams that are silent, or whose time is over",
	"(*" + platform + "/postgres.Pool).watch":   "pings the database between calls, and no text waits for it",
	"(*" + platform + "/postgres.Combiner).Do":  "opens a second lane when the first is slow: no text waits for it",
	platform + "/postgres.Listen":               "connects again after a rest, when the connection for notifications is lost",
	"(*" + platform + "/queue.Notifier).Run":    "notifies at most so often",
	"(*" + platform + "/queue.Runner).Loop":     "keeps the leases of running jobs, and looks for jobs again: their waits are in their rows",
}

// bounding are the functions of onboarding that may have a timer, and why none of them paces a conversation.
var bounding = map[string]string{
	"(*" + onboarding + "/goals.Service).awaitBegin": "looks again at a goal that another process is to begin, within the five seconds of its alarm",
	"(*" + onboarding + "/alarmclock.Timer).Loop":    "rests until the next alarm that it has is due: it rings it then, and its row says when",
	"(*" + onboarding + "/devices.Hub).serve":        "ends the stream of a device that is silent, or whose token expires",
	"(*" + onboarding + "/runs.Service).open":        "begins people 20 ms apart while texts of others are due; who is still to be started is in the rows",
	"(*" + onboarding + "/runs.Service).Work":        "waits for a turn at the sender's rate, at most three seconds; who is still to be started is in the rows",
}

// sleeping are the functions that wait, or have something happen after a wait.
var sleeping = map[string]bool{
	"time.Sleep": true, "time.After": true, "time.AfterFunc": true, "time.NewTimer": true, "time.NewTicker": true, "time.Tick": true,
	"syscall.Nanosleep": true, "syscall.Select": true, "golang.org/x/sys/unix.Nanosleep": true, "golang.org/x/sys/unix.Select": true,
	"(*golang.org/x/time/rate.Limiter).Wait": true, "(*golang.org/x/time/rate.Limiter).WaitN": true,
}

// waits is the fact that a function waits, and by what.
type waits struct{ By string }

// AFact marks it as a fact.
func (*waits) AFact() {}

func (w *waits) String() string { return "waits by " + w.By }

func runSleep(pass *analysis.Pass) {
	switch path := pass.Pkg.Path(); {
	case within(path, onboarding):
		reportSleeps(pass)
	case within(path, product):
		noteWaits(pass)
	}
}

// reportSleeps reports every sleep in a package of onboarding.
func reportSleeps(pass *analysis.Pass) {
	limits := limits{pass: pass, since: map[types.Object]token.Pos{}, races: map[ast.Node]bool{}}
	each(pass, limits.note)
	each(pass, func(n ast.Node, owner string) bool {
		if bounding[owner] != "" {
			return true
		}
		said, constant := text(pass, n)
		if constant && strings.Contains(strings.ToLower(said), "pg_sleep") {
			pass.Reportf(n.Pos(), sleepDetected, "pg_sleep holds a connection as well")
		}
		if what := sleepIn(pass, limits, n); what != "" {
			pass.Reportf(n.Pos(), sleepDetected, what)
		}
		return !constant
	})
}

// noteWaits notes which functions of another package wait, by themselves or by what they call.
func noteWaits(pass *analysis.Pass) {
	found := map[*types.Func]string{}
	for more := true; more; {
		more = false
		eachFunction(pass, func(f *types.Func, body *ast.BlockStmt) {
			if found[f] != "" {
				return
			}
			ast.Inspect(body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && found[f] == "" {
					found[f] = waitOf(pass, named(pass, id), found)
				}
				return n != nil
			})
			more = more || found[f] != ""
		})
	}
	eachFunction(pass, func(f *types.Func, body *ast.BlockStmt) {
		_, allowed := sanctioned[f.FullName()]
		switch {
		case allowed && found[f] == "":
			pass.Reportf(body.Pos(), "%s waits no more: take it off the list of what is sanctioned", f.FullName())
		case !allowed && found[f] != "":
			pass.ExportObjectFact(f, &waits{By: found[f]})
		}
	})
}

// waitOf returns what a function that is named waits by; "" when it does not, or may.
func waitOf(pass *analysis.Pass, f *types.Func, found map[*types.Func]string) string {
	if f == nil || sanctioned[f.FullName()] != "" {
		return ""
	}
	if sleeping[f.FullName()] {
		return f.FullName()
	}
	if by := found[f]; by != "" {
		return by
	}
	var known waits
	if f.Pkg() != nil && f.Pkg() != pass.Pkg && within(f.Pkg().Path(), product) && pass.ImportObjectFact(f, &known) {
		return known.By
	}
	return ""
}

// sleepIn returns the name of the sleep that begins at a node; "" for none.
func sleepIn(pass *analysis.Pass, limits limits, n ast.Node) string {
	switch n := n.(type) {
	case *ast.Ident:
		f := named(pass, n)
		if by := waitOf(pass, f, nil); by != "" && by != f.FullName() {
			return f.FullName() + " waits by " + by
		} else if by != "" || f != nil && f.FullName() == restByAll {
			return f.FullName()
		}
	case *ast.CallExpr:
		fun := pass.TypesInfo.Types[n.Fun]
		if !fun.IsType() && isType(fun.Type, rest) {
			return "a process.Rest is called by hand"
		}
		if f := callee(pass, n); f != nil && f.FullName() == "context.AfterFunc" && limits.timed(n.Args[0]) {
			return "context.AfterFunc on a time limit is a timer"
		}
	case *ast.UnaryExpr:
		if n.Op == token.ARROW && !limits.races[n] && limits.onlyLimit(n.X) {
			return "nothing but a time limit is waited for"
		}
	}
	return ""
}

// limits are the contexts that a package gives a time limit, and where. Before that they belong to a caller, and to wait for
// their end is to wait for a signal.
type limits struct {
	pass  *analysis.Pass
	since map[types.Object]token.Pos
	races map[ast.Node]bool // receives that a select waits for together with something else
}

func (l limits) note(n ast.Node, _ string) bool {
	switch n := n.(type) {
	case *ast.SelectStmt:
		l.noteSelect(n)
	case *ast.AssignStmt:
		call, ok := n.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		f := callee(l.pass, call)
		if f == nil || f.Pkg() == nil || f.Pkg().Path() != "context" ||
			!(strings.HasPrefix(f.Name(), "WithTimeout") || strings.HasPrefix(f.Name(), "WithDeadline")) {
			return true
		}
		if id, ok := n.Lhs[0].(*ast.Ident); ok {
			if object := l.pass.TypesInfo.ObjectOf(id); object != nil && l.since[object] == token.NoPos {
				l.since[object] = n.End()
			}
		}
	}
	return true
}

func (l limits) noteSelect(s *ast.SelectStmt) {
	if len(s.Body.List) < 2 {
		return
	}
	for _, clause := range s.Body.List {
		ast.Inspect(clause.(*ast.CommClause).Comm, func(n ast.Node) bool {
			if receive, ok := n.(*ast.UnaryExpr); ok && receive.Op == token.ARROW {
				l.races[receive] = true
			}
			return n != nil
		})
	}
}

// timed reports whether an expression is a context that has been given a time limit by then.
func (l limits) timed(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return false
	}
	since, ok := l.since[l.pass.TypesInfo.ObjectOf(id)]
	return ok && id.Pos() > since
}

// onlyLimit reports whether a channel is Done of such a context.
func (l limits) onlyLimit(channel ast.Expr) bool {
	call, ok := ast.Unparen(channel).(*ast.CallExpr)
	if !ok {
		return false
	}
	done, ok := call.Fun.(*ast.SelectorExpr)
	return ok && done.Sel.Name == "Done" && l.timed(done.X)
}
