package flow

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Value is the value of one field of a person.
type Value struct {
	Type   Type
	Text   string  // of a text, a choice, a date as 2006-01-02, and yes or no
	Number float64 // of a number
}

// The values of yes_no.
const (
	yes = "yes"
	no  = "no"
)

// MarshalJSON writes a number as a number, yes_no as true or false, and all others as a string.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.Type {
	case Number:
		return json.Marshal(v.Number)
	case YesNo:
		return json.Marshal(v.Text == yes)
	default:
		return json.Marshal(v.Text)
	}
}

// ValueOf reads a value of a field's type as JSON has it, such as the answer of the host application. It reports whether it is one.
func (f Field) ValueOf(decoded any) (Value, bool) {
	v := Value{Type: f.Type}
	if f.Type == Any {
		switch decoded.(type) {
		case float64:
			v.Type = Number
		case bool:
			v.Type = YesNo
		default:
			v.Type = Text
		}
	}
	switch typed := decoded.(type) {
	case float64:
		v.Number = typed
		return v, v.Type == Number
	case bool:
		v.Text = no
		if typed {
			v.Text = yes
		}
		return v, v.Type == YesNo
	case string:
		if strings.ContainsRune(typed, 0) { // Postgres keeps none
			return Value{}, false
		}
		v.Text = typed
		switch v.Type {
		case Text, Choice:
			return v, len([]rune(typed)) <= cmp.Or(f.most, maxText)
		case Date:
			return v, isDate(typed)
		case Number, YesNo, Reply, Any:
		}
	}
	return Value{}, false
}

// Parse reads a value of a field's type as it is written. It reports whether it is one.
func (f Field) Parse(written string) (Value, bool) {
	if f.Type == Number {
		n, err := strconv.ParseFloat(written, 64)
		v := Value{Type: Number, Number: n}
		return v, err == nil && f.fits(v)
	}
	if f.Type == YesNo {
		return Value{Type: YesNo, Text: written}, written == yes || written == no
	}
	return f.ValueOf(written)
}

// maxExact is the greatest number up to which every whole number is kept as it is given.
const maxExact = 1<<53 - 1

// fits reports whether a number can be kept as it is given, and shown by a text that shows the field. Fields keep longer ones from releases
// that did not ask this.
func (f Field) fits(v Value) bool {
	switch {
	case v.Type != Number:
		return true
	case f.most > 0:
		return len(figure(v.Number)) <= maxFigures
	}
	return math.Abs(v.Number) <= maxExact
}

// maxText bounds a text that is stored in a field, in characters.
const maxText = 1600
