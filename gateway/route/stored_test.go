package route

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

func macOf(secret string, body []byte) []byte {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write(body)
	return sum.Sum(nil)
}

func TestWebhookKeys(t *testing.T) {
	t.Parallel()
	body := []byte("the raw bytes")

	t.Run("NoSecretIsNoKey", func(t *testing.T) {
		t.Parallel()
		keys, err := NewKeys(config.Secret{})
		require.NoError(t, err)
		require.Empty(t, keys)
		require.False(t, keys.signed(body, macOf("", body)), "a stranger can sign with an empty key")
	})
	t.Run("EachOfSeveralIsAcceptedDuringARotation", func(t *testing.T) {
		t.Parallel()
		keys, err := NewKeys(config.NewSecret("old , new"))
		require.NoError(t, err)
		require.True(t, keys.signed(body, macOf("old", body)))
		require.True(t, keys.signed(body, macOf("new", body)))
		require.False(t, keys.signed(body, macOf("older", body)))
	})
	for _, secret := range []string{"a,", ",a", "a,,b", " ", ","} {
		t.Run("AnEmptyOneIsRefused", func(t *testing.T) {
			t.Parallel()
			_, err := NewKeys(config.NewSecret(secret))
			require.EqualError(t, err, "has an empty secret among those that its commas part")
		})
	}
}

// FuzzKeys checks three things for any body: a MAC under each key is accepted, one with a changed byte is not, and
// neither is one of another length.
func FuzzKeys(f *testing.F) {
	keys, err := NewKeys(config.NewSecret("one, other"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte, at uint) {
		for _, secret := range []string{"one", "other"} {
			mac := macOf(secret, body)
			require.True(t, keys.signed(body, mac))
			require.False(t, keys.signed(body, mac[:len(mac)-1]))
			require.False(t, keys.signed(body, append(mac, 0)))
			require.False(t, keys.signed(append(body, 0), mac))
			mac[at%uint(len(mac))] ^= 1
			require.False(t, keys.signed(body, mac))
		}
		require.False(t, keys.signed(body, macOf("", body)))
		require.False(t, keys.signed(body, macOf("one, other", body)))
		require.False(t, keys.signed(body, nil))
	})
}
