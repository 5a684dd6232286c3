// Package ledger keeps the consent of phones: the append-only ledger, what its newest line says, holds, reminders and erasures.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/sms"
)

// What is refused of operators.
var (
	// ErrOwnOptOut means that an operator wants to lift what the person has said.
	ErrOwnOptOut = errors.New("the person has opted out in their own words, and only they can lift that: by texting START to the number " +
		"that texts them")
	// ErrOldEvidence means that the evidence of an opt-in says nothing about the opt-out in force.
	ErrOldEvidence = errors.New("evidence.collected_at is not after the opt-out in force, so it says nothing about it; " +
		"only a later wish of the person lifts that")
	// ErrConsentNotFound means that nothing is known about a number's consent in the caller's organisation.
	ErrConsentNotFound = errors.New("there is no consent record for this phone number")
)

// Ledger is the known consent of a number, and the events that led to it.
type Ledger struct {
	OrgID     uuid.UUID
	Phone     sms.Phone
	State     consent.State
	UpdatedAt time.Time
	Events    []Line // those of the page, oldest first
	More      bool   // there are newer ones
	// CarrierBlocks says that Twilio refuses messages to this person, as far as we have heard. Nothing but the person's START lifts that.
	CarrierBlocks bool
	Chain         consent.Chain
	Broken        *consent.Break // where the chain does not hold, in all of the ledger; nil when it does
}

// Page is a part of a ledger.
type Page struct {
	After int64 // only lines with a higher number
	Limit int
}

// Event is the content of a line of the ledger.
type Event struct {
	At        time.Time
	State     consent.State // after it
	Source    Source
	Words     string    // the person's own, or the operator's reason; may be empty
	Sender    string    // our number or messaging service that it was said to; may be empty
	MessageID uuid.UUID // the inbound message that said it, or our message that confirmed it; else uuid.Nil

	KeywordPack  string // the version of the keywords that an inbound message was read by
	Rules        string // the version of the rules for free words, if they decided
	ConfirmedBy  Confirmer
	Confirmation string // our words that confirm it; empty when Twilio confirms it, or it is not confirmed
}

// Line is one line of the append-only ledger.
type Line struct {
	Event

	Seq            int64   // from 1
	PrevHash, Hash string  // in hexadecimal; empty in a line from before there were chains
	Confirmed      string  // how our confirmation ended, as far as it is known; not part of the chain
	Actor          *string // the caller that caused it, as it is stored; nil when none did; not part of the chain
}

// Confirmer names who tells a person that their word was heard.
type Confirmer string

// The confirmers, as they are stored.
const (
	Unconfirmed Confirmer = ""
	ByCarrier   Confirmer = "carrier"
	ByUs        Confirmer = "paceline"
)

// Source is the origin of a line of the ledger.
type Source string

// The sources, as they are stored.
const (
	FromFirstSend Source = "first_send" // a message went out with a record of how the person agreed; before 0011, without
	// FromElsewhere is a first message that came without such a record: its caller answers for the consent.
	FromElsewhere Source = "collected_elsewhere"
	FromPerson    Source = "inbound"      // the person's own words
	FromOperator  Source = "operator"     // taken down outside the conversation
	FromTwilio    Source = "twilio_21610" // Twilio refused: the person has opted out there
	FromReply     Source = "confirmation" // Twilio took our confirmation of the opt-out before; the state stays
	FromQuestion  Source = "question"     // Twilio took our question whether the texts are to stop; the state stays
)

// Service takes what is said about consent elsewhere than in a message.
type Service struct {
	Store    *Store
	InFlight inFlight
}

// inFlight knows which messages may still reach Twilio; send.Service implements it.
type inFlight interface {
	WaitForInFlight(ctx context.Context, orgID uuid.UUID, phone string) error
}

// SetConsent writes an operator's note, also when it only confirms the state there is, and returns the ledger. An opt-out is
// answered as one by SMS is: see RecordInbound.
func (s *Service) SetConsent(ctx context.Context, n Note) (Ledger, error) {
	ledger, err := s.Store.SetConsent(ctx, n)
	if err == nil && n.State == consent.OptedOut {
		err = s.InFlight.WaitForInFlight(ctx, n.OrgID, n.Phone.String())
	}
	if err != nil {
		return Ledger{}, err
	}
	return ledger, nil
}

// Note is an operator's record of a decision about consent.
type Note struct {
	OrgID  uuid.UUID
	Phone  sms.Phone
	State  consent.State
	Reason string // required
	Sender string // what the organisation sends from; may be empty
	At     time.Time
	// Evidence is on what grounds the person wants messages; nil for an opt-out.
	Evidence *consent.Evidence
}

// Words returns what the ledger keeps of the note.
func (n Note) Words() string {
	if n.Evidence == nil {
		return n.Reason
	}
	return n.Evidence.Words(n.Reason)
}

// OptOut is an opt-out in force. Its zero value is that there is none.
type OptOut struct {
	At time.Time
	// Theirs says that the person gave it in their own words: by SMS, to Twilio, or in free words that an operator has judged.
	Theirs bool
}

// Check says why a note is not taken next to the opt-out in force. Only the person lifts their own; what an operator wrote down, an
// operator may lift with evidence from after it.
func (n Note) Check(current OptOut) error {
	switch {
	case n.State != consent.OptedIn:
		return nil
	case current.Theirs:
		return ErrOwnOptOut
	case n.Evidence == nil:
		return fmt.Errorf("%w: evidence is required for opted_in: {method, collected_at, reference} of how the person said that they "+
			"want texts", sms.ErrInvalid)
	case !n.Evidence.CollectedAt.After(current.At):
		return ErrOldEvidence
	}
	return nil
}

