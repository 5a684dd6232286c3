// Package edge reads requests, writes answers and reads rows: the parts of that which every room of messaging needs.
package edge

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/messaging/sms"
)

// Domain is the proto package that the reasons of errors belong to.
const Domain = "paceline.messaging.v1"

const (
	defaultPage = 50
	// LargestPage is the most entries that one page has.
	LargestPage = 500
	// LongestReason bounds an operator's reason, in characters.
	LongestReason = 500
	// LongestMethod bounds a few words about how consent was given, in characters.
	LongestMethod = 100
	// ClockSkew bounds how far another clock may be ahead of our clock.
	ClockSkew = time.Minute
)

// EvidenceLine matches a line of the ledger that holds evidence, below the words. A caller's words must not match it.
var EvidenceLine = regexp.MustCompile(`(?m)^\s*(?:method|reference|source|collected_at):`)

// Invalid complains about a field by name, never by value.
func Invalid(field, problem string) error {
	return fmt.Errorf("%w: %s %s", sms.ErrInvalid, field, problem)
}

// ReadID reads a UUID that must be there.
func ReadID(field, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, Invalid(field, "must be a UUID")
	}
	return id, nil
}

// ReadOptionalID returns uuid.Nil for an empty field.
func ReadOptionalID(field, text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Nil, nil
	}
	return ReadID(field, text)
}

// WriteID is the reverse of ReadOptionalID.
func WriteID(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// ReadPhone reads a number to look something up by, or to note what a person said: what was stored can be read back.
func ReadPhone(field, text string) (sms.Phone, error) {
	phone, err := sms.ReadPhone(text)
	if err != nil {
		return sms.Phone{}, fmt.Errorf("%s: %w", field, err)
	}
	return phone, nil
}

// ReadProfilePhone reads the number of a profile. It was read when the profile was made, and numbering plans change: one that is no number
// any more can still be held, erased and looked up.
func ReadProfilePhone(field, text string) (sms.Phone, error) {
	phone, err := sms.StoredPhone(text)
	if err != nil {
		return sms.Phone{}, fmt.Errorf("%s: %w", field, err)
	}
	return phone, nil
}

// ReadLine reads a field that the ledger keeps on one line.
func ReadLine(field, text string, longest int) (string, error) {
	line := strings.TrimSpace(letters.Compose(text))
	breaks := func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf) }
	visible := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	if !strings.ContainsFunc(line, visible) || utf8.RuneCountInString(line) > longest || strings.ContainsFunc(line, breaks) {
		return "", Invalid(field, fmt.Sprintf("must have 1 to %d characters on one line", longest))
	}
	return line, nil
}

// ReadKey reads an idempotency key to filter by.
func ReadKey(key string) (string, error) {
	if strings.ContainsRune(key, 0) {
		return "", Invalid("idempotency_key", "holds a character that no key has")
	}
	return key, nil
}

// ReadTime reads a time that must be there.
func ReadTime(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if err := at.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("%w: %s: %w", sms.ErrInvalid, field, err)
	}
	return at.AsTime(), nil
}

// WriteTime leaves a zero time out.
func WriteTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// ReadPage reads how many entries a page has and the id behind which it begins, newest first.
func ReadPage(r rpc.List, size int32) (limit int, before uuid.UUID, err error) {
	if limit, err = ReadPageSize(size, defaultPage); err != nil {
		return 0, uuid.Nil, err
	}
	place, err := rpc.PageFrom(r)
	if err != nil || place == "" {
		return limit, uuid.Max, err
	}
	if before, err = uuid.FromBytes([]byte(place)); err != nil {
		return 0, uuid.Nil, rpc.ForeignPage()
	}
	return limit, before, nil
}

// ReadPageSize returns otherwise for an absent size.
func ReadPageSize(size int32, otherwise int) (int, error) {
	switch {
	case size == 0:
		return otherwise, nil
	case size < 0 || size > LargestPage:
		return 0, Invalid("page_size", fmt.Sprintf("must be 1 to %d", LargestPage))
	}
	return int(size), nil
}

// WritePlace makes the token of the page behind an id.
func WritePlace(r rpc.List, last uuid.UUID) string { return rpc.NextPage(r, string(last[:])) }

// Int32 is for counts and codes, which are far smaller.
func Int32(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// Count writes what was counted up to one more than a limit.
func Count(n, limit int) *overviewv1.Count {
	return &overviewv1.Count{Count: int32(min(n, limit)), More: n > limit} //nolint:gosec // at most the limit
}
