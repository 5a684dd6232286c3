// Package inbound takes in what people write: it records each message with its effect on consent, answers words about consent, and finds
// what Twilio has and we have not.
package inbound

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/reading"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
)

// Config configures a Service. Every field is needed but the copy.
type Config struct {
	Store   store
	Twilio  records
	Send    *send.Service // sends our own answers, and knows what is on its way
	Copy    ReplyCopy     // of the environment's organisation, where it has decided nothing; may be empty
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
}

// Service takes in what people write. It is safe for concurrent use.
type Service struct {
	Config

	wake chan struct{} // wakes Loop when a message was recorded that may have left a reply to send
}

// store keeps what people write, and our replies. Every method is one transaction; the crash tests wrap them.
type store interface {
	// RecordInbound keeps the message and applies Entry.Decide to the recipient's consent, once per SID.
	RecordInbound(ctx context.Context, e Entry) (send.Message, error)
	// RecordedSIDs returns those of the SIDs that RecordInbound has stored.
	RecordedSIDs(ctx context.Context, sids []string) ([]string, error)
	// ClaimReplies takes at most limit replies that are due, and makes them due again at until.
	ClaimReplies(ctx context.Context, now, until time.Time, limit int) ([]Reply, error)
	// SettleReply keeps how a reply stands, unless it was settled before, and writes a confirmation that was sent into the ledger.
	SettleReply(ctx context.Context, r Reply) error
}

// New makes a Service.
func New(cfg Config) *Service { return &Service{Config: cfg, wake: make(chan struct{}, 1)} }

// Inbound is one message of a person, as Twilio posted it.
type Inbound struct {
	SID        string
	ProfileID  uuid.UUID // uuid.Nil when the person is not known
	From       sms.Phone
	To         string // our number, E.164
	ServiceSID string // the messaging service that owns the number; may be empty
	Body       string // may be empty
	Segments   int
	// OptOutType is Twilio's own reading under Advanced Opt-Out (STOP, START or HELP), else empty. Where Twilio has
	// read the message, its block follows that reading, so ours must too.
	OptOutType string
	// ReceivedAt is the time at which the message reached us; zero means now. It decides which of two words about consent is the later one.
	ReceivedAt time.Time
	// DatedByCarrier says that ReceivedAt is the carrier's time, by the carrier's clock.
	DatedByCarrier bool
	// CarrierAt is the carrier's own time where ReceivedAt is a later one, as it follows from the order of texts; else zero. What others noted
	// is in no such order.
	CarrierAt time.Time
	// Before and After are SIDs of what the carrier lists of the same person before this message and after it. Of two that it lists, its order
	// says which came first: the other one may be dated by our clock, and this one by the carrier's.
	Before, After []string
	// Locale is the language of the person's profile, such as pt-BR; empty when the caller does not know it.
	Locale string
	// Distressed says that the caller has found words of distress: the person is not asked whether the texts are to stop.
	Distressed bool
	// OrgID owns it when it came by another channel than SMS, so that Twilio has done nothing about it; else uuid.Nil: then the
	// owner of To's it is.
	OrgID uuid.UUID
	// Account is the Twilio account that it came through: only its senders can own it. Empty for that of the environment.
	Account string
	// Owner is the organisation that the caller takes for the owner; uuid.Nil for whichever it is.
	Owner uuid.UUID
	// Ahead says that the gateway has it recorded because onboarding did not take it. Onboarding has it recorded again later.
	Ahead bool
}

// Entry is an inbound message as it is recorded.
type Entry struct {
	Inbound // with OrgID and ReceivedAt

	ID        uuid.UUID // of the message, if it was not recorded before
	SenderID  uuid.UUID // of the stored sender that it was written to; uuid.Nil for that of the environment
	At        time.Time
	Elsewhere bool // it came by another channel than SMS
	Copy      ReplyCopy
}

// carrierSlack sets how much later than the carrier got it a word may have reached us: it tries for about 15 seconds, and its clock is not
// ours.
const carrierSlack = 20 * time.Second

// LastWords tell when the last words about a person's consent were said, as far as they are recorded; zero when none were.
type LastWords struct {
	Person time.Time // by the person, but for what the carrier lists before the message
	Listed bool      // the person said some that the carrier lists after the message
	Others time.Time // by an operator, or by Twilio's refusal
	Doubt  time.Time // by the person, when they may be an opt-out and hold the person
	Asked  time.Time // by us, whether these texts are to stop; zero as long as the question of the hold in force was not sent
}

