package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/engagement/rules"
)

// recognised is an expense as the corpus writes it.
func recognised(message string) string {
	e := rules.RecogniseExpense(message)
	if e == nil {
		return "none"
	}
	category := e.Category
	if category == "" {
		category = "-"
	}
	return fmt.Sprintf("%d %s %g", e.Cents, category, e.Confidence)
}

func TestTheRecogniserReadsExpensesInBothLanguages(t *testing.T) {
	t.Parallel()
	for _, s := range corpus(t, "testdata/expenses.tsv") {
		t.Run(s.want+"/"+s.message, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, s.want, recognised(s.message))
			require.Equal(t, s.want, recognised(strings.ToUpper("  "+s.message+" ")))
			require.Equal(t, "none", recognised("did I say "+s.message+"?"), "a question tells nothing")
			require.Equal(t, "none", recognised("não "+strings.TrimPrefix(s.message, "vou sair hoje, ")))
			if s.want != "none" {
				require.Equal(t, "none", recognised(s.message+" 7"), "two amounts")
			}
		})
	}
	require.Nil(t, rules.RecogniseExpense("spent 50 "+strings.Repeat("x", 400)), "that is no note of an expense")
}

func FuzzRecogniseExpense(f *testing.F) {
	for _, s := range corpus(f, "testdata/expenses.tsv") {
		f.Add(s.message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		e := rules.RecogniseExpense(message)
		if e == nil {
			return
		}
		require.True(t, e.Cents > 0 && e.Cents <= 100_000_000_00)
		require.True(t, e.Confidence > 0 && e.Confidence <= 1)
		require.Equal(t, e, rules.RecogniseExpense(message), "the same words are read the same twice")
		require.Nil(t, rules.RecogniseExpense(message+" ?"))
		if !strings.ContainsAny(message, ",;.!") {
			require.Nil(t, rules.RecogniseExpense("not "+message))
		}
		require.Nil(t, rules.RecogniseExpense(message+" "+message))
	})
}
