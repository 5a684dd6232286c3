package send

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// UnknownPolicy limits what may be done about a send that stays unknown. It is stored as it is written here.
type UnknownPolicy string

// The policies.
const (
	// ConfirmAbsentThenResend lets the next call send it again, once two listings of Twilio did not have it.
	ConfirmAbsentThenResend UnknownPolicy = "confirm_absent_then_resend"
	// NeverDuplicate leaves that to an operator.
	NeverDuplicate UnknownPolicy = "never_duplicate"
)

// clockTolerance sets how far Twilio's clock may be behind ours: a message that it dates this much before the attempt may be the
// attempt's. Both sides keep their clocks by NTP, so it is generous; a message of the same words by another program within it
// would be taken for ours.
const clockTolerance = time.Minute

// EvidenceKind is the kind of an item of evidence, in the word that is stored.
type EvidenceKind string

// The kinds.
const (
	Absent    EvidenceKind = "absent"
	Found     EvidenceKind = "found"
	Ambiguous EvidenceKind = "ambiguous"
	Failed    EvidenceKind = "failed"   // Twilio could not be asked
	Resolved  EvidenceKind = "resolved" // an operator's resolution
)

// EvidenceItem is one piece of evidence about a message in doubt: what Twilio's list had, or what an operator said.
type EvidenceItem struct {
	At         time.Time
	Kind       EvidenceKind
	Detail     string // what followed from it, or the operator's reason
	Candidates []Candidate
}

// Evidence is everything known about whether Twilio has a message.
type Evidence struct {
	Message  Message
	Items    []EvidenceItem // oldest first
	Receipts []Receipt      // oldest first
}

// Candidate is a message at Twilio that may be the one in doubt.
type Candidate struct {
	SID       string    `json:"sid"`
	Status    string    `json:"status"` // Twilio's word
	CreatedAt time.Time `json:"created_at"`
}

// Listing is the list of messages that Twilio has for a recipient, asked for because of one attempt of one message.
type Listing struct {
	MessageID uuid.UUID
	Token     uuid.UUID // of the attempt that is looked for
	Began     time.Time // before Twilio was asked
	At        time.Time // after it
	Listed    []twilio.Stored
	Failure   string        // why there is no listing; empty when there is one
	Interval  time.Duration // the least time between two listings that confirm an absence
	Timeout   time.Duration // of one call to Twilio
	Senders   []uuid.UUID   // of the account that was listed; uuid.Nil is that of the environment
}

// Others are our messages besides the one in doubt, as far as they matter to it.
type Others struct {
	Taken  map[string]bool // the SIDs listed that are another message's
	Rivals []Rival
}

// Rival is another message to the same recipient that Twilio may have under a SID that we do not know.
type Rival struct {
	Body   string
	Status sms.Status
}

// Decision is the consequence of a listing.
type Decision struct {
	Message Message
	Item    EvidenceItem
	// Settled is the settlement, in the word of the metric and the log; empty while the message is in doubt.
	Settled Settlement
}

// Settlement is a way in which a message in doubt was settled.
type Settlement string

// The settlements.
const (
	SettledAdopted   Settlement = "adopted"   // Twilio's list had it
	SettledAbsent    Settlement = "absent"    // it did not, twice: it may be sent again
	SettledParked    Settlement = "parked"    // an operator has to say
	SettledByReceipt Settlement = "receipt"   // a receipt came after all
	SettledSent      Settlement = "said_sent" // an operator said so, and Twilio confirmed it
	SettledNotSent   Settlement = "said_not_sent"
	SettledGivenUp   Settlement = "given_up"
)

