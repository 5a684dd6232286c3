package consent

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Pseudonyms makes the name that an erased person keeps. Only a holder of the key can make it of the number again. By it a STOP
// outlives the number that it was for. The zero value has no key.
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

// ErasedLine is the rest of a line after the person was erased.
type ErasedLine struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	State    string    `json:"state"`
	Source   string    `json:"source"`
	PrevHash string    `json:"prev"` // these four in hexadecimal
	Hash     string    `json:"hash"`
	Digest   string    `json:"digest"` // as it was when it was erased: not Hash where the chain did not hold
	Actor    string    `json:"actor"`
}

// ErasedLedger holds what is left of a ledger. What the lines said cannot be hashed again, for the words and the number are gone; so their
// hashes are kept as links. An attacker with a hash and all else that went into it finds the number by trying all numbers, so the lines
// are encrypted under the key of the pseudonyms, which holds them and the other fields as they were.
type ErasedLedger struct {
	ID        string // UUID in lower case, as OrgID
	OrgID     string
	Pseudonym string
	ErasedAt  time.Time
	State     string
	BrokenAt  int64 // of the first line that did not hold when it was erased; 0 when all did
	Length    int64
	Lines     []byte // of ErasedLine in JSON: AES-256-GCM after its nonce
}

// Erase leaves of the ledger of this name what may be kept.
func (p Pseudonyms) Erase(id string, lines []Line, c Chain, state string, at time.Time) (ErasedLedger, error) {
	e := ErasedLedger{ // the time is as Postgres keeps it
		ID: id, ErasedAt: at.UTC().Truncate(time.Microsecond), State: state, Length: int64(len(lines)),
	}
	if broken := Verify(lines, c); broken != nil {
		e.BrokenAt = broken.Seq
	}
	left, prev, traces := make([]ErasedLine, len(lines)), NoHash, Traces(lines)
	for i, l := range lines {
		e.OrgID, e.Pseudonym = l.OrgID, p.Of(l.OrgID, l.Phone)
		left[i] = ErasedLine{l.Seq, l.At, l.State, l.Source, l.PrevHash, l.Hash, traces[i].Digest, traces[i].Actor}
		if l.Hash == "" { // from before there were chains
			left[i].PrevHash, left[i].Hash = prev, l.Digest(prev)
		}
		prev = left[i].Hash
	}
	text, err := json.Marshal(left)
	if err != nil {
		return e, err
	}
	sealing, err := p.cipher()
	if err == nil {
		e.Lines = sealing.Seal(nil, nil, text, e.open()) //nolint:gosec // it draws the nonce itself
	}
	return e, err
}

// cipher is under its own key.
func (p Pseudonyms) cipher() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, p.key, nil, "paceline-erased-ledger-1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// open returns what is not encrypted, and held all the same.
func (e ErasedLedger) open() []byte {
	return []byte(Netstrings(e.ID, e.OrgID, e.Pseudonym, strconv.FormatInt(e.ErasedAt.UnixMicro(), 10), e.State,
		strconv.FormatInt(e.BrokenAt, 10), strconv.FormatInt(e.Length, 10)))
}

// ErrSealed means that the lines of an erased ledger cannot be read.
var ErrSealed = errors.New("it is not what was sealed under this PSEUDONYM_KEY")

// Left are the lines of an erased ledger; ErrSealed when they, or what is known of the whole, are not as they were under this key.
func (p Pseudonyms) Left(e ErasedLedger) (lines []ErasedLine, err error) {
	sealing, err := p.cipher()
	if err != nil {
		return nil, err
	}
	text, err := sealing.Open(nil, nil, e.Lines, e.open())
	if err != nil {
		return nil, ErrSealed
	}
	return lines, json.Unmarshal(text, &lines)
}

// VerifyErased reports where what is left of a ledger does not hold; nil when it does.
func (p Pseudonyms) VerifyErased(e ErasedLedger) *Break {
	lines, err := p.Left(e)
	switch {
	case err != nil:
		return &Break{e.Length, err.Error()}
	case e.BrokenAt > 0:
		return &Break{e.BrokenAt, "the chain did not hold when the person was erased"}
	}
	prev := NoHash
	for i, l := range lines {
		switch want := int64(i + 1); {
		case l.Seq != want:
			return &Break{want, "the line is missing"}
		case !strings.EqualFold(l.PrevHash, prev):
			return &Break{want, "it does not follow from the line before it"}
		}
		prev = l.Hash
	}
	return nil
}
