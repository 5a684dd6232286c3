// Package guardrails has the rules of this repository that types can show and lint cannot, as analyzers. Its tests run each over the
// whole workspace, so that `go test work` refuses a change that breaks one, at its file and line, and says what to do instead.
//
// A rule is here when breaking it sends a message too many, too late or too early, or shows one in a log: these are checked also
// for a person who runs only the tests. What depguard and forbidigo can express is in .golangci.yaml. A rule here has no
// exceptions in comments: what is allowed is listed in the rule, by the name of the function.
package guardrails
