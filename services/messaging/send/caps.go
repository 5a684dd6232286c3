package send

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"paceline.internal/platform/phone"
	"paceline.internal/services/messaging/sms"
)

// Cap bounds what is sent within a time, in messages and in segments. The zero value bounds nothing.
type Cap struct{ Messages, Segments int }

// mostOfACap keeps a cap of one phone a number of rows that a claim can count, and every cap within the columns of the counters.
const mostOfACap = 1_000_000_000

// oneTimeCode is the purpose of a code with which a person signs in.
const oneTimeCode = "otp"

// UnmarshalText implements encoding.TextUnmarshaler: 30:90, or 0 for none.
func (c *Cap) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*c = Cap{}
		return nil
	}
	messages, segments, _ := strings.Cut(string(text), ":")
	m, mErr := strconv.Atoi(messages)
	s, sErr := strconv.Atoi(segments)
	if mErr != nil || sErr != nil || m < 1 || s < 1 || m > mostOfACap || s > mostOfACap {
		return errors.New("it must be messages:segments, such as 30:90, or 0 for no cap")
	}
	*c = Cap{Messages: m, Segments: s}
	return nil
}

// String is the cap in words.
func (c Cap) String() string {
	return fmt.Sprintf("%d messages or %d segments", c.Messages, c.Segments)
}

// PrefixCap bounds what is sent to the numbers that begin so.
type PrefixCap struct {
	Cap

	Prefix string // such as +44
}

// PrefixCaps are several, the longest prefix first: a number is counted by the first one that it begins with.
type PrefixCaps []PrefixCap

var prefixForm = regexp.MustCompile(`^\+[1-9][0-9]{0,14}$`)

// UnmarshalText implements encoding.TextUnmarshaler: +44=100:300,+1=1000:3000.
func (p *PrefixCaps) UnmarshalText(text []byte) error {
	for entry := range strings.SplitSeq(string(text), ",") {
		prefix, bound, _ := strings.Cut(strings.TrimSpace(entry), "=")
		c := PrefixCap{Prefix: prefix}
		if err := c.UnmarshalText([]byte(bound)); err != nil || !prefixForm.MatchString(prefix) {
			return errors.New("it must list prefixes of numbers with messages:segments, such as +44=100:300,+1=1000:3000")
		}
		*p = append(*p, c)
	}
	slices.SortFunc(*p, func(a, b PrefixCap) int { return cmp.Compare(len(b.Prefix), len(a.Prefix)) })
	return nil
}

// Caps bound what is sent: to each phone from the start, to a prefix and by an organisation where it is set.
type Caps struct {
	PhoneHour  Cap        `env:"SMS_CAP_PHONE_HOUR" envDefault:"30:90" help:"cap for a phone within any hour, messages:segments; more waits; 0 for none"`
	PhoneDay   Cap        `env:"SMS_CAP_PHONE_DAY" envDefault:"100:300" help:"the same within any 24 hours"`
	OrgHour    Cap        `env:"SMS_CAP_ORG_HOUR" help:"cap for an organisation in a clock hour, messages:segments"`
	PrefixHour PrefixCaps `env:"SMS_CAP_PREFIX_HOUR" help:"caps in a clock hour by prefix, such as +44=100:300,+1=1000:3000; the longest counts"`
}

// Limits are the caps of one message.
type Limits struct {
	PhoneHour, PhoneDay, OrgHour Cap

	PrefixHour PrefixCap
}

// Shared reports whether the message is counted together with those to other phones.
func (l Limits) Shared() bool { return l.OrgHour != Cap{} || l.PrefixHour.Cap != Cap{} }

// What one-time codes may take beyond a full cap, so that reminders do not keep a person from signing in. The caps of a prefix have no such
// room: they are set against callers who make us send codes to numbers that earn by them.
var (
	codesPerHour = Cap{Messages: 5, Segments: 10}
	codesPerDay  = Cap{Messages: 20, Segments: 40}
)

// codesPart bounds what the codes of an organisation may take beyond its cap: a tenth.
const codesPart = 10