// Decide returns the consequence of a listing for a message in doubt. It is pure, and this is the rule:
//
//   - exactly one message at Twilio may be ours, and no other of our messages may be that one: it is this message;
//   - nothing to the person within the attempt's time that is no other message's: after the second such listing, an interval
//     after the first and both begun when nothing of the attempt could still be on its way, the policy decides between sending
//     again and parking;
//   - anything else is ambiguous, and parked as soon as nothing is on its way any more. Until then a receipt may tell;
//   - a list that cannot be had says nothing, and is asked for again, within the limits below; then it is parked.
//
// Changed is false for a message that is not in doubt, or no longer about this attempt.
func (m Message) Decide(l Listing, others Others) (decision Decision, changed bool) {
	if m.Accepted() || m.Status != sms.Unknown || m.AttemptToken != l.Token {
		return Decision{Message: m}, false
	}
	if l.Failure != "" {
		return m.failed(l), true
	}
	m.FailingSince, m.FailedListings = time.Time{}, 0
	candidates, strangers, withheld := m.candidates(l, others)
	item := EvidenceItem{At: l.At, Candidates: append(candidates, strangers...)}
	sending, rivals := m.rivals(others.Rivals)
	settles := m.LeaseUntil.Add(l.Timeout)
	switch n, nothing := len(candidates), len(item.Candidates) == 0; {
	case nothing && l.Began.Before(settles):
		item.Kind, item.Detail = Absent, "too early to count: the attempt could still be on its way"
		return m.checkAgain(settles, item), true
	case nothing:
		return m.absent(l, item), true
	case n == 1 && rivals == 0 && !withheld:
		item.Candidates = candidates
		return m.found(l, item), true
	}
	item.Kind = Ambiguous
	switch {
	case l.Began.Before(settles):
		item.Detail = "ambiguous so far; a receipt may still tell"
		return m.checkAgain(settles, item), true
	case sending > 0:
		item.Detail = "the same words are being sent to the same person at this moment"
		return m.checkAgain(l.At.Add(l.Interval), item), true
	case len(candidates) == 0:
		item.Detail = "Twilio has a message to this person with other words; it may have rewritten this one"
	case withheld:
		item.Detail = "Twilio does not keep the words of this account's messages, so they cannot be told apart"
	case rivals > 0:
		item.Detail = "another message of the same words to the same person is in doubt as well"
	default:
		item.Detail = fmt.Sprintf("Twilio has %d messages that may be this one", len(candidates))
	}
	return m.park(l.At, item), true
}

func (m Message) checkAgain(at time.Time, item EvidenceItem) Decision {
	m.NextCheckAt = at
	return Decision{Message: m, Item: item}
}

func (m Message) park(at time.Time, item EvidenceItem) Decision {
	m = m.endChecks(at)
	m.Status = sms.Parked
	return Decision{Message: m, Item: item, Settled: SettledParked}
}

// A list that cannot be had is given up after so many tries in a row, over so long. Both: a process that was away for hours must have
// tried, and an outage of Twilio must not park every message that it left in doubt, which would each need an operator. Most of
// those outages are shorter; the conversation that waits for the message has been told of it long before.
const (
	mostFailedListings = 20
	failingLimit       = 2 * time.Hour
)

// failed counts a listing that could not be had.
func (m Message) failed(l Listing) Decision {
	item := EvidenceItem{At: l.At, Kind: Failed, Detail: l.Failure}
	if m.FailedListings == 0 {
		m.FailingSince = l.At
	}
	m.FailedListings++
	failing := l.At.Sub(m.FailingSince)
	if m.FailedListings < mostFailedListings || failing < failingLimit {
		return m.checkAgain(l.At.Add(l.Interval), item)
	}
	item.Detail = fmt.Sprintf("Twilio's list could not be had in %d tries over %s, at last because of: %s; look for it in Twilio's console",
		m.FailedListings, failing.Round(time.Minute), l.Failure)
	return m.park(l.At, item)
}

// absent counts an absence. The second one settles.
func (m Message) absent(l Listing, item EvidenceItem) Decision {
	item.Kind = Absent
	if m.AbsentSince.IsZero() {
		m.AbsentSince = l.Began
	}
	confirms := m.AbsentSince.Add(l.Interval)
	switch {
	case l.Began.Before(confirms):
		item.Detail = "not at Twilio; one more look has to confirm it"
		return m.checkAgain(confirms, item)
	case m.UnknownPolicy == NeverDuplicate:
		item.Detail = "not at Twilio in two looks; the policy never_duplicate leaves the rest to an operator"
		return m.park(l.At, item)
	}
	item.Detail = "not at Twilio in two looks: it may be sent again"
	return Decision{Message: m.release(l.At), Item: item, Settled: SettledAbsent}
}

// release lets the next caller make a new attempt, with consent checked in its claim as ever. The reconciler never sends: only
// the caller knows of holds, resets and pauses, and its alarms come back by themselves.
func (m Message) release(at time.Time) Message {
	m = m.endChecks(at)
	m.Status, m.ErrorCode, m.LeaseUntil = sms.Throttled, 0, at
	return m
}

