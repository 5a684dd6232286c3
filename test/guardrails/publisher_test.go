package guardrails

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
)

// publisher finds code that asks QStash for a delivery outside of the one place that does. What makes a second alarm harmless is in
// that place and before it: the deduplication id, the row of the outbox that the relay and the sweeper go by, and
// ONBOARDING_SCHEDULING_DISABLED.
var publisher = &analysis.Analyzer{
	Name: "publisher",
	Doc:  "finds publishes to QStash beside the outbox",
	Run:  run(runPublisher),
}

const (
	secondPublisher = "second publisher of steps detected - commit the alarm and hand it to its outbox: %s. " +
		"Only there it has its deduplication id, a row that outlives the process, and the switch that disables scheduling"

	client = platform + "/qstash"
	// onePublisher is the one place where QStash is asked for an alarm.
	onePublisher = "(*" + platform + "/outbox.Outbox[A]).schedule"
)

// publishPath matches the paths of QStash's API in requests that are built by hand.
var publishPath = regexp.MustCompile(`/v2/(publish|enqueue|batch|schedules)\b`)

func runPublisher(pass *analysis.Pass) {
	// The client itself publishes, and the emulator serves it.
	if path := pass.Pkg.Path(); !within(path, product) || path == client || within(path, product+"/emulators") {
		return
	}
	each(pass, func(n ast.Node, owner string) bool {
		if owner == onePublisher {
			return false
		}
		if said, ok := text(pass, n); ok {
			if path := publishPath.FindString(said); path != "" {
				pass.Reportf(n.Pos(), secondPublisher, "a request to "+path)
			}
			return false
		}
		switch n := n.(type) {
		case *ast.Ident:
			if f := named(pass, n); f != nil && publishes(f) {
				pass.Reportf(n.Pos(), secondPublisher, f.Name())
			}
		case *ast.CallExpr:
			if value, ok := pass.TypesInfo.TypeOf(n.Fun).(*types.Signature); ok && callee(pass, n) == nil && handsOnJob(value) {
				pass.Reportf(n.Pos(), secondPublisher, "a function that takes a job of QStash")
			}
		}
		return true
	})
}

// publishes reports whether a function takes a job to publish.
func publishes(f *types.Func) bool { return handsOnJob(f.Signature()) }

func handsOnJob(signature *types.Signature) bool {
	return takes(signature, client+".Job")
}