// with returns a cap that has more room; one that bounds nothing stays so.
func (c Cap) with(room Cap) Cap {
	if c == (Cap{}) {
		return c
	}
	return Cap{Messages: c.Messages + room.Messages, Segments: c.Segments + room.Segments}
}

// of returns the limits of a message to a phone. Our own answers to words about consent have none: a person who writes STOP or HELP has to
// get an answer, and the words of each message are answered once.
func (c Caps) of(r Request) Limits {
	if r.DespiteHold {
		return Limits{}
	}
	l := Limits{PhoneHour: c.PhoneHour, PhoneDay: c.PhoneDay, OrgHour: c.OrgHour}
	if r.Purpose == oneTimeCode {
		l.PhoneHour, l.PhoneDay = l.PhoneHour.with(codesPerHour), l.PhoneDay.with(codesPerDay)
		l.OrgHour = l.OrgHour.with(Cap{Messages: l.OrgHour.Messages/codesPart + 1, Segments: l.OrgHour.Segments/codesPart + 1})
	}
	for _, p := range c.PrefixHour {
		if strings.HasPrefix(r.To.String(), p.Prefix) {
			l.PrefixHour = p
			break
		}
	}
	return l
}

// ExceededCaps has for each cap the time until which it holds a message; zero where it does not.
type ExceededCaps struct{ PhoneHour, PhoneDay, OrgHour, PrefixHour time.Time }

// Until returns when the last of them lets go; zero when none holds.
func (f ExceededCaps) Until() time.Time {
	until := f.PhoneHour
	for _, at := range []time.Time{f.PhoneDay, f.OrgHour, f.PrefixHour} {
		if at.After(until) {
			until = at
		}
	}
	return until
}

// longestCapWait sets how long a caller is told to wait at most: an operator may raise the cap before the time comes.
const longestCapWait = 15 * time.Minute

// wait returns how long until a message may be asked for again.
func (f ExceededCaps) wait(now time.Time) time.Duration {
	return min(max(f.Until().Sub(now), throttledMin), longestCapWait)
}

func (f ExceededCaps) words(l Limits) string {
	var held []string
	for _, c := range []struct {
		until time.Time
		cap   Cap
		words string
	}{
		{f.PhoneHour, l.PhoneHour, "to this phone within an hour (SMS_CAP_PHONE_HOUR or the organisation's settings)"},
		{f.PhoneDay, l.PhoneDay, "to this phone within 24 hours (SMS_CAP_PHONE_DAY or the organisation's settings)"},
		{f.OrgHour, l.OrgHour, "by the organisation in this hour (SMS_CAP_ORG_HOUR or the organisation's settings)"},
		{f.PrefixHour, l.PrefixHour.Cap, "to " + l.PrefixHour.Prefix + " in this hour (SMS_CAP_PREFIX_HOUR)"},
	} {
		if !c.until.IsZero() {
			held = append(held, c.cap.String()+" "+c.words)
		}
	}
	return strings.Join(held, "; ")
}

// advice says why a message waits, and what to do.
func (f ExceededCaps) advice(l Limits) string {
	return "as much was sent as the cap allows: " + f.words(l) + "; it may be sent at " + at(f.Until()) +
		"; to do: see whether abuse causes the texts to this number, or raise the cap"
}

// classCache keeps what the numbering plans say of the last numbers: the library takes 50 to 200 us to read one, and a burst is six
// messages to one number.
type classCache struct {
	mu    sync.Mutex
	known map[sms.Phone]phone.Class
}

const mostClasses = 4096

// checkNumber checks a recipient. A person who writes to us about consent gets an answer in every country.
func (s *Service) checkNumber(r Request, numbers phone.Policy) (country string, refused error) {
	c := s.numbers.of(r.To)
	if r.DespiteHold {
		return c.Country, nil
	}
	return c.Country, numbers.Allows(c)
}

func (c *classCache) of(to sms.Phone) phone.Class {
	c.mu.Lock()
	known, ok := c.known[to]
	c.mu.Unlock()
	if ok {
		return known
	}
	found := phone.Classify(to.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= mostClasses {
		c.known = map[sms.Phone]phone.Class{}
	}
	c.known[to] = found
	return found
}
