package outbound_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/outbound"
)

// TestKeyOfForgottenCode: the key of a code stays its own after the words are deleted, and answers no other code.
func TestKeyOfForgottenCode(t *testing.T) {
	t.Parallel()
	key := consent.NewPseudonyms("a key of at least 32 bytes ........")
	for _, tt := range []struct {
		name   string
		by     consent.Pseudonyms // when the words are deleted
		now    consent.Pseudonyms
		refuse bool
	}{
		{name: "OtherWordsAreRefused", by: key, now: key, refuse: true},
		{name: "OlderReplicaDeletedTheWords", now: key},
		{name: "KeyIsGone", by: key},
		{name: "KeyIsAnother", by: key, now: consent.NewPseudonyms("another key of at least 32 bytes ..")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			code := b.request()
			code.Purpose, code.Body, code.SendAt = outbound.OTP, "Your code is 493817.", b.Clock.Now().Add(time.Minute)
			first := b.codeIsForgotten(code, tt.by)
			b.store.Pseudonyms = tt.now

			again, duplicate, err := b.intake.Enqueue(t.Context(), code)
			require.NoError(t, err)
			require.True(t, duplicate)
			require.Equal(t, first.ID, again.ID)

			code.Body = "Your order shipped."
			_, _, err = b.store.Enqueue(t.Context(), code, uuid.Must(uuid.NewV7()), b.Clock.Now())
			if !tt.refuse {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, outbound.ErrKeyReused)
			_, err = b.store.Repeated(t.Context(), code)
			require.ErrorIs(t, err, outbound.ErrKeyReused, "nor is it when its time has passed")
		})
	}
}

// codeIsForgotten sends a code and deletes its words.
func (b *bundle) codeIsForgotten(code outbound.Request, by consent.Pseudonyms) outbound.Queued {
	b.T.Helper()
	b.store.Pseudonyms = by
	first, _, err := b.intake.Enqueue(b.T.Context(), code)
	require.NoError(b.T, err)
	b.pass(time.Minute, 30*time.Second)
	require.Len(b.T, b.sent(), 1)
	b.Clock.Advance(22 * time.Minute)
	n, err := b.store.ForgetCodes(b.T.Context(), b.Clock.Now().Add(-outbound.CodeValidity), 10)
	require.NoError(b.T, err)
	require.Equal(b.T, 1, n)
	require.Empty(b.T, b.queued(first.ID).Body)
	return first
}
