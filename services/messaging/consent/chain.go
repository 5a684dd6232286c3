package consent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ChainVersion is the first field of what is hashed of a line, and names the encoding. Another encoding would be another version.
const ChainVersion = "paceline-consent-1"

// Line is one line of the ledger of a phone as it is hashed. The lines of one phone in one organisation are a chain: each has the
// hash of the one before it, so that none can be changed, taken out, put in or moved without every later hash being wrong; and
// the ledger knows how many there are and the last hash, so that none is missing at the end.
type Line struct {
	OrgID        string // UUID in lower case
	Phone        string // E.164
	Seq          int64  // from 1
	At           time.Time
	State        string
	Source       string
	Words        string
	Sender       string
	MessageID    string // UUID in lower case; may be empty
	KeywordPack  string
	Rules        string // version of the revocation rules; may be empty
	ConfirmedBy  string
	Confirmation string
	// PrevHash and Hash are in hexadecimal. Both are empty in a line that was written before there were chains: it is hashed all
	// the same, and the first line after it, or the ledger's last hash, tells whether it is unchanged.
	PrevHash, Hash string
	Actor          Actor // not part of the hash, see Witnesses
}

// NoHash stands for the hash before the first line.
var NoHash = strings.Repeat("0", 2*sha256.Size)

// Digest is the hash of the line after one with the hash prev. What is hashed is SHA-256 over the fields, in UTF-8 and in this
// order, each as a netstring (its length in bytes, a colon, itself, a comma): ChainVersion, OrgID, Phone, Seq, At in
// microseconds since 1970 UTC, State, Source, Words, Sender, MessageID, KeywordPack, Rules, ConfirmedBy, Confirmation, prev.
// Postgres computes the same when it writes a line (migration 0005), so that the two check each other.
func (l Line) Digest(prev string) string {
	sum := sha256.Sum256([]byte(Netstrings(
		ChainVersion, l.OrgID, l.Phone, strconv.FormatInt(l.Seq, 10), strconv.FormatInt(l.At.UnixMicro(), 10), l.State, l.Source, l.Words,
		l.Sender, l.MessageID, l.KeywordPack, l.Rules, l.ConfirmedBy, l.Confirmation, prev,
	)))
	return hex.EncodeToString(sum[:])
}

// Chain is the record that a ledger keeps besides its lines: the number of them, and the hash of the last one.
type Chain struct {
	Length int64
	Head   string // empty when nothing has been sealed yet: then there are only lines from before there were chains
	State  string // what a send obeys; empty where it is not known
}

// Break is the first place where a chain does not hold.
type Break struct {
	Seq int64  // of the line that is wrong or missing
	Why string // in words
}

// Verify recomputes the chain of one phone from its first line, and reports where it breaks; nil when it holds.
func Verify(lines []Line, c Chain) *Break {
	prev, sealed := NoHash, false
	for i, l := range lines {
		want := int64(i + 1)
		switch {
		case l.Seq > want:
			return &Break{want, "the line is missing"}
		case l.Seq < want:
			return &Break{want, "the line stands where another has to be"}
		case l.OrgID != lines[0].OrgID || l.Phone != lines[0].Phone:
			return &Break{want, "the line is of another ledger"}
		case l.Hash == "" && sealed:
			return &Break{want, "the line has no hash, although the one before it has"}
		case l.Hash != "" && l.PrevHash != prev:
			return &Break{want, "it does not follow from the line before it: that one, or one earlier, was changed"}
		}
		digest := l.Digest(prev)
		if l.Hash != "" && l.Hash != digest {
			return &Break{want, "the line was changed: its hash is not the hash of what it says"}
		}
		prev, sealed = digest, sealed || l.Hash != ""
	}
	n := int64(len(lines))
	switch {
	case n > 0 && c.State != "" && c.State != lines[n-1].State && n >= c.Length:
		return &Break{n, fmt.Sprintf("the state is not what the ledger says: it is %s, and the last line says %s", c.State, lines[n-1].State)}
	case c.Head == "" && !sealed:
		return nil
	case n < c.Length:
		return &Break{n + 1, fmt.Sprintf("the ledger has had %d lines, and only %d are left", c.Length, n)}
	case n > c.Length:
		return &Break{c.Length + 1, fmt.Sprintf("the ledger counts %d lines, and has %d", c.Length, n)}
	case c.Head != prev:
		return &Break{n, "the last hash is not the one that the ledger ends with"}
	}
	return nil
}

// ErrExport is the error for everything that is not an export.
var ErrExport = errors.New("this is no export of a consent ledger")

// export is the answer of GET /v1/consents/{phone}, as far as it is needed here.
type export struct {
	Consent struct {
		Phone string `json:"phone"`
		State string `json:"state"`
	} `json:"consent"`
	Events []struct {
		At           time.Time `json:"at"`
		State        string    `json:"state"`
		Source       string    `json:"source"`
		Words        string    `json:"words"`
		Sender       string    `json:"sender"`
		MessageID    string    `json:"message_id"`
		Seq          int64     `json:"seq"`
		KeywordPack  string    `json:"keyword_pack"`
		RulesVersion string    `json:"rules_version"`
		ConfirmedBy  string    `json:"confirmed_by"`
		Confirmation string    `json:"confirmation"`
		PrevHash     string    `json:"prev_hash"`
		Hash         string    `json:"hash"`
		Actor        Actor     `json:"actor"`
	} `json:"events"`
	Chain *struct {
		OrgID  string `json:"org_id"`
		Length int64  `json:"length"`
		Head   string `json:"head"`
	} `json:"chain"`
}

// ReadExport reads the answers of GET /v1/consents/{phone}: one page after the other, in any order. ErrExport for what it cannot read.
func ReadExport(r io.Reader) (lines []Line, chain Chain, err error) {
	pages := 0
	for d := json.NewDecoder(r); ; pages++ {
		var page export
		if err := d.Decode(&page); errors.Is(err, io.EOF) && pages > 0 {
			break
		} else if err != nil {
			return nil, chain, fmt.Errorf("%w: %w", ErrExport, err)
		}
		if page.Chain == nil || page.Chain.OrgID == "" || page.Consent.Phone == "" {
			return nil, chain, fmt.Errorf("%w: it has no chain", ErrExport)
		}
		if pages == 0 || page.Chain.Length >= chain.Length { // of pages in any order, that which was read last
			chain = Chain{page.Chain.Length, page.Chain.Head, page.Consent.State}
		}
		for _, e := range page.Events {
			lines = append(lines, Line{
				OrgID: page.Chain.OrgID, Phone: page.Consent.Phone, Seq: e.Seq, At: e.At, State: e.State, Source: e.Source, Words: e.Words,
				Sender: e.Sender, MessageID: e.MessageID, KeywordPack: e.KeywordPack, Rules: e.RulesVersion, ConfirmedBy: e.ConfirmedBy,
				Confirmation: e.Confirmation, PrevHash: e.PrevHash, Hash: e.Hash, Actor: e.Actor,
			})
		}
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(a.Seq, b.Seq) })
	return lines, chain, nil
}
