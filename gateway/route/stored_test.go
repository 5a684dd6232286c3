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
		require.Empty(t, keys.signers(body, macOf("", body)), "a stranger can sign with an empty key")
	})
	t.Run("EachOfSeveralIsAcceptedDuringARotation", func(t *testing.T) {
		t.Parallel()
		keys, err := NewKeys(config.NewSecret("old , new"))
		require.NoError(t, err)
		require.NotEmpty(t, keys.signers(body, macOf("old", body)))
		require.NotEmpty(t, keys.signers(body, macOf("new", body)))
		require.Empty(t, keys.signers(body, macOf("older", body)))
	})
	t.Run("OneWithAnOrganisationSignsForItAlone", func(t *testing.T) {
		t.Parallel()
		const acme, bob = "01900000-0000-7000-8000-0000000000aa", "01900000-0000-7000-8000-0000000000bb"
		const hexadecimal = "0123456789abcdef0123456789abcdef" // a plain secret, as Shopify's are
		keys, err := NewKeys(config.NewSecret(acme + "=a=b=, base64==, " + hexadecimal + "," + acme))
		require.NoError(t, err)
		require.True(t, keys.signers(body, macOf("a=b=", body)).signFor(acme))
		require.False(t, keys.signers(body, macOf("a=b=", body)).signFor(bob))
		for _, plain := range []string{"base64==", hexadecimal, acme} {
			require.True(t, keys.signers(body, macOf(plain, body)).signFor(bob), plain)
		}
		for wrong, want := range map[string]string{
			"acme=a": "has an organisation that is no UUID: write SECRET or ORG_ID=SECRET", "=a": "has an organisation that is no UUID: write SECRET or ORG_ID=SECRET",
			acme + "=": "has an organisation without a secret",
		} {
			_, err := NewKeys(config.NewSecret(wrong))
			require.EqualError(t, err, want)
		}
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
			require.NotEmpty(t, keys.signers(body, mac))
			require.Empty(t, keys.signers(body, mac[:len(mac)-1]))
			require.Empty(t, keys.signers(body, append(mac, 0)))
			require.Empty(t, keys.signers(append(body, 0), mac))
			mac[at%uint(len(mac))] ^= 1
			require.Empty(t, keys.signers(body, mac))
		}
		require.Empty(t, keys.signers(body, macOf("", body)))
		require.Empty(t, keys.signers(body, macOf("one, other", body)))
		require.Empty(t, keys.signers(body, nil))
	})
}
