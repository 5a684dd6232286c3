package anchor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
)

// most sets how many findings a report has; more are counted alone.
const most = 1000

// Find returns the ledgers of these names, as far as they are there.
type Find func(ctx context.Context, names []uuid.UUID) (map[uuid.UUID]Ledger, error)

// Report is the result of holding the ledgers against the anchors.
type Report struct {
	Statements, Entries int
	Unreadable          int      // lines of which a crash may have left a part; a statement that is missing is its own finding
	Findings            []string // empty when each ledger is as it was anchored
	More                int      // findings beyond those
	Lawful              []string // ledgers that were deleted lawfully, as what is left of them says; at most as many
	MoreLawful          int      // beyond those
	Untold              int      // ledgers that were erased and that cannot be read without the key
}

func (r *Report) findf(format string, args ...any) {
	if len(r.Findings) == most {
		r.More++
		return
	}
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

// tell adds the ledgers that were deleted lawfully, but for those that are found already.
func (r *Report) tell(gone map[uuid.UUID]Ledger, wrong map[uuid.UUID]bool) {
	for _, name := range sorted(gone) {
		l := gone[name]
		switch {
		case wrong[name]:
		case l.Left.Sealed:
			r.Untold++
		default:
			r.tellf("ledger %s of organisation %s: %s lawfully at %s: %d lines, witness fits",
				name, l.OrgID, l.Left.How, stamp(l.Left.At), len(l.Left.Witnesses))
		}
	}
}

func (r *Report) tellf(format string, args ...any) {
	if len(r.Lawful) == most {
		r.MoreLawful++
		return
	}
	r.Lawful = append(r.Lawful, fmt.Sprintf(format, args...))
}

func sorted(ledgers map[uuid.UUID]Ledger) []uuid.UUID {
	return slices.SortedFunc(maps.Keys(ledgers), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
}

// Check names the anchors, and the ledgers that are held against them.
type Check struct {
	Dir   string // with the files of all replicas
	Keys  []ed25519.PublicKey
	Find  Find
	Only  uuid.UUID        // the one ledger that is looked at; uuid.Nil for all
	Known map[int64]string // the hashes of the statements that the database says there are, by their numbers; nil without a database
	// Claimed goes through the ledgers of which the database says that anchors hold some lines, with how many; nil without a database.
	Claimed func(ctx context.Context, each func(name uuid.UUID, lines int)) error
	// Contradicted goes through the ledgers that end in a line with another state than the one that a send obeys; nil without a database.
	Contradicted func(ctx context.Context, each func(name, orgID uuid.UUID, state, said string)) error
	// Gone goes through the ledgers that the database says were deleted lawfully; nil without a database.
	Gone func(ctx context.Context, each func(Ledger)) error
}

// Verify reads all files of the folder and holds the ledgers against them.
func (c Check) Verify(ctx context.Context) (Report, error) {
	var r Report
	hashes, follows, wrong, gone := map[string]bool{}, map[string]int64{}, map[uuid.UUID]bool{}, map[uuid.UUID]Ledger{}
	held := map[uuid.UUID]int{} // the lines of each ledger that an anchor holds
	err := statements(c.Dir, c.Keys, &r, func(s *Statement) error {
		r.Statements++
		r.Entries += len(s.Ledgers)
		hashes[s.Hash()] = true
		follows[s.Previous] = s.Number
		if s.Previous == "" && s.Number != 1 {
			r.findf("anchor %d of %s begins anew, as after a loss of the database's own list", s.Number, stamp(s.At))
		}
		entries := s.Ledgers
		if c.Only != uuid.Nil {
			entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Ledger != c.Only })
		}
		names := make([]uuid.UUID, len(entries))
		for i, e := range entries {
			names[i], held[e.Ledger] = e.Ledger, max(held[e.Ledger], e.Lines)
		}
		found, err := c.Find(ctx, names)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if why := e.contradicts(found); why != "" && !wrong[e.Ledger] {
				wrong[e.Ledger] = true
				r.findf("ledger %s: %s, as anchor %d of %s holds it", e.Ledger, why, s.Number, stamp(s.At))
			}
			if l := found[e.Ledger]; l.Left != nil {
				gone[e.Ledger] = l
			}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.tell(gone, wrong)
	if c.Claimed != nil {
		err = c.beyond(ctx, &r, held)
	}
	for previous, number := range follows {
		if previous != "" && !hashes[previous] {
			r.findf("the anchor before anchor %d is missing, or was changed", number)
		}
	}
	for number, hash := range c.Known {
		if !hashes[hash] {
			r.findf("anchor %d, which the database knows, is in no file", number)
		}
	}
	return r, err
}

// beyond holds what the database says that anchors hold against what they do: a row that says more keeps new lines of its ledger out of
// anchors. And it tells of the ledgers that were gone before their first anchor, of which no anchor can say whether that was lawful. The
// files are read again for those, because an anchor may have been written since.
func (c Check) beyond(ctx context.Context, r *Report, held map[uuid.UUID]int) error {
	more, gone := map[uuid.UUID]int{}, map[uuid.UUID]Ledger{}
	err := errors.Join(c.Claimed(ctx, func(name uuid.UUID, lines int) {
		if lines > held[name] {
			more[name] = lines
		}
	}), c.Gone(ctx, func(l Ledger) {
		if held[l.ID] == 0 {
			gone[l.ID] = l
		}
	}), c.Contradicted(ctx, func(name, orgID uuid.UUID, state, said string) {
		r.findf("ledger %s of organisation %s: the state is not what the ledger says: it is %s, and the last line says %s",
			name, orgID, state, said)
	}))
	if err != nil || len(more)+len(gone) == 0 {
		return err
	}
	err = statements(c.Dir, c.Keys, new(Report), func(s *Statement) error {
		for _, e := range s.Ledgers {
			held[e.Ledger] = max(held[e.Ledger], e.Lines)
		}
		return nil
	})
	for name, lines := range more {
		if lines > held[name] {
			r.findf("ledger %s: the database says that %d of its lines are anchored, and anchors hold %d", name, lines, held[name])
		}
	}
	maps.DeleteFunc(gone, func(name uuid.UUID, _ Ledger) bool { return held[name] > 0 })
	for _, name := range sorted(gone) {
		r.tellf("ledger %s of organisation %s: %s at %s, and no anchor ever held it", name, gone[name].OrgID, gone[name].Left.How,
			stamp(gone[name].Left.At))
	}
	return err
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z07:00") }

// contradicts returns the difference between a ledger and an entry; empty when there is none.
func (e Entry) contradicts(found map[uuid.UUID]Ledger) string {
	l, there := found[e.Ledger]
	if !there {
		return fmt.Sprintf("it is deleted, and had %d lines", e.Lines)
	}
	of, witnesses := fmt.Sprintf("of organisation %s: ", l.OrgID), l.witnesses()
	if l.Left != nil {
		of += fmt.Sprintf("%s at %s; of what is left, ", l.Left.How, stamp(l.Left.At))
	}
	switch {
	case l.Left != nil && l.Left.Sealed:
		return ""
	case l.Left != nil && l.Left.Problem != nil:
		return of + l.Left.Problem.Error()
	case len(witnesses) < e.Lines:
		return of + fmt.Sprintf("it has %d lines, and had %d", len(witnesses), e.Lines)
	case e.Lines < 1 || witnesses[e.Lines-1] != e.Witness:
		return of + fmt.Sprintf("it was rewritten: its first %d lines are not those", e.Lines)
	}
	return ""
}

// statements reads all files in order. What is not signed by a key is a finding, and counts as missing.
func statements(dir string, keys []ed25519.PublicKey, r *Report, each func(*Statement) error) error {
	files, err := filepath.Glob(filepath.Join(dir, "anchors-*.jsonl")) // sorted
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no file of anchors", dir)
	}
	for _, file := range files {
		if err := statementsOf(file, keys, r, each); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func statementsOf(file string, keys []ed25519.PublicKey, r *Report, each func(*Statement) error) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var s Statement
		switch {
		case json.Unmarshal(line, &s) != nil:
			r.Unreadable++
		case !s.signedBy(keys):
			r.findf("%s, line %d: it is not signed by a key that is believed", filepath.Base(file), n)
		default:
			if err := each(&s); err != nil {
				return err
			}
		}
	}
}

// OfExport is the ledger of an export for Verify: an export does not say its name, so it is known by a witness that an anchor holds. The
// name is uuid.Nil when none does.
func OfExport(dir string, keys []ed25519.PublicKey, lines []consent.Line) (name uuid.UUID, newest int, err error) {
	ours := map[string]bool{}
	for _, w := range consent.Witnesses(consent.Traces(lines)) {
		ours[w] = true
	}
	err = statements(dir, keys, &Report{}, func(s *Statement) error {
		for _, e := range s.Ledgers {
			if ours[e.Witness] {
				name, newest = e.Ledger, max(newest, e.Lines)
			}
		}
		return nil
	})
	return name, newest, err
}
