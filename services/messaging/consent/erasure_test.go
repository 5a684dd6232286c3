package consent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

func TestErasedLedger(t *testing.T) {
	t.Parallel()
	names := consent.NewPseudonyms("a key of at least thirty-two bytes")
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	lines, chain := chained([]consent.Line{firstLine, firstLine, firstLine}, 1) // the first one is from before there were chains
	erased := names.Erase(lines, chain, "opted_out", at)
	require.Nil(t, names.VerifyErased(erased))
	require.Equal(t, names.Of(firstLine.OrgID, firstLine.Phone), erased.Pseudonym)
	require.NotContains(t, erased.Pseudonym, strings.TrimPrefix(firstLine.Phone, "+"))
	require.Equal(t, chain.Head, erased.Lines[2].Hash)

	for name, tamper := range map[string]func(*consent.ErasedLedger){
		"StateOfALine":    func(e *consent.ErasedLedger) { e.Lines[1].State = "opted_in" },
		"TimeOfALine":     func(e *consent.ErasedLedger) { e.Lines[1].At = at },
		"LastLineGone":    func(e *consent.ErasedLedger) { e.Lines = e.Lines[:2] },
		"LineGone":        func(e *consent.ErasedLedger) { e.Lines = slices.Delete(e.Lines, 1, 2) },
		"HashOfTheLast":   func(e *consent.ErasedLedger) { e.Lines[2].Hash = consent.NoHash },
		"DigestOfALine":   func(e *consent.ErasedLedger) { e.Lines[1].Trace.Digest = consent.NoHash },
		"ActorOfALine":    func(e *consent.ErasedLedger) { e.Lines[1].Trace.Actor = consent.NoHash },
		"StateOfTheWhole": func(e *consent.ErasedLedger) { e.State = "opted_in" },
		"OfAnother":       func(e *consent.ErasedLedger) { e.Pseudonym = names.Of(firstLine.OrgID, "+14155550199") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := erased
			e.Lines = slices.Clone(erased.Lines)
			tamper(&e)
			require.NotNil(t, names.VerifyErased(e))
		})
	}

	t.Run("AnotherKeyMakesOthers", func(t *testing.T) {
		t.Parallel()
		other := consent.NewPseudonyms("another key of at least 32 bytes ..")
		require.NotNil(t, other.VerifyErased(erased))
		require.NotEqual(t, erased.Pseudonym, other.Of(firstLine.OrgID, firstLine.Phone))
		require.NotEqual(t, names.KeyID(), other.KeyID())
		require.Empty(t, consent.Pseudonyms{}.KeyID())
	})

	t.Run("WhatWasBrokenIsNotMended", func(t *testing.T) {
		t.Parallel()
		broken := slices.Clone(lines)
		broken[1].Words += "!"
		require.EqualValues(t, 2, names.VerifyErased(names.Erase(broken, chain, "opted_out", at)).Seq)
	})
}
