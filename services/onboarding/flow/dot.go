package flow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shapes are those of Graphviz.
var shapes = map[Kind]string{
	Send: "box", Ask: "box", If: "diamond", Call: "component", Start: "cds", HandOver: "house", End: "doublecircle",
}

// DOT writes the flow as a graph in Graphviz's language.
func (f *Flow) DOT() string {
	var out strings.Builder
	const style = "rankdir=TB; node [fontname=\"sans-serif\" fontsize=11]; edge [fontname=\"sans-serif\" fontsize=9];"
	fmt.Fprintf(&out, "digraph %q {\n  %s\n", f.Name, style)
	for _, id := range f.Order {
		s := f.Steps[id]
		label := strings.TrimSpace(id + "\n" + s.caption())
		fmt.Fprintf(&out, "  %q [id=%q shape=%s label=%q];\n", id, "step-"+id, shapes[s.Kind], label)
		for _, e := range s.arrows() {
			fmt.Fprintf(&out, "  %q -> %q [label=%q style=%s];\n", id, e.to, e.label, e.style)
		}
	}
	out.WriteString("}\n")
	return out.String()
}

// caption says in a few words what a step does.
func (s Step) caption() string {
	text := s.Text
	if s.After > 0 {
		text += fmt.Sprintf(" after %s", s.After)
	}
	switch s.Kind {
	case If:
		return s.Condition
	case Call:
		return "POST " + s.URL
	case Start:
		return "start " + s.Name
	case HandOver:
		return "hand over: " + s.Name
	case End:
		return s.Name
	case Send, Ask:
	}
	return text
}

// arrow is one way to go on.
type arrow struct{ to, label, style string }

// arrows lists the ways to go on, each with its reason.
func (s Step) arrows() (all []arrow) {
	add := func(to, label, style string) {
		if to != "" {
			all = append(all, arrow{to, label, style})
		}
	}
	for _, answer := range slices.Sorted(maps.Keys(s.Branches)) {
		add(s.Branches[answer], answer, "solid")
	}
	label := ""
	if len(s.Branches) > 0 {
		label = "else"
	}
	add(s.Then, label, "solid")
	add(s.Else, "else", "solid")
	add(s.Failed, "failed", "dashed")
	if s.Negative != nil {
		add(s.Negative.WaitAt, "no", "dashed")
		add(s.Negative.Then, "no", "dashed")
	}
	if s.Unclear != nil {
		add(s.Unclear.Then, "unclear", "dashed")
	}
	if s.Silence != nil {
		add(s.Silence.Then, fmt.Sprintf("silent for %s", s.Silence.After), "dotted")
	}
	return all
}
