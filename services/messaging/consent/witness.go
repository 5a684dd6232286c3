package consent

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// WitnessVersion is the first field of what is hashed of a witness.
const WitnessVersion = "paceline-witness-1"

// Actor is whose call caused a line, as the ledger and its export have it. The chain does not hash it, because the release before the one
// that notes it verifies the chain too; a witness does.
type Actor struct {
	Subject       string `json:"subject"`
	Role          string `json:"role"`
	ClientAddress string `json:"client_address"`
	RequestID     string `json:"request_id"`
}

// Witnesses are, for each line of a ledger, the hash of everything up to it, actors included: SHA-256 over WitnessVersion, the witness
// before, the digest of the line and the four fields of its actor, each as a netstring (see Line.Digest). A witness is what a signed
// anchor holds of a ledger.
func Witnesses(lines []Line) []string {
	all := make([]string, len(lines))
	digest, witness := NoHash, NoHash
	for i, l := range lines {
		digest = l.Digest(digest)
		by := l.Actor
		sum := sha256.Sum256([]byte(Netstrings(WitnessVersion, witness, digest, by.Subject, by.Role, by.ClientAddress, by.RequestID)))
		witness = hex.EncodeToString(sum[:])
		all[i] = witness
	}
	return all
}

// Netstrings are fields so that none can run into the next: the length in bytes, a colon, the field, a comma.
func Netstrings(fields ...string) string {
	var b strings.Builder
	for _, field := range fields {
		b.WriteString(strconv.Itoa(len(field)))
		b.WriteByte(':')
		b.WriteString(field)
		b.WriteByte(',')
	}
	return b.String()
}
