package consent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// WitnessVersion is the first field of what is hashed of a witness.
const WitnessVersion = "paceline-witness-1"

// Actor is the caller that caused a line, as the ledger and its export have it. The chain does not hash it, because the release before the
// one that notes it verifies the chain too; a witness does.
type Actor struct {
	Subject       string `json:"subject"`
	Role          string `json:"role"`
	ClientAddress string `json:"client_address"`
	RequestID     string `json:"request_id"`
}

// Digest is SHA-256 over the four fields, each as a netstring.
func (a Actor) Digest() string {
	sum := sha256.Sum256([]byte(Netstrings(a.Subject, a.Role, a.ClientAddress, a.RequestID)))
	return hex.EncodeToString(sum[:])
}

// ReadActor reads an actor as it is stored; an empty one means that no call caused the line.
func ReadActor(stored string) (a Actor, err error) {
	if stored == "" {
		return a, nil
	}
	if err := json.Unmarshal([]byte(stored), &a); err != nil {
		return a, fmt.Errorf("the actor of a line: %w", err)
	}
	return a, nil
}

// Trace holds the parts of a witness: the digests of a line and of its actor, which may be kept longer than what they are of.
type Trace struct{ Digest, Actor string }

// Traces returns the traces of the lines of a ledger, from the first.
func Traces(lines []Line) []Trace {
	all := make([]Trace, len(lines))
	digest := NoHash
	for i, l := range lines {
		digest = l.Digest(digest)
		all[i] = Trace{digest, l.Actor.Digest()}
	}
	return all
}

// Witnesses are, for each line of a ledger, the hash of everything up to it, actors included: SHA-256 over WitnessVersion, the witness
// before, the digest of the line and that of its actor, each as a netstring (see Line.Digest). A signed anchor holds a witness of a
// ledger. Postgres computes the same of a ledger that it forgets (migration 0022).
func Witnesses(traces []Trace) []string {
	all := make([]string, len(traces))
	witness := NoHash
	for i, t := range traces {
		sum := sha256.Sum256([]byte(Netstrings(WitnessVersion, witness, t.Digest, t.Actor)))
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
