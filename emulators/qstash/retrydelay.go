package qstash

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxExpression bounds an expression in bytes, and with it the depth of the parser.
const maxExpression = 512

// retryDelay is a parsed Upstash-Retry-Delay: an expression in milliseconds over retried, which is 0 before the first retry.
// It knows + - * / ( ), numbers and the functions of functions. The zero value is the absence of one.
type retryDelay struct {
	source string
	eval   term
}

// term is a part of an expression as a function of retried.
type term func(retried float64) float64

// parseRetryDelay returns the zero retryDelay for an empty expression.
func parseRetryDelay(source string) (retryDelay, error) {
	if strings.TrimSpace(source) == "" {
		return retryDelay{}, nil
	}
	if len(source) > maxExpression {
		return retryDelay{}, errors.New("the expression is too long")
	}
	p := parser{rest: source}
	eval, err := p.sum()
	if err != nil {
		return retryDelay{}, err
	}
	if p.peek() != 0 {
		return retryDelay{}, errors.New("unexpected text after the expression")
	}
	return retryDelay{source: source, eval: eval}, nil
}

// pause evaluates the expression, between zero and a day. It is not ok without an expression, or when the result is
// not a number, such as 0/0.
func (r retryDelay) pause(retried int) (time.Duration, bool) {
	if r.eval == nil {
		return 0, false
	}
	ms := r.eval(float64(retried))
	if math.IsNaN(ms) {
		return 0, false
	}
	ms = min(max(ms, 0), float64(longestPause.Milliseconds()))
	return time.Duration(ms * float64(time.Millisecond)), true
}

// parser is a recursive descent over what is left of the source.
type parser struct{ rest string }

// peek is the next byte that is no space, 0 at the end.
func (p *parser) peek() byte {
	p.rest = strings.TrimLeft(p.rest, " \t")
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

// accept takes the next byte if it is one of those wanted, else it returns 0.
func (p *parser) accept(wanted string) byte {
	c := p.peek()
	if c == 0 || !strings.ContainsRune(wanted, rune(c)) {
		return 0
	}
	p.rest = p.rest[1:]
	return c
}

// sum = product { ("+" | "-") product }.
func (p *parser) sum() (term, error) {
	return p.chain("+-", p.product, func(op byte, a, b float64) float64 {
		if op == '+' {
			return a + b
		}
		return a - b
	})
}

// product = factor { ("*" | "/") factor }.
func (p *parser) product() (term, error) {
	return p.chain("*/", p.factor, func(op byte, a, b float64) float64 {
		if op == '*' {
			return a * b
		}
		return a / b
	})
}

// chain reads operands between operators of one rank, from left to right.
func (p *parser) chain(ops string, operand func() (term, error), apply func(op byte, a, b float64) float64) (term, error) {
	left, err := operand()
	for err == nil {
		op := p.accept(ops)
		if op == 0 {
			return left, nil
		}
		var right term
		if right, err = operand(); err == nil {
			before := left
			left = func(retried float64) float64 { return apply(op, before(retried), right(retried)) }
		}
	}
	return nil, err
}

// factor = ("+" | "-") factor | number | "(" sum ")" | "retried" | function "(" sum { "," sum } ")".
func (p *parser) factor() (term, error) {
	switch c := p.peek(); {
	case p.accept("+") != 0:
		return p.factor()
	case p.accept("-") != 0:
		negated, err := p.factor()
		return func(retried float64) float64 { return -negated(retried) }, err
	case p.accept("(") != 0:
		inner, err := p.sum()
		if err == nil && p.accept(")") == 0 {
			err = errors.New("a parenthesis is not closed")
		}
		return inner, err
	case c >= '0' && c <= '9' || c == '.':
		value, err := strconv.ParseFloat(p.word("0123456789."), 64)
		if err != nil {
			return nil, errors.New("malformed number")
		}
		return func(float64) float64 { return value }, nil
	default:
		return p.named()
	}
}

// named is the variable or a function with its arguments.
func (p *parser) named() (term, error) {
	name := p.word("abcdefghijklmnopqrstuvwxyz")
	if name == "retried" {
		return func(retried float64) float64 { return retried }, nil
	}
	arity, apply := function(name)
	if arity == 0 {
		return nil, errors.New("unknown name or missing operand")
	}
	arguments := make([]term, arity)
	for i, before := range []string{"(", ","}[:arity] {
		if p.accept(before) == 0 {
			return nil, errors.New(name + " has too few arguments")
		}
		var err error
		if arguments[i], err = p.sum(); err != nil {
			return nil, err
		}
	}
	if p.accept(")") == 0 {
		return nil, errors.New(name + " has too many arguments")
	}
	return func(retried float64) float64 {
		values := [2]float64{}
		for i, argument := range arguments {
			values[i] = argument(retried)
		}
		return apply(values[0], values[1])
	}, nil
}

// word takes the longest run of the given letters.
func (p *parser) word(letters string) string {
	p.peek()
	rest := strings.TrimLeft(p.rest, letters)
	word := p.rest[:len(p.rest)-len(rest)]
	p.rest = rest
	return word
}

// function returns what QStash documents, with the number of its arguments; 0 means that there is no such function.
func function(name string) (arity int, apply func(a, b float64) float64) {
	one := func(f func(float64) float64) (int, func(a, b float64) float64) {
		return 1, func(a, _ float64) float64 { return f(a) }
	}
	switch name {
	case "exp":
		return one(math.Exp)
	case "sqrt":
		return one(math.Sqrt)
	case "abs":
		return one(math.Abs)
	case "floor":
		return one(math.Floor)
	case "ceil":
		return one(math.Ceil)
	case "round":
		return one(math.Round)
	case "pow":
		return 2, math.Pow
	case "min":
		return 2, math.Min
	case "max":
		return 2, math.Max
	default:
		return 0, nil
	}
}
