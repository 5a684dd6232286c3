package consent

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Pseudonyms makes the name that an erased person keeps: one that whoever has the key can make of the number again, and nobody else. It is
// how a STOP outlives the number that it was for. The zero value has no key.
type Pseudonyms struct{ key []byte }

// NewPseudonyms makes pseudonyms with PSEUDONYM_KEY; none with an empty one.
func NewPseudonyms(key string) Pseudonyms { return Pseudonyms{[]byte(key)} }

// Known reports whether there is a key.
func (p Pseudonyms) Known() bool { return len(p.key) > 0 }

// Of is the pseudonym of a phone in an organisation; it is no phone.
func (p Pseudonyms) Of(orgID, phone string) string {
	return "erased:" + hex.EncodeToString(p.mac("paceline-pseudonym-1", orgID, phone))
}

// KeyID tells one key from another, and nothing else of it; empty without a key.
func (p Pseudonyms) KeyID() string {
	if !p.Known() {
		return ""
	}
	return hex.EncodeToString(p.mac("paceline-pseudonym-key-1")[:8])
}

// mac is the HMAC-SHA256 over the fields, each as a netstring: see Line.Digest.
func (p Pseudonyms) mac(fields ...string) []byte {
	mac := hmac.New(sha256.New, p.key)
	for _, field := range fields {
		mac.Write([]byte(strconv.Itoa(len(field)) + ":" + field + ","))
	}
	return mac.Sum(nil)
}

// ErasedLine is what is left of a line whose person was erased.
type ErasedLine struct {
	Seq            int64
	At             time.Time
	State          string
	Source         string
	PrevHash, Hash string // in hexadecimal
	Trace          Trace  // as it was when it was erased: not of Hash where the chain did not hold
}

// ErasedLedger is what is left of a ledger. What the lines said cannot be hashed again, for the words and the number are gone; so their
// hashes are kept as links, and a seal under the key of the pseudonyms holds the links, and what is left of the lines, as they were when
// they were erased. BrokenAt says that the chain did not hold then.
type ErasedLedger struct {
	OrgID     string
	Pseudonym string
	ErasedAt  time.Time
	State     string
	BrokenAt  int64 // of the first line that did not hold when it was erased; 0 when all did
	Lines     []ErasedLine
	Seal      []byte
}

// Erase leaves of a ledger what may be kept, and seals it.
func (p Pseudonyms) Erase(lines []Line, c Chain, state string, at time.Time) ErasedLedger {
	e := ErasedLedger{ErasedAt: at.UTC().Truncate(time.Microsecond), State: state} // as Postgres keeps it
	if broken := Verify(lines, c); broken != nil {
		e.BrokenAt = broken.Seq
	}
	prev, traces := NoHash, Traces(lines)
	for i, l := range lines {
		e.OrgID, e.Pseudonym = l.OrgID, p.Of(l.OrgID, l.Phone)
		left := ErasedLine{Seq: l.Seq, At: l.At, State: l.State, Source: l.Source, PrevHash: l.PrevHash, Hash: l.Hash, Trace: traces[i]}
		if l.Hash == "" { // from before there were chains
			left.PrevHash, left.Hash = prev, l.Digest(prev)
		}
		e.Lines, prev = append(e.Lines, left), left.Hash
	}
	e.Seal = p.seal(e)
	return e
}

func (p Pseudonyms) seal(e ErasedLedger) []byte {
	fields := []string{
		"paceline-erased-ledger-1", e.OrgID, e.Pseudonym, strconv.FormatInt(e.ErasedAt.UnixMicro(), 10), e.State,
		strconv.FormatInt(e.BrokenAt, 10), strconv.Itoa(len(e.Lines)),
	}
	for _, l := range e.Lines {
		fields = append(fields, strconv.FormatInt(l.Seq, 10), strconv.FormatInt(l.At.UnixMicro(), 10), l.State, l.Source, l.PrevHash, l.Hash,
			l.Trace.Digest, l.Trace.Actor)
	}
	return p.mac(fields...)
}

// VerifyErased reports where what is left of a ledger does not hold; nil when it does.
func (p Pseudonyms) VerifyErased(e ErasedLedger) *Break {
	if e.BrokenAt > 0 {
		return &Break{e.BrokenAt, "the chain did not hold when the person was erased"}
	}
	prev := NoHash
	for i, l := range e.Lines {
		switch want := int64(i + 1); {
		case l.Seq != want:
			return &Break{want, "the line is missing"}
		case !strings.EqualFold(l.PrevHash, prev):
			return &Break{want, "it does not follow from the line before it"}
		}
		prev = l.Hash
	}
	if !hmac.Equal(e.Seal, p.seal(e)) {
		return &Break{int64(len(e.Lines)), fmt.Sprintf("the seal is not that of these %d lines under this PSEUDONYM_KEY", len(e.Lines))}
	}
	return nil
}
