// Package guardrails holds the rules of the house that a compiler can see, as analyzers. Its tests run each over the whole
// workspace, so that `go test work` refuses a change that breaks one, at its file and line, and says what to do instead.
//
// A rule is here, and not in .golangci.yaml, when breaking it costs somebody a text too many, too late or too early: these
// hold for whoever runs only the tests. It has no exceptions in comments. What is allowed stands in the rule, by the name of
// the function, and is changed there by whoever reviews it.
package guardrails

import "golang.org/x/tools/go/analysis"

// All are the guardrails, in the order of docs/testing.md.
func All() []*analysis.Analyzer {
	return []*analysis.Analyzer{Sleep, Publisher, BurstQueue, Purity, DatabaseClock, LoggedSecret}
}

// Where the rules hold.
const (
	product    = "paceline.internal"
	platform   = product + "/platform"
	services   = product + "/services"
	onboarding = services + "/onboarding"
	messaging  = services + "/messaging"
	contracts  = product + "/proto/gen/paceline/messaging/v1"
)
