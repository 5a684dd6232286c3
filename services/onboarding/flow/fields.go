package flow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrFields is wrapped by every refusal of values for fields; the text says what to change.
var ErrFields = errors.New("fields")

// ErrNotFound refuses the name of a flow that is not published, or a version that it does not have.
var ErrNotFound = errors.New("there is no such flow, or it has no such version")

// ErrUnreadable reports a version that this release cannot read: an earlier or a later one published it.
var ErrUnreadable = errors.New("this release cannot read a version of the flow; publish the flow again")

// Declared has the declarations of each field, by its name: several flows may declare one.
type Declared map[string][]Field

// Declared returns the fields of one flow, as the host application may set them.
func (f *Flow) Declared() Declared {
	declared, shown := Declared{}, f.placeholders()
	for name, field := range f.Fields {
		if f.asks(name) && (shown[name] || field.Limit > 0) { // the words of a person are cut, and may be longer
			field.most = f.shown(name)
		}
		for _, id := range f.Order {
			if s := f.Steps[id]; s.Kind == Ask && s.Save == name && s.Expect.Type == field.Type {
				field.Asked = append(field.Asked, s.Expect.within(field.most))
			}
		}
		declared[name] = []Field{field}
	}
	return declared
}

// Read holds values, as JSON has them, to the declarations, and names everything that is wrong; ErrFields.
func (d Declared) Read(given map[string]any) (map[string]Value, error) {
	if len(given) > maxGiven {
		return nil, fmt.Errorf("%w: these are %d; a call may set %d", ErrFields, len(given), maxGiven)
	}
	values := map[string]Value{}
	var problems, unknown []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch value, ok := d.read(name, given[name]); {
		case ok:
			values[name] = value
		case len(d[name]) == 0:
			unknown = append(unknown, fmt.Sprintf("%.40q", name))
		default:
			problems = append(problems, fmt.Sprintf("%s must be %s", name, d.form(name)))
		}
	}
	if len(unknown) > 0 {
		problems = append(problems, fmt.Sprintf("%s is declared by no current flow; there are: %s",
			cut(strings.Join(unknown, ", "), maxProblem), cut(d.names(), maxProblem)))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrFields, cut(strings.Join(problems, "; "), 2*maxProblem))
	}
	return values, nil
}

// The bounds of a call that sets fields: what it may set, and how many characters of names a refusal repeats.
const (
	maxGiven   = 100
	maxProblem = 1000
)

// read returns a value as the first declaration reads it that can.
func (d Declared) read(name string, given any) (Value, bool) {
	for _, field := range d[name] {
		if value, ok := field.ValueOf(given); ok && field.fits(value) && field.takes(value) {
			return value, true
		}
	}
	return Value{}, false
}

// takes reports whether a person could have given the value as an answer, where the flow asks for it.
func (f Field) takes(v Value) bool {
	return len(f.Asked) == 0 || slices.ContainsFunc(f.Asked, func(e Expect) bool { return e.takes(v) })
}

func (e Expect) takes(v Value) bool {
	switch e.Type {
	case Choice:
		return slices.Contains(e.Choices, v.Text)
	case Number:
		return v.Number >= e.Min && v.Number <= e.Max && (!e.Whole || v.Number == math.Trunc(v.Number))
	case Text:
		return e.Limit == 0 || utf8.RuneCountInString(v.Text) <= e.Limit
	case YesNo, Date, Reply, Any:
	}
	return true
}

// within limits the texts that take accepts to so many characters, 0 for any.
func (e Expect) within(most int) Expect {
	if e.Type == Text && most > 0 {
		e.Limit = min(cmp.Or(e.Limit, most), most)
	}
	return e
}

// form describes what takes accepts.
func (e Expect) form() string {
	switch {
	case e.Type == Choice:
		return "one of " + cut(strings.Join(e.Choices, ", "), maxProblem)
	case e.Type == Number && e.Whole:
		return fmt.Sprintf("a whole number from %v to %v", e.Min, e.Max)
	case e.Type == Number:
		return fmt.Sprintf("a number from %v to %v", e.Min, e.Max)
	case e.Type == Text && e.Limit > 0:
		return fmt.Sprintf("a text of at most %d characters", e.Limit)
	}
	return valueForms[e.Type]
}

// Private reports whether a flow declares a field as private.
func (d Declared) Private(name string) bool {
	return slices.ContainsFunc(d[name], func(f Field) bool { return f.Private })
}

// Fields returns one declaration for each name: any value where the flows differ.
func (d Declared) Fields() map[string]Field {
	fields := map[string]Field{}
	for name, all := range d {
		field := all[0]
		field.most = 0 // another flow may have taken more
		for _, other := range all[1:] {
			if other.Type != field.Type {
				field.Type = Any
			}
		}
		fields[name] = field
	}
	return fields
}

func (d Declared) names() string {
	if len(d) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(d)), ", ")
}

// WrongField returns what is wrong with the value that the host application answers to a call; nil for nothing.
func (f *Flow) WrongField(step Step, given any) error {
	if _, ok := f.Declared().read(step.Save, given); ok || step.Save == "" || given == nil {
		return nil
	}
	return fmt.Errorf("%w: %s must be %s", ErrFields, step.Save, f.Declared().form(step.Save))
}

// WrongBranch returns what is wrong with the branch that the host application chooses at a step; empty for nothing.
func (f *Flow) WrongBranch(step, branch string) string {
	s := f.Steps[step]
	if _, has := s.Branches[branch]; has || branch == "" {
		return ""
	}
	names := cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.Branches)), ", "), "none")
	return fmt.Sprintf("step %s has no branch %.40q, so it goes on with %s; its branches: %s", step, branch, s.Then, names)
}

// valueForms has the form of a value of each type, in words.
var valueForms = map[Type]string{
	Number: "a number", YesNo: "true or false", Date: "a date such as 2027-03-12",
	Text: fmt.Sprintf("a text of at most %d characters", maxText), Choice: "the name of a choice",
	Any: "a text, a number, true or false",
}

func (d Declared) form(name string) string {
	var forms []string
	add := func(form string) {
		if !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	for _, field := range d[name] {
		switch {
		case len(field.Asked) > 0:
		case field.Type == Number:
			add(valueForms[Number] + field.numbers())
		case field.most > 0:
			add(strings.Replace(valueForms[field.Type], valueForms[Text], "a text", 1) +
				fmt.Sprintf(", at most %d characters long (its limit under fields)", field.most))
			if field.Type == Any {
				add(valueForms[Number] + field.numbers())
			}
		default:
			add(valueForms[field.Type])
		}
		for _, e := range field.Asked {
			form := e.form()
			if e.Type == Number && !field.fitsAll(e) {
				form += field.numbers()
			}
			add(form)
		}
	}
	return strings.Join(forms, " or ")
}

// numbers says which numbers the field keeps, as the end of a sentence.
func (f Field) numbers() string {
	if f.most > 0 {
		return fmt.Sprintf(" of at most %d characters, since texts show it", maxFigures)
	}
	return fmt.Sprintf(" from -%d to %d", maxExact, maxExact)
}

// fitsAll reports whether the field keeps every number that an answer may be.
func (f Field) fitsAll(e Expect) bool {
	fits := func(n float64) bool { return f.fits(Value{Type: Number, Number: n}) }
	return fits(e.Min) && fits(e.Max) && (e.Whole || f.most == 0)
}
