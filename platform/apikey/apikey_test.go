package apikey_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/apikey"
)

func TestParse(t *testing.T) {
	t.Parallel()
	key, err := apikey.New()
	require.NoError(t, err)
	hash, err := apikey.Parse(key)
	require.NoError(t, err)
	require.Equal(t, apikey.Hash(sha256.Sum256([]byte(key))), hash)
	require.True(t, strings.HasSuffix(key, apikey.End(key)))

	for _, wrong := range []string{"", "pl_live_", key[:len(key)-1], key + "0", strings.ToUpper(key), "pl_test_" + key[8:], key[:20] + "-" + key[21:]} {
		_, err := apikey.Parse(wrong)
		require.ErrorIs(t, err, apikey.ErrMalformed, wrong)
	}
}

// TestOneWrongCharacter checks that a key with one character changed is never taken for another key.
func TestOneWrongCharacter(t *testing.T) {
	t.Parallel()
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	rapid.Check(t, func(t *rapid.T) {
		key, err := apikey.New()
		require.NoError(t, err)
		at := rapid.IntRange(len(apikey.Prefix), len(key)-1).Draw(t, "at")
		letter := rapid.SampledFrom([]byte(letters)).Filter(func(b byte) bool { return b != key[at] }).Draw(t, "letter")
		_, err = apikey.Parse(key[:at] + string(letter) + key[at+1:])
		require.ErrorIs(t, err, apikey.ErrMalformed)
	})
}
