package devices

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/onboarding/goals"
)

// Frame is a message of a device: Hello, Report, Acknowledge, Progress, Ended or Said.
type Frame interface{ isFrame() }

// RunState is the state of a run as its device knows it after it has connected again.
type RunState string

// The states.
const (
	RunStarted  RunState = "started"
	RunEnded    RunState = "ended"
	RunNeverSaw RunState = "never_saw"
)

type (
	// Hello opens a stream.
	Hello goals.Hello
	// Report is the answer to a run of the welcome.
	Report struct {
		RunID  string
		State  RunState
		OK     bool   // of RunEnded
		Detail string // of RunEnded
	}
	// Acknowledge says that the device has noted a run, and begins it.
	Acknowledge struct{ RunID string }
	// Progress is a sign of life of a run.
	Progress struct{ RunID, Text string }
	// Ended is the end of a run.
	Ended struct {
		RunID  string
		OK     bool
		Detail string
	}
	// Said is a goal that was said to the device.
	Said struct{ Key, Goal, Source, Zone string }
)

func (Hello) isFrame()       {}
func (Report) isFrame()      {}
func (Acknowledge) isFrame() {}
func (Progress) isFrame()    {}
func (Ended) isFrame()       {}
func (Said) isFrame()        {}

// Command is a message to a device: Welcome, Offer, StopRun, Answer, Reconnect or Refusal.
type Command interface{ isCommand() }

type (
	// Welcome answers Hello.
	Welcome struct {
		Epoch    int64
		Runs     []string
		RunLease time.Duration
	}
	// Offer is a goal to run now.
	Offer goals.Offer
	// StopRun asks for the end of a run.
	StopRun struct{ RunID string }
	// Answer tells the outcome of what was said.
	Answer struct {
		Key  string
		Goal goals.Goal
		Err  error
	}
	// Reconnect announces the end of the stream.
	Reconnect struct{ After time.Duration }
	// Refusal gives the reason of the end of a stream.
	Refusal struct{ Err error }
)

func (Welcome) isCommand()   {}
func (Offer) isCommand()     {}
func (StopRun) isCommand()   {}
func (Answer) isCommand()    {}
func (Reconnect) isCommand() {}
func (Refusal) isCommand()   {}

// protocol is the order of a device's frames: hello; once welcomed a report of each open run; from then on anything about runs. What was
// said to the device may come at any time after the welcome.
type protocol struct {
	welcomed bool
	owed     map[string]bool // runs that a report is owed of
}

func (p *protocol) welcome(runs []string) {
	p.welcomed, p.owed = true, make(map[string]bool, len(runs))
	for _, run := range runs {
		p.owed[run] = true
	}
}

// ready reports whether the device has said what it knows of each open run, so that it may be offered another.
func (p *protocol) ready() bool { return p.welcomed && len(p.owed) == 0 }

// accept takes a frame into the order, or is ErrFrame.
func (p *protocol) accept(f Frame) error {
	if _, hello := f.(Hello); hello == p.welcomed {
		return fmt.Errorf("%w: hello is the first frame, and no other", ErrFrame)
	}
	run := ""
	switch f := f.(type) {
	case nil:
		return fmt.Errorf("%w: it is empty, or of a kind that is not known here", ErrFrame)
	case Hello, Said:
		return nil
	case Report:
		return p.report(f)
	case Acknowledge:
		run = f.RunID
	case Progress:
		run = f.RunID
	case Ended:
		run = f.RunID
	}
	if !p.ready() {
		return fmt.Errorf("%w: a report of each run of the welcome comes first", ErrFrame)
	}
	if uuid.Validate(run) != nil {
		return fmt.Errorf("%w: run_id must be a UUID", ErrFrame)
	}
	return nil
}

func (p *protocol) report(f Report) error {
	switch {
	case !p.owed[f.RunID]:
		return fmt.Errorf("%w: a report answers a run of the welcome, once", ErrFrame)
	case f.State != RunStarted && f.State != RunEnded && f.State != RunNeverSaw:
		return fmt.Errorf("%w: state must be started, ended or never_saw", ErrFrame)
	}
	delete(p.owed, f.RunID)
	return nil
}

// maxDetail bounds what a device says of a run, in characters.
const maxDetail = 200

// brief cuts a device's words: a device that said too much would say it again on its next stream.
func brief(words string, limit int) string {
	kept := []rune(strings.ReplaceAll(strings.ToValidUTF8(words, ""), "\x00", ""))
	return string(kept[:min(len(kept), limit)])
}
