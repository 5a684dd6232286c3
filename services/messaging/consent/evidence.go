package consent

import "time"

// Evidence is an operator's proof that a person wants texts.
type Evidence struct {
	Method      string // on one line, like Reference
	CollectedAt time.Time
	Reference   string
}

// Words are an operator's reason with the evidence, which is the last three lines of it. The ledger keeps both as the words of the
// event: they are part of what is hashed, and every release can read and verify them.
func (e Evidence) Words(reason string) string {
	return reason + "\nmethod: " + e.Method + "\ncollected_at: " + stamp(e.CollectedAt) + "\nreference: " + e.Reference
}

// Given is a person's agreement to be texted, as the sender has it on file. The zero value means that nothing is on file.
type Given struct {
	Source      string // on one line
	WordsShown  string
	CollectedAt time.Time
}

// Words returns what the person was shown, and in the last two lines where and when they agreed, as the ledger keeps it; empty when nothing
// is on file.
func (g Given) Words() string {
	if g == (Given{}) {
		return ""
	}
	return g.WordsShown + "\nsource: " + g.Source + "\ncollected_at: " + stamp(g.CollectedAt)
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
