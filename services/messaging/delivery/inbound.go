package delivery

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/sms"
)

// Text is one text of a person, as Twilio posted it.
type Text struct {
	SID        string
	ProfileID  uuid.UUID // uuid.Nil when the person is not known
	From       sms.Phone
	To         string // the number of ours, E.164
	ServiceSID string // the messaging service that owns the number; may be empty
	Body       string // may be empty
	Segments   int
	// OptOutType is Twilio's own reading under Advanced Opt-Out (STOP, START or HELP), else empty. Where Twilio has
	// read the text, its block follows that reading, so ours must too.
	OptOutType string
	// ReceivedAt is when the text reached us; zero means now. It decides which of two words about consent is the later one.
	ReceivedAt time.Time
	// DatedByCarrier says that ReceivedAt is when the carrier got it, by the carrier's clock.
	DatedByCarrier bool

	// OrgID is whose it is when it came by another channel than SMS; else uuid.Nil, and RecordInbound finds the owner of To.
	OrgID uuid.UUID

	// Set by RecordInbound.
	Elsewhere bool // it came by another channel, so Twilio has done nothing about it
	Copy      ReplyCopy
	MessageID uuid.UUID
	BodyHash  [sha256.Size]byte
	At        time.Time
}

// Read says what the text means for the consent of a person who is in state current.
func (t Text) Read(current consent.State) consent.Reading {
	r := consent.Read(t.Body, t.OptOutType, current)
	if t.Elsewhere {
		r.Carrier = consent.Passes
	}
	return r
}

// carrierSlack is how much later than the carrier got it a word may have reached us: it tries for about 15 seconds (reference,
// "Twilio retries a callback"), and its clock is not ours.
const carrierSlack = 20 * time.Second

// OvertakenAfter is from when on another word about consent is a later one. In doubt an opt-out is the last word.
func (t Text) OvertakenAfter(effect consent.Effect) time.Time {
	if t.DatedByCarrier && effect == consent.OptOut {
		return t.ReceivedAt.Add(carrierSlack)
	}
	return t.ReceivedAt
}

// Consequences are what a text changes, besides being kept.
type Consequences struct {
	Effect consent.Effect
	Event  *LedgerEvent // nil when the state stays as it is
	Reply  *Reply       // nil when nothing is to be said, or Twilio says it
	// Carrier is what Twilio has done about it.
	Carrier consent.Carrier
}

// Consequences say what follows from a reading of the text. One that is overtaken by a later word of the person about consent, or
// an operator's note of one, changes nothing: also at Twilio it came first.
func (t Text) Consequences(r consent.Reading, current consent.State, overtaken bool) Consequences {
	if overtaken && r.Effect != consent.Help {
		r.Carrier = consent.Passes
		if r.Effect != consent.None {
			r.Effect = consent.Overtaken
		}
	}
	c := Consequences{Effect: r.Effect, Carrier: r.Carrier}
	event, changes := consent.Record(current, r.Effect)
	c.Reply = t.replyTo(r, current, changes)
	if !changes {
		return c
	}
	c.Event = &LedgerEvent{
		At: t.ReceivedAt, State: event.To, Source: FromText, Words: t.Body, Sender: t.To, MessageID: t.MessageID,
		KeywordPack: consent.Version, Rules: r.Rules,
	}
	switch {
	case c.Reply != nil:
		c.Event.ConfirmedBy, c.Event.Confirmation = ByUs, c.Reply.Body
	case r.Carrier != consent.Passes:
		c.Event.ConfirmedBy = ByCarrier
	}
	return c
}

// RecordInbound stores a text and applies its effect on consent in one transaction, so that an opt-out holds before
// anybody hears of it. A SID that was recorded before gets the same message, with the same effect, and changes nothing.
// An opt-out, a repeated one as well, is answered once nothing is on its way to the person any more: so Twilio accepts no text
// after it has been acknowledged. It is ErrUnavailable, with the opt-out in force, when that takes too long.
func (s *Service) RecordInbound(ctx context.Context, t Text) (Message, error) {
	if t.SID == "" || t.From.IsZero() || t.To == "" || t.Segments < 0 {
		return Message{}, fmt.Errorf("%w: an inbound text needs twilio_sid, from and to", ErrInvalid)
	}
	var err error
	if t.Elsewhere = t.OrgID != uuid.Nil; !t.Elsewhere {
		if t.OrgID, err = s.Sender.Owner(t.To, t.ServiceSID); err != nil {
			return Message{}, err
		}
	}
	if t.MessageID, err = uuid.NewV7(); err != nil {
		return Message{}, fmt.Errorf("message id: %w", err)
	}
	t.SID, t.Body, t.At = storable(t.SID), storable(t.Body), s.Now()
	if t.ReceivedAt.IsZero() || t.ReceivedAt.After(t.At) {
		t.ReceivedAt = t.At
	}
	t.BodyHash, t.Copy = sha256.Sum256([]byte(t.Body)), s.Copy
	m, err := s.Inbox.RecordInbound(ctx, t)
	if err != nil {
		return Message{}, fmt.Errorf("record the inbound text: %w", err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.sms_inbound_recorded",
		slog.Any("message", m), slog.String("consent_effect", m.ConsentEffect.String()), slog.Bool("repeated", m.ID != t.MessageID))
	s.Metrics.inbound(ctx, m)
	if m.ConsentEffect == consent.OptOut {
		if err := s.awaitSilence(ctx, m.OrgID, m.From); err != nil {
			return Message{}, err
		}
	}
	s.replies.wake() // after the silence, so that the answer to a STOP need not wait for its confirmation
	return m, nil
}