// Lines are the ledger's lines as they are hashed.
func (l Ledger) Lines() []consent.Line {
	lines := make([]consent.Line, len(l.Events))
	for i, e := range l.Events {
		lines[i] = consent.Line{
			OrgID: l.OrgID.String(), Phone: l.Phone.String(), Seq: e.Seq, At: e.At, State: string(e.State), Source: string(e.Source),
			Words: e.Words, Sender: e.Sender, KeywordPack: e.KeywordPack, Rules: e.Rules, ConfirmedBy: string(e.ConfirmedBy),
			Confirmation: e.Confirmation, PrevHash: e.PrevHash, Hash: e.Hash,
		}
		if e.MessageID != uuid.Nil {
			lines[i].MessageID = e.MessageID.String()
		}
	}
	return lines
}

// Verify recomputes the chain of all the ledger's lines.
func (l Ledger) Verify() *consent.Break { return consent.Verify(l.Lines(), l.Chain) }

// Page leaves of the lines those of a page; one after a negative number is the last one.
func (l Ledger) Page(p Page) Ledger {
	if p.After < 0 {
		l.Events = l.Events[max(0, len(l.Events)-p.Limit):]
		return l
	}
	from := slices.IndexFunc(l.Events, func(e Line) bool { return e.Seq > p.After })
	if from < 0 {
		from = len(l.Events)
	}
	l.Events = l.Events[from:]
	if l.More = len(l.Events) > p.Limit; l.More {
		l.Events = l.Events[:p.Limit]
	}
	return l
}

// Warning returns the obstacle to the state there is, and its remedy; empty when nothing stands in the way.
func (l Ledger) Warning() string {
	if l.State != consent.OptedIn || !l.CarrierBlocks {
		return ""
	}
	return "Twilio still blocks this number, because the person has texted STOP there, and has no API to lift that: nothing can be sent " +
		"to them before they text START to this sender; the first attempt would opt them out again"
}

// Hold is an operator's safety hold on a number, or that it is lifted. While it holds, nothing is sent but our own answers to words
// about consent.
type Hold struct {
	OrgID   uuid.UUID
	Phone   sms.Phone
	Held    bool
	Version int64 // the higher one of two counts, whichever comes last
	At      time.Time
}

// SetHold keeps a hold, or that it is lifted. Like an opt-out it is answered once nothing is on its way to the person any more:
// sms.ErrUnavailable, with the hold in force, when that takes too long.
func (s *Service) SetHold(ctx context.Context, h Hold) error {
	err := s.Store.SetHold(ctx, h)
	if err == nil && h.Held {
		err = s.InFlight.WaitForInFlight(ctx, h.OrgID, h.Phone.String())
	}
	return err
}

// Reminders is a word about the reminders of a number: that they are not wanted, or wanted again. It is narrower than consent, which
// it leaves as it is.
type Reminders struct {
	OrgID  uuid.UUID
	Phone  sms.Phone
	Off    bool
	Source RemindersSource
	SaidAt time.Time // what was said last counts, whichever is recorded last

	MessageID   uuid.UUID // the message that says it; uuid.Nil when it was said elsewhere
	KeywordPack string    // the version of the words that the message was read by; else empty
	At          time.Time // when it is recorded
}

// RemindersSource names who says it.
type RemindersSource string

// The sources, as they are stored.
const (
	SaidByPerson   RemindersSource = "person"
	SaidByOperator RemindersSource = "operator"
)

// SetReminders keeps what was said elsewhere than in a message, unless something was said later, or an operator says it while the person's
// own words have switched reminders off, and returns what is in force. Like an
// opt-out, reminders that are off are answered once nothing is on its way to the person any more: sms.ErrUnavailable, with it in force,
// when that takes too long.
func (s *Service) SetReminders(ctx context.Context, r Reminders) (Reminders, error) {
	inForce, err := s.Store.SetReminders(ctx, r)
	if err == nil && inForce.Off {
		err = s.InFlight.WaitForInFlight(ctx, r.OrgID, r.Phone.String())
	}
	if err != nil {
		return Reminders{}, err
	}
	return inForce, nil
}

// What keeps a person from being erased or exported.
var (
	// ErrPseudonymKey means that a person who is erased could not keep their STOP.
	ErrPseudonymKey = errors.New("PSEUDONYM_KEY is not set, or is not the one that other people were erased under: give messaging the key " +
		"that it had, or make the first one with openssl rand -hex 32, and keep it for good")
	// ErrExportTooLarge means that a part of an export would have to be left out.
	ErrExportTooLarge = errors.New("more is kept about this person than fits into one export; read it in pages: GET /v1/messages, " +
		"/v1/consents/{phone}, /v1/outbound and /v1/audit")
)

// Person names who is erased or exported.
type Person struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID
	Phone     sms.Phone
}

// Erasure is the progress of the erasure of a person.
type Erasure struct {
	Pseudonym string
	// WaitsFor is a message that is on its way or in doubt, or a text of the queue that is being sent; uuid.Nil once all is erased.
	WaitsFor uuid.UUID
}

// ErasedConsent holds what is left of a person's consent.
type ErasedConsent struct {
	Ledgers []consent.ErasedLedger // one for each time they were erased, oldest first
	// SuppressedAt is the time since which the STOP that they said before they were erased is in force; zero when there is none.
	SuppressedAt time.Time
}
