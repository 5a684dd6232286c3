package e2e

import "time"

// Report holds the results of the runs.
type Report struct {
	Mode Mode  `json:"mode"`
	Kept bool  `json:"kept"` // every check of every run, and all runs are the same
	Runs []Run `json:"runs"`
	// Differences lists how a run differs from the first one.
	Differences []string `json:"differences"`
}

// Run is one conversation from a clean baseline.
type Run struct {
	SessionID string  `json:"session_id"`
	Checks    []Check `json:"checks"`
	Texts     []Text  `json:"texts"`
	// Trace lists the events of a run without ids and times, which differ from run to run.
	Trace []string `json:"trace"`
}

// Check is something that has to be so.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Saw  string `json:"saw,omitempty"` // what was there instead
}

// Text is one of our messages as the deployment has it.
type Text struct {
	Step       string    `json:"step"`
	SID        string    `json:"twilio_sid"`
	Body       string    `json:"body"`
	AcceptedAt time.Time `json:"accepted_at"`
	GapMS      int64     `json:"gap_ms"` // since the text before
}

// kept reports whether every check was.
func (r *Run) kept() bool {
	for _, c := range r.Checks {
		if !c.OK {
			return false
		}
	}
	return len(r.Checks) > 0
}