// lifts reports whether a message answers the question of a hold with a yes. What holds the person was said before.
func (l LastWords) lifts(e Entry, r consent.Reading) bool {
	return r.Effect == consent.None && !r.Preferences.Any() && !l.Doubt.IsZero() && !l.Asked.IsZero() &&
		e.ReceivedAt.After(l.Doubt) && e.ReceivedAt.After(l.Asked) && reading.Affirmed(e.Body)
}

// after reports whether another word about consent is a later one than the effect of e. A message that could not be recorded at once is
// recorded by its job a while later, and the person may have changed their mind meanwhile. What an operator wrote down is compared by the
// same clock, and so is Twilio's refusal: words from before it cannot have lifted it. But only the person's own words come after their
// opt-out: no note of an operator keeps it from holding. The carrier's time is imprecise, so an opt-out that it dated counts as the later
// word whenever that is possible.
func (l LastWords) after(e Entry, effect consent.Effect) bool {
	said := e.ReceivedAt
	if l.Listed {
		return true
	}
	if effect != consent.OptOut {
		if !e.CarrierAt.IsZero() {
			return l.Person.After(said) || l.Others.After(e.CarrierAt)
		}
		return l.Person.After(said) || l.Others.After(said)
	}
	if e.DatedByCarrier {
		said = said.Add(carrierSlack)
	}
	return l.Person.After(said)
}

// Consequences tell what a message changes, besides being kept.
type Consequences struct {
	Effect consent.Effect
	Event  *ledger.Event // nil when the state stays as it is
	Reply  *Reply        // nil when nothing is to be said, or Twilio says it
	// Carrier is the action that Twilio has taken on it.
	Carrier consent.Carrier
	// Preferences tell what it asks of reminders and tips; Effect is then for callers that read none.
	Preferences consent.Preferences
	Reminders   *ledger.Reminders // what it says about reminders; nil when nothing
	LiftsHold   bool              // it says that the texts are to go on, which was asked
	// ByRules reports whether the rules for free words decided it, which read them otherwise where they know what was sent before.
	ByRules bool
}

// Decide returns the consequences of the message for the consent of a person in state current. One that is overtaken by a later word of the
// person about consent, or an operator's note of one, changes nothing: also at Twilio it came first. What was asked counts only for what is
// decided ByRules without it.
func (e Entry) Decide(current consent.State, last LastWords, asked consent.Asked) Consequences {
	r := asked.Read(e.Body, e.OptOutType, current)
	if e.Elsewhere {
		r.Carrier = consent.Passes
	}
	if (r.Effect != consent.None || r.Carrier != consent.Passes) && r.Effect != consent.Help && last.after(e, r.Effect) {
		r.Carrier = consent.Passes
		if r.Effect != consent.None {
			r.Effect = consent.Overtaken
		}
	}
	c := Consequences{
		Effect: r.Effect, Carrier: r.Carrier, Preferences: r.Preferences, LiftsHold: last.lifts(e, r), ByRules: r.Rules != "",
	}
	if r.Preferences.Reminders != consent.Unsaid {
		c.Reminders = &ledger.Reminders{
			OrgID: e.OrgID, Phone: e.From, Off: r.Preferences.Reminders == consent.Off, Source: ledger.SaidByPerson, SaidAt: e.ReceivedAt,
			MessageID: e.ID, KeywordPack: consent.PreferencesVersion, At: e.At,
		}
	}
	event, changes := consent.Record(current, r.Effect)
	c.Reply = e.replyTo(r, current, changes, c.Hold() && last.Doubt.IsZero() && !e.Distressed)
	if c.LiftsHold { // a line also for a person who had opted in: it answers the question
		event.To, changes = consent.OptedIn, true
	}
	if !changes {
		return c
	}
	c.Event = &ledger.Event{
		At: e.ReceivedAt, State: event.To, Source: ledger.FromPerson, Words: e.Body, Sender: e.To, MessageID: e.ID,
		KeywordPack: consent.Version, Rules: r.Rules,
	}
	switch {
	case c.Reply != nil:
		c.Event.ConfirmedBy, c.Event.Confirmation = ledger.ByUs, c.Reply.Body
	case r.Carrier != consent.Passes:
		c.Event.ConfirmedBy = ledger.ByCarrier
	}
	return c
}

