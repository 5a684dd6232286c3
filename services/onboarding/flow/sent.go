package flow

import (
	"slices"
	"strings"
)

// Sent lists the texts of which one was sent last, under the key of a state that waits for an answer; empty where that is not known,
// such as after a move to another version. Several steps may send a refusal's text and wait at one.
func (f *Flow) Sent(at State) (texts []string) {
	s, here := f.Steps[at.Step]
	visit, kind, _ := strings.Cut(at.Key, ":")
	if step, _, _ := strings.Cut(visit, "#"); !here || at.Phase != Waiting || step != at.Step {
		return nil
	}
	kind, _, _ = strings.Cut(kind, ":")
	switch {
	case kind == "":
		return []string{s.Text}
	case kind == "unclear" && s.Unclear != nil:
		return []string{s.Unclear.Text}
	case kind == "silence" && s.Silence != nil:
		return []string{s.Silence.Text}
	case kind != "negative":
		return nil
	}
	for _, id := range f.Order {
		n := f.Steps[id].Negative
		if n != nil && (n.WaitAt == s.ID || id == s.ID && n.WaitAt == "") && !slices.Contains(texts, n.Text) {
			texts = append(texts, n.Text)
		}
	}
	return texts
}
