package consent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

const ledgerID = "0190a000-0000-7000-8000-0000000000d1"

func TestErasedLedger(t *testing.T) {
	t.Parallel()
	names := consent.NewPseudonyms("a key of at least thirty-two bytes")
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	lines, chain := chained([]consent.Line{firstLine, firstLine, firstLine}, 1) // the first one is from before there were chains
	erased, err := names.Erase(ledgerID, lines, chain, "opted_out", at)
	require.NoError(t, err)
	require.Nil(t, names.VerifyErased(erased))
	require.Equal(t, names.Of(firstLine.OrgID, firstLine.Phone), erased.Pseudonym)
	require.NotContains(t, erased.Pseudonym, strings.TrimPrefix(firstLine.Phone, "+"))
	left, err := names.Left(erased)
	require.NoError(t, err)
	require.Equal(t, chain.Head, left[2].Hash)
	require.Equal(t, chain.Head, left[2].Digest)
	for _, word := range []string{"opted_out", "inbound", chain.Head} { // nor is anything else to try a number by
		require.NotContains(t, string(erased.Lines), word)
	}

	for name, tamper := range map[string]func(*consent.ErasedLedger){
		"ABitOfTheLines":  func(e *consent.ErasedLedger) { e.Lines[40] ^= 1 },
		"TheirEndGone":    func(e *consent.ErasedLedger) { e.Lines = e.Lines[:len(e.Lines)-1] },
		"AllGone":         func(e *consent.ErasedLedger) { e.Lines = nil },
		"TimeOfTheWhole":  func(e *consent.ErasedLedger) { e.ErasedAt = at.Add(1e9) },
		"HowMany":         func(e *consent.ErasedLedger) { e.Length = 2 },
		"UnderAName":      func(e *consent.ErasedLedger) { e.ID = firstLine.MessageID },
		"HidesABreak":     func(e *consent.ErasedLedger) { e.BrokenAt = 1 },
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
		_, err := other.Left(erased)
		require.ErrorIs(t, err, consent.ErrSealed)
		require.NotEqual(t, erased.Pseudonym, other.Of(firstLine.OrgID, firstLine.Phone))
		require.NotEqual(t, names.KeyID(), other.KeyID())
		require.Empty(t, consent.Pseudonyms{}.KeyID())
	})

	t.Run("WhatWasBrokenIsNotMended", func(t *testing.T) {
		t.Parallel()
		broken := slices.Clone(lines)
		broken[1].Words += "!"
		e, err := names.Erase(ledgerID, broken, chain, "opted_out", at)
		require.NoError(t, err)
		require.EqualValues(t, 2, names.VerifyErased(e).Seq)
		e.BrokenAt = 0
		require.NotNil(t, names.VerifyErased(e))
	})
}
