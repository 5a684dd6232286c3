package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"paceline.internal/services/onboarding/session"
)

// flowFile is the form in which a flow is written.
type flowFile struct {
	Version      string     `json:"version"`
	UnknownSends string     `json:"unknown_sends,omitempty"`
	Steps        []flowStep `json:"steps"`
}

type flowStep struct {
	ID            session.StepID  `json:"id"`
	Text          session.TextKey `json:"text"`
	DelayMS       int64           `json:"delay_ms"`
	AfterDelivery string          `json:"after_delivery,omitempty"`
}

// writeFlow writes the built-in flow into dir, changed.
func writeFlow(dir string, change func(f *flowFile)) (path string, flow session.Flow, err error) {
	f := flowFile{Version: "chaos"}
	for _, s := range session.DefaultFlow().Steps() {
		f.Steps = append(f.Steps, flowStep{ID: s.ID, Text: s.Text, DelayMS: s.Delay.Milliseconds()})
	}
	change(&f)
	text, err := json.Marshal(f)
	if err != nil {
		return "", flow, err
	}
	if flow, err = session.ParseFlow(text); err != nil {
		return "", flow, fmt.Errorf("the flow of a run: %w", err)
	}
	path = filepath.Join(dir, "flow.json")
	return path, flow, os.WriteFile(path, text, 0o600)
}

// drawn is the flow of a world: the built-in one, or one in which the last message waits for the receipt of the one before it, or one that
// sends nothing again without an operator's word, or both.
func drawn(d dice) func(f *flowFile) {
	r := d.roll("flow")
	return func(f *flowFile) {
		if oneIn(r, 3) {
			f.Steps[len(f.Steps)-1].AfterDelivery = "20s"
		}
		if oneIn(r, 3) {
			f.UnknownSends = "never_duplicate"
		}
	}
}

// paced has another pause between the messages of a burst, unless it is 0.
func paced(gap time.Duration) func(f *flowFile) {
	return func(f *flowFile) {
		for i := range f.Steps {
			if gap > 0 && f.Steps[i].DelayMS > 0 {
				f.Steps[i].DelayMS = gap.Milliseconds()
			}
		}
	}
}
