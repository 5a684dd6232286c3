package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
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

// Ledger is what is known about the consent of a number, and how it came to be.
type Ledger struct {
	OrgID     uuid.UUID
	Phone     sms.Phone
	State     consent.State
	UpdatedAt time.Time
	Events    []LedgerLine // those of the page, oldest first
	More      bool         // there are newer ones
	// CarrierBlocks says that Twilio refuses messages to this person, as far as we have heard. Nothing but the person's START lifts that.
	CarrierBlocks bool
	Chain         consent.Chain
	Broken        *consent.Break // where the chain does not hold, in all of the ledger; nil when it does
}

// LedgerPage is a part of a ledger.
type LedgerPage struct {
	After int64 // only lines with a higher number
	Limit int
}

// LargestLedgerPage is how many lines are read at most, and the default.
const LargestLedgerPage = 500

// LedgerEvent is what a line of the ledger says.
type LedgerEvent struct {
	At        time.Time
	State     consent.State // after it
	Source    Source
	Words     string    // the person's own, or the operator's reason; may be empty
	Sender    string    // our number or messaging service that it was said to; may be empty
	MessageID uuid.UUID // the inbound message that said it, or the message of ours that confirmed it; else uuid.Nil

	KeywordPack  string // the version of the keywords that an inbound message was read by
	Rules        string // the version of the rules for free words, if they decided
	ConfirmedBy  Confirmer
	Confirmation string // the words of ours that confirm it; empty when Twilio confirms it, or it is not confirmed
}

// LedgerLine is one line of the append-only ledger.
type LedgerLine struct {
	LedgerEvent

	Seq            int64   // from 1
	PrevHash, Hash string  // in hexadecimal; empty in a line from before there were chains
	Confirmed      string  // what became of the confirmation of ours, as far as it is known; not part of the chain
	Actor          *string // whose call caused it, as it is stored; nil when none did; not part of the chain
}

// Confirmer is who tells a person that their word was heard.
type Confirmer string

// The confirmers, as they are stored.
const (
	Unconfirmed Confirmer = ""
	ByCarrier   Confirmer = "carrier"
	ByUs        Confirmer = "paceline"
)

// Source is where a line of the ledger comes from.
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

// SetConsent writes an operator's note, also when it only confirms the state there is, and returns the ledger. An opt-out is
// answered as one by SMS is: see RecordInbound.
func (s *Service) SetConsent(ctx context.Context, n Note) (Ledger, error) {
	ledger, err := s.Notes.SetConsent(ctx, n)
	if err == nil && n.State == consent.OptedOut {
		err = s.Send.AwaitQuiet(ctx, n.OrgID, n.Phone.String())
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

// Words are what the ledger keeps of the note.
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

// Check says why a note is not taken beside the opt-out in force. Only the person lifts their own; what an operator wrote down, an
// operator may lift with evidence from after it.
func (n Note) Check(current OptOut) error {
	switch {
	case n.State != consent.OptedIn:
		return nil
	case current.Theirs:
		return ErrOwnOptOut
	case n.Evidence == nil:
		return fmt.Errorf("%w: evidence is required for opted_in: {method, collected_at, reference} of how the person said that they "+
			"want texts", send.ErrInvalid)
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
func (l Ledger) Page(p LedgerPage) Ledger {
	if p.After < 0 {
		l.Events = l.Events[max(0, len(l.Events)-p.Limit):]
		return l
	}
	from := slices.IndexFunc(l.Events, func(e LedgerLine) bool { return e.Seq > p.After })
	if from < 0 {
		from = len(l.Events)
	}
	l.Events = l.Events[from:]
	if l.More = len(l.Events) > p.Limit; l.More {
		l.Events = l.Events[:p.Limit]
	}
	return l
}

// Warning says what stands in the way of the state there is, and what to do about it; empty when nothing does.
func (l Ledger) Warning() string {
	if l.State != consent.OptedIn || !l.CarrierBlocks {
		return ""
	}
	return "Twilio still blocks this number, because the person has texted STOP there, and has no API to lift that: nothing can be sent " +
		"to them before they text START to this sender; the first attempt would opt them out again"
}