// found takes over what Twilio says of the one candidate, as if it were an answer and a receipt.
func (m Message) found(l Listing, item EvidenceItem) Decision {
	item.Kind, item.Detail = Found, "at Twilio: it is this message's"
	for _, listed := range l.Listed {
		if listed.SID == item.Candidates[0].SID {
			m = m.take(listed, l.At)
		}
	}
	return Decision{Message: m, Item: item, Settled: SettledAdopted}
}

// take adopts a message as Twilio has it. It was accepted when Twilio created it, not when we found out: replies between the
// two are replies to it, and the next message is due that much earlier. Twilio's time is cut to the second, so one is added: the
// gap between two messages may be too long by that, never too short. Its clock is believed as far as ours allows.
func (m Message) take(stored twilio.Stored, at time.Time) Message {
	if !m.Accepted() {
		if m.Attempts == 1 || !stored.CreatedAt.Before(m.AttemptedAt.Truncate(time.Second)) { // else it may be an earlier attempt's
			m.AskedAt = m.AttemptedAt
		}
		m = m.adopt(stored.SID, at)
		m.AcceptedAt = stored.CreatedAt.Add(time.Second)
		if m.AcceptedAt.Before(m.AttemptedAt) {
			m.AcceptedAt = m.AttemptedAt
		}
		if m.AcceptedAt.After(at) {
			m.AcceptedAt = at
		}
	}
	m = m.accept(twilio.Outcome{SID: stored.SID}, at)
	m, _ = m.Receive(Receipt{SID: stored.SID, Status: stored.Status, ErrorCode: stored.ErrorCode, At: at})
	return m
}

// candidates are the listed messages that may be this attempt's and are no other message's. Withheld says that Twilio does not
// show the words of one of them. Strangers have other words and were created while the attempt could reach Twilio: it may have
// rewritten ours in a way that we do not see through, such as shortened links. Not so what answers a person's message, nor what
// has the words of our message in doubt.
func (m Message) candidates(listing Listing, others Others) (found, strangers []Candidate, withheld bool) {
	earliest := m.earliest()
	latest := m.LeaseUntil.Add(listing.Timeout + clockTolerance)
	for _, l := range listing.Listed {
		if !l.Outbound() || l.To != m.To || l.CreatedAt.Before(earliest) || others.Taken[l.SID] {
			continue
		}
		candidate := Candidate{SID: l.SID, Status: l.Status, CreatedAt: l.CreatedAt}
		rival := func(o Rival) bool { return says(l, o.Body) }
		switch {
		case l.Body == "" || says(l, m.Body):
			found = append(found, candidate)
			withheld = withheld || l.Body == ""
		case !l.Reply() && !l.CreatedAt.After(latest) && !slices.ContainsFunc(others.Rivals, rival):
			strangers = append(strangers, candidate)
		}
	}
	return found, strangers, withheld
}

// earliest is the earliest time that Twilio may give for a message of the last attempt; its times have whole seconds.
func (m Message) earliest() time.Time {
	return m.AttemptedAt.Add(-clockTolerance).Truncate(time.Second)
}

// RivalsSince returns the earliest end of a lease that matters: an attempt with an earlier one cannot have made this message, because its
// last call reached Twilio before this attempt began, by either clock.
func (m Message) RivalsSince(timeout time.Duration) time.Time {
	return m.earliest().Add(-timeout - clockTolerance)
}

// rivals counts who else may be what Twilio has, and how many of them are being sent right now.
func (m Message) rivals(others []Rival) (sending, all int) {
	for _, o := range others {
		if sameWords(o.Body, m.Body) {
			all++
			if o.Status == sms.Sending {
				sending++
			}
		}
	}
	return sending, all
}

// trialPrefix is the text that Twilio puts before every message of an account that has not been paid for.
const trialPrefix = "Sent from your Twilio trial account - "

// says reports whether a message at Twilio has the words that we sent.
func says(stored twilio.Stored, sent string) bool {
	rest, _ := strings.CutPrefix(stored.Body, trialPrefix)
	return sameWords(stored.Body, sent) || sameWords(rest, sent)
}

// sameWords compares the letters and digits only: a messaging service with Smart Encoding replaces quotes, dashes and spaces
// by plainer ones, and a message that is not recognised would be sent twice. Bodies without any are compared as they are.
func sameWords(a, b string) bool {
	if a == b {
		return true
	}
	wordsA, wordsB := words(a), words(b)
	return wordsA != "" && wordsA == wordsB
}

func words(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}
