package qstash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, expression string
		retried          int
		want             time.Duration
	}{
		{name: "Number", expression: "1000", want: time.Second},
		{name: "Fraction", expression: "0.5", want: 500 * time.Microsecond},
		{name: "Rank", expression: "1 + 2 * 3", want: 7 * time.Millisecond},
		{name: "LeftToRight", expression: "100 - 10 - 1", want: 89 * time.Millisecond},
		{name: "DivisionLeftToRight", expression: "100 / 10 / 2", want: 5 * time.Millisecond},
		{name: "Parentheses", expression: "(1 + 2) * 3", want: 9 * time.Millisecond},
		{name: "Signs", expression: "10 - -5 + +1", want: 16 * time.Millisecond},
		{name: "Retried", expression: "retried * 1000", retried: 3, want: 3 * time.Second},
		{name: "Ours", expression: "10000 * pow(2, retried)", retried: 2, want: 40 * time.Second},
		{name: "Capped", expression: "min(900000, pow(2, retried)*15000)", retried: 9, want: 15 * time.Minute},
		{name: "Nested", expression: "max(1, min(5, abs(-3)))", want: 3 * time.Millisecond},
		{name: "Rounding", expression: "floor(1.9) * 100 + ceil(1.1) * 10 + round(2.5)", want: 123 * time.Millisecond},
		{name: "Roots", expression: "sqrt(16) + floor(exp(2))", want: 11 * time.Millisecond},
		{name: "NegativeIsNow", expression: "-1000", want: 0},
		{name: "InfiniteIsADay", expression: "pow(10, 400)", want: 24 * time.Hour},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := parseRetryDelay(c.expression)
			require.NoError(t, err)
			got, ok := r.pause(c.retried)
			require.True(t, ok)
			require.Equal(t, c.want, got)
		})
	}

	t.Run("NoNumberMeansTheDefault", func(t *testing.T) {
		t.Parallel()
		for _, expression := range []string{"", "0/0", "sqrt(-1)"} {
			r, err := parseRetryDelay(expression)
			require.NoError(t, err)
			_, ok := r.pause(0)
			require.False(t, ok, expression)
		}
	})

	for _, malformed := range []string{
		"(", ")", "1 2", "1 +", "* 2", "1..2", "pow(2)", "pow(2,", "pow(2,3,4)", "exp()", "exp(1,2)", "exp 1", "retriedd", "x", "1e3", "é",
	} {
		t.Run("Refuses_"+malformed, func(t *testing.T) {
			t.Parallel()
			_, err := parseRetryDelay(malformed)
			require.Error(t, err)
		})
	}
}

func FuzzRetryDelay(f *testing.F) {
	f.Fuzz(func(t *testing.T, source string, retried int) {
		r, err := parseRetryDelay(source)
		if err != nil {
			return
		}
		pause, ok := r.pause(retried)
		require.GreaterOrEqual(t, pause, time.Duration(0))
		require.LessOrEqual(t, pause, longestPause)
		// What is in parentheses means the same.
		again, err := parseRetryDelay("(" + source + ")")
		if ok && err == nil {
			same, _ := again.pause(retried)
			require.Equal(t, pause, same)
		}
	})
}
