package flow

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
)

// Person holds the facts of a person that conditions and texts may use.
type Person struct {
	FirstName string
	Locale    string
	TimeZone  string
	Fields    map[string]Value
}

// environment declares what a condition may name: person.locale, person.first_name, person.time_zone, and person.fields with the types that
// are declared.
func environment(fields map[string]Field) (*cel.Env, error) {
	declared := []cel.EnvOption{
		cel.Variable("person.locale", cel.StringType), cel.Variable("person.first_name", cel.StringType),
		cel.Variable("person.time_zone", cel.StringType),
	}
	for name, field := range fields {
		kind := cel.StringType // a date too: dates as 2006-01-02 compare as they should
		switch field.Type {
		case Number:
			kind = cel.DoubleType
		case YesNo:
			kind = cel.BoolType
		case Any:
			kind = cel.DynType
		case Text, Choice, Date, Reply:
		}
		declared = append(declared, cel.Variable("person.fields."+name, kind))
	}
	// Authors write 3 where a number is meant.
	declared = append(declared, cel.CrossTypeNumericComparisons(true))
	return cel.NewEnv(declared...)
}

// costLimit bounds one evaluation: no condition of a text conversation needs more.
const costLimit = 10_000

// compile checks a condition and its types.
func compile(env *cel.Env, condition string) (cel.Program, error) {
	ast, issues := env.Compile(condition)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("it gives %s; a condition gives true or false", ast.OutputType())
	}
	return env.Program(ast, cel.CostLimit(costLimit))
}

// holdsFor reports whether a condition is met. One over a field that has no value is not.
func (s Step) holdsFor(p Person) bool { return holds(s.program, p) }

// Filter is a condition over people.
type Filter struct {
	fields  map[string]Field
	program cel.Program
}

// NewFilter checks a condition over fields and its types.
func NewFilter(declared Declared, condition string) (Filter, error) {
	f := Filter{fields: declared.Fields()}
	env, err := environment(f.fields)
	if err != nil {
		return f, err
	}
	if f.program, err = compile(env, condition); err != nil {
		return f, errors.New(celProblem(f.fields, err))
	}
	return f, nil
}

// Fields returns the declaration by which the filter reads each field.
func (f Filter) Fields() map[string]Field { return f.fields }

// Holds reports whether a person meets the condition. One over a field that has no value is not met.
func (f Filter) Holds(p Person) bool { return holds(f.program, p) }

func holds(program cel.Program, p Person) bool {
	values := map[string]any{"person.locale": p.Locale, "person.first_name": p.FirstName, "person.time_zone": p.TimeZone}
	for name, v := range p.Fields {
		switch v.Type {
		case Number:
			values["person.fields."+name] = v.Number
		case YesNo:
			values["person.fields."+name] = v.Text == yes
		default:
			values["person.fields."+name] = v.Text
		}
	}
	result, _, err := program.Eval(values)
	if err != nil {
		return false
	}
	met, ok := result.Value().(bool)
	return ok && met
}
