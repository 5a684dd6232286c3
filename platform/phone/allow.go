package phone

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
)

// Prefixes are the beginnings of numbers, in E.164, that are taken although the numbering plans of this release do not have them.
type Prefixes []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Prefixes) UnmarshalText(text []byte) error {
	for _, prefix := range listed(string(text)) {
		digits, plus := strings.CutPrefix(prefix, "+")
		if !plus || len(digits) < 2 || len(digits) > 10 || digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
			return errors.New("it must list beginnings of numbers with + and the country code, such as +1861,+1436")
		}
		*p = append(*p, prefix)
	}
	return nil
}

// extra is process-wide, as the numbering plans are that it completes.
var extra atomic.Pointer[Prefixes]

// Allow makes Parse take numbers that begin with one of the prefixes, as long as their length is possible. A process calls it once, with
// its settings, before it serves.
func Allow(p Prefixes) { extra.Store(&p) }

func allowed(e164 string) bool {
	p := extra.Load()
	return p != nil && slices.ContainsFunc(*p, func(prefix string) bool { return strings.HasPrefix(e164, prefix) })
}
