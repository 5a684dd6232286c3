package people

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"paceline.internal/platform/letters"
)

// ErrConsent is wrapped by every refusal of a consent record's fields; the text says what to change.
var ErrConsent = errors.New("invalid consent record")

// ConsentRecord is the record of a person's agreement to get messages, for the ledger. The zero value means that the caller did not say.
type ConsentRecord struct {
	Source      string    `json:"source"`
	WordsShown  string    `json:"words_shown"`
	CollectedAt time.Time `json:"collected_at"`
}

const (
	maxConsentSource = 100
	maxWordsShown    = 1000
	// clockSkew sets how far the clock of the system that collected a consent may be ahead of our clock.
	clockSkew = time.Minute
)

// evidenceLine matches a line of evidence as the ledger writes it below the words: no words may read like it.
var evidenceLine = regexp.MustCompile(`(?m)^\s*(?:method|reference|source|collected_at):`)

// Normalise validates how a person agreed; messaging takes what passes here. All problems are reported at once, in an ErrConsent.
func (c ConsentRecord) Normalise(now time.Time) (ConsentRecord, error) {
	c.Source, c.WordsShown = strings.TrimSpace(letters.Compose(c.Source)), strings.TrimSpace(letters.Compose(c.WordsShown))
	breaks := func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf) }
	visible := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	var problems []string
	if !strings.ContainsFunc(c.Source, visible) ||
		utf8.RuneCountInString(c.Source) > maxConsentSource || strings.ContainsFunc(c.Source, breaks) {
		problems = append(problems, fmt.Sprintf("consent.source must have 1 to %d characters on one line", maxConsentSource))
	}
	if c.WordsShown == "" || utf8.RuneCountInString(c.WordsShown) > maxWordsShown || strings.ContainsRune(c.WordsShown, 0) {
		problems = append(problems, fmt.Sprintf("consent.words_shown must have 1 to %d characters", maxWordsShown))
	}
	if evidenceLine.MatchString(c.WordsShown) {
		problems = append(problems, "consent.words_shown must have no line that begins like a line of evidence, such as source:")
	}
	if c.CollectedAt.IsZero() || c.CollectedAt.After(now.Add(clockSkew)) {
		problems = append(problems,
			"consent.collected_at must be when the person agreed, in RFC 3339 such as 2026-11-20T12:00:00Z, and not in the future")
	}
	if len(problems) > 0 {
		return c, fmt.Errorf("%w: %s", ErrConsent, strings.Join(problems, "; "))
	}
	return c, nil
}
