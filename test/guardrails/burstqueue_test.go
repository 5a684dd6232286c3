package guardrails

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// burstQueue finds ways of a step into sms_outbound_jobs. That queue is for messages that operators ask for. It sends by its own
// pace and its own retries and knows no session, so a burst in it would leave all at once, out of order, and after a STOP
// of the session. Onboarding does not know that the queue exists; in messaging it has one way in.
//
// test/stack shows the same of whole conversations as they run (S0_07): no row, ever.
var burstQueue = &analysis.Analyzer{
	Name: "burstqueue",
	Doc:  "finds steps of a burst on their way into the outbound queue",
	Run:  run(runBurstQueue),
}

const (
	burstEnqueue = "burst enqueue detected - use QStash scheduling: %s. " +
		"A step is one alarm and one Send (outbox.Outbox, MessagingService.Send); sms_outbound_jobs is for texts that operators ask for"

	queue = messaging + "/outbound"
	asked = "(*" + queue + ".RPC).EnqueueText" // by an operator
)

// onlyWayIn is, for each function that puts a message into the queue, the one function that may name it.
var onlyWayIn = map[string]string{
	"(*" + queue + ".Intake).Enqueue":                       asked,
	"(*" + queue + ".Store).Enqueue":                        "(*" + queue + ".Intake).Enqueue",
	"(" + contracts + ".OutboundServiceClient).EnqueueText": "", // only in what is generated for the gateway
}

// knowsTable has the packages with SQL that names the table: its store, and what erases people and what is old.
var knowsTable = map[string]bool{queue: true, messaging + "/consent/ledger": true, messaging: true}

// fillsQueue are the writers of platform/queue. Messaging has one queue.
var fillsQueue = map[string]bool{
	"(*" + platform + "/queue.Queue).Enqueue":     true,
	"(*" + platform + "/queue.Queue).EnqueueMany": true,
	"(*" + platform + "/queue.Intake).Enqueue":    true,
}

var (
	queueTable   = regexp.MustCompile(`(?i)\bsms_outbound_jobs\b`)
	queueInsert  = regexp.MustCompile(`(?i)\binsert\s+into\s+sms_outbound_jobs\b`)
	queueService = regexp.MustCompile(`messaging\.v1\.OutboundService\b`)
	queueName    = regexp.MustCompile(`OutboundService|EnqueueText|QueuedText`)
)

func runBurstQueue(pass *analysis.Pass) {
	path := pass.Pkg.Path()
	if !within(path, services, platform, product+"/gateway") || strings.Contains(path+"/", "/gen/") {
		return
	}
	each(pass, func(n ast.Node, owner string) bool {
		if said, ok := text(pass, n); ok {
			if what := queueInText(path, said); what != "" {
				pass.Reportf(n.Pos(), burstEnqueue, what)
			}
			return false
		}
		if id, ok := n.(*ast.Ident); ok {
			if what := queueInName(pass, id, owner); what != "" {
				pass.Reportf(id.Pos(), burstEnqueue, what)
			}
		}
		return true
	})
}

// queueInText returns what is wrong with a constant: SQL or the name of an RPC.
func queueInText(path, said string) string {
	switch {
	case queueInsert.MatchString(said):
		return "an insert into sms_outbound_jobs"
	case queueTable.MatchString(said) && !knowsTable[path] && !within(path, product+"/gateway"): // it has no database: there it is a label
		return "sms_outbound_jobs outside of its store"
	case queueService.MatchString(said) && within(path, onboarding):
		return "a call of OutboundService"
	}
	return ""
}

// queueInName returns what is wrong with naming a thing from within a function.
func queueInName(pass *analysis.Pass, id *ast.Ident, owner string) string {
	path, object := pass.Pkg.Path(), pass.TypesInfo.Uses[id]
	if object == nil || object.Pkg() == nil {
		return ""
	}
	from := object.Pkg().Path()
	if within(path, onboarding) && (from == queue || from == contracts && queueName.MatchString(object.Name())) {
		return "onboarding knows of " + object.Name()
	}
	f, ok := object.(*types.Func)
	if !ok {
		return ""
	}
	name := f.Origin().FullName()
	if door, ok := onlyWayIn[name]; ok && door != owner {
		return name
	}
	if within(path, messaging) && fillsQueue[name] && owner != "(*"+queue+".Store).Enqueue" {
		return name
	}
	if path != queue && owner != asked && takes(f.Signature(), queue+".Request") {
		return name + " is handed a text for the queue"
	}
	return ""
}
