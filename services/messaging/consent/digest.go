package consent

import (
	"crypto/hmac"
	"encoding/hex"
	"strings"
)

// Digest returns what may be kept of words that are deleted, by which a holder of the key can tell them from others. A one-time code is
// one of a million, so a hash without a key would keep it. The id is of the row that has the digest: equal words of two rows have
// different ones. It is empty without a key.
func (p Pseudonyms) Digest(orgID, id, words string) string {
	if !p.Known() {
		return ""
	}
	return p.KeyID() + ":" + hex.EncodeToString(p.mac("paceline-words-1", orgID, id, words))
}

// Differ reports whether the words of a digest were others. It is false where that is not known: for an empty digest, and for one of
// another key.
func (p Pseudonyms) Differ(digest, orgID, id, words string) bool {
	ours := p.Known() && strings.HasPrefix(digest, p.KeyID()+":")
	return ours && !hmac.Equal([]byte(digest), []byte(p.Digest(orgID, id, words)))
}