// Hold reports whether nothing may be sent to the person until an operator has judged the words: they may be an opt-out. Words about
// reminders are understood.
func (c Consequences) Hold() bool {
	return c.Effect == consent.Ambiguous && !c.Preferences.Any()
}

// EndHold reports whether the person has said in so many words what they want, which leaves nothing to be judged.
func (c Consequences) EndHold() bool {
	return c.Effect == consent.OptOut || c.Effect == consent.OptIn || c.LiftsHold
}

// Plain reports whether nothing follows from the message, whatever the state of consent is and whatever was said before: it is only kept.
func (e Entry) Plain() bool {
	return !reading.Affirmed(e.Body) && !slices.ContainsFunc(consent.States(), func(current consent.State) bool {
		return e.Decide(current, LastWords{}, consent.Asked{}) != Consequences{Effect: consent.None}
	})
}

// RecordInbound stores a message and applies its effect on consent in one transaction, so that an opt-out holds before
// the caller gets an answer. A SID that was recorded before gets the same message, with the same effect, and changes nothing.
// An opt-out, also a repeated one, and a wish for no reminders return only when no send to the person is in flight. So Twilio accepts no
// message after we acknowledge it. If that takes too long, the error is sms.ErrUnavailable, and the wish is in force.
func (s *Service) RecordInbound(ctx context.Context, in Inbound) (send.Message, error) {
	if in.SID == "" || in.From.IsZero() || in.To == "" || in.Segments < 0 {
		return send.Message{}, fmt.Errorf("%w: an inbound text needs twilio_sid, from and to", sms.ErrInvalid)
	}
	e := Entry{Inbound: in, At: s.Now(), Elsewhere: in.OrgID != uuid.Nil}
	var err error
	if !e.Elsewhere {
		owner, err := s.Send.Senders.Owner(ctx, in.Account, in.To, in.ServiceSID)
		if err != nil {
			return send.Message{}, err
		}
		if in.Owner != uuid.Nil && in.Owner != owner.OrgID {
			return send.Message{}, senders.ErrUnknownSender
		}
		e.OrgID, e.SenderID = owner.OrgID, owner.ID
	}
	e.Copy = s.copyOf(ctx, e.OrgID)
	if e.ID, err = uuid.NewV7(); err != nil {
		return send.Message{}, fmt.Errorf("message id: %w", err)
	}
	e.SID, e.Body = send.Storable(in.SID), send.Storable(in.Body)
	if in.ReceivedAt.IsZero() || in.ReceivedAt.After(e.At) {
		e.ReceivedAt = e.At
	}
	m, err := s.Store.RecordInbound(ctx, e)
	if err != nil {
		return send.Message{}, fmt.Errorf("record the inbound text: %w", err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.sms_inbound_recorded",
		m.Attr(), slog.String("consent_effect", effectOf(m)), slog.Bool("repeated", m.ID != e.ID))
	s.Metrics.inbound(ctx, m)
	if m.ConsentEffect == consent.OptOut || m.Preferences.Reminders == consent.Off {
		if err := s.Send.WaitForInFlight(ctx, m.OrgID, m.From); err != nil {
			return send.Message{}, err
		}
	}
	if m.ConsentEffect == consent.None {
		return m, nil // nothing is said to that
	}
	queue.Wake(s.wake) // after the wait, so that the answer to a STOP need not wait for its confirmation
	return m, nil
}

// copyOf returns what our replies say of an organisation: what it has decided, and else what the environment says of the one that it is
// of. A STOP is recorded also while the settings cannot be read: its confirmation names nobody then.
func (s *Service) copyOf(ctx context.Context, orgID uuid.UUID) ReplyCopy {
	decided, err := s.Send.Settings(ctx, orgID)
	if err != nil {
		s.Log.WarnContext(ctx, "messaging.settings_not_read", "org_id", orgID, "error", err)
		return ReplyCopy{}
	}
	said := ReplyCopy{Brand: decided.Brand, Contact: decided.HelpContact}
	if orgID == s.Send.Senders.Environment.OrgID {
		said.Brand, said.Contact = cmp.Or(said.Brand, s.Copy.Brand), cmp.Or(said.Contact, s.Copy.Contact)
	}
	return said
}
