package consent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	const org, id, words = "org", "id", "Your code is 493817."
	ours, theirs := consent.NewPseudonyms("a key of at least 32 bytes ........"), consent.NewPseudonyms("another key of at least 32 bytes ..")
	digest := ours.Digest(org, id, words)
	require.NotEqual(t, digest, ours.Digest(org, "another", words), "equal words of two rows are not recognised")
	require.NotEqual(t, digest, ours.Digest("another", id, words))
	for _, tt := range []struct {
		name   string
		by     consent.Pseudonyms
		digest string
		words  string
		want   bool
	}{
		{name: "SameWords", by: ours, digest: digest, words: words},
		{name: "OtherWords", by: ours, digest: digest, words: "Your order shipped.", want: true},
		{name: "NoDigestIsUnknown", by: ours, words: "Your order shipped."},
		{name: "AnotherKeyIsUnknown", by: theirs, digest: digest, words: "Your order shipped."},
		{name: "NoKeyIsUnknown", digest: digest, words: "Your order shipped."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.by.Differ(tt.digest, org, id, tt.words))
		})
	}
	require.Empty(t, consent.Pseudonyms{}.Digest(org, id, words), "a hash without a key is guessed")
}
