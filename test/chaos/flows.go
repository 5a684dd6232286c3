package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"paceline.internal/services/onboarding/session"
)

// drawFlow writes the flow file of a world into dir: the built-in flow, or one whose last message waits for the receipt of the
// one before it, or one that sends nothing again without an operator's word, or both.
func drawFlow(d dice, dir string) (file string, flow session.Flow, err error) {
	type step struct {
		ID            string `json:"id"`
		Text          string `json:"text"`
		DelayMS       int64  `json:"delay_ms"`
		AfterDelivery string `json:"after_delivery,omitempty"`
	}
	r := d.roll("flow")
	written := struct {
		Version      string `json:"version"`
		UnknownSends string `json:"unknown_sends,omitempty"`
		Steps        []step `json:"steps"`
	}{Version: "chaos"}
	for _, s := range session.DefaultFlow().Steps() {
		written.Steps = append(written.Steps, step{ID: string(s.ID), Text: string(s.Text), DelayMS: s.Delay.Milliseconds()})
	}
	if oneIn(r, 3) {
		written.Steps[len(written.Steps)-1].AfterDelivery = "20s"
	}
	if oneIn(r, 3) {
		written.UnknownSends = "never_duplicate"
	}
	text, err := json.Marshal(written)
	if err != nil {
		return "", flow, err
	}
	if flow, err = session.ParseFlow(text); err != nil {
		return "", flow, fmt.Errorf("the flow of a world: %w", err)
	}
	file = filepath.Join(dir, "flow.json")
	return file, flow, os.WriteFile(file, text, 0o600)
}
