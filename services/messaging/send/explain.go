package send

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/phone"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// Outcomes of an explanation that no send has. They have no type, so that a switch over the outcomes of a send need not name them.
const (
	WouldSend  = "sent" // Twilio would be asked
	WithoutOne = "no_sender"
	OtherText  = "key_reused"
	FromPerson = "received" // it is a message of the person
)

// Delivered is the gate of an explanation that does not pass where Twilio took a message and it did not reach the person. It is absent
// otherwise.
const Delivered = "delivered"

// Gate is one question that decides what a send is answered.
type Gate struct {
	Name    string
	Outcome Outcome // of the send, if it does not pass
	Passed  bool
	Fact    string
	Since   time.Time
	Change  string // what would change it; empty when it passes
}

// Explanation is the answer that a send would get, and the reasons for it.
type Explanation struct {
	Outcome     Outcome
	Gates       []Gate // in the order in which they decide
	Next        string // what happens by itself
	Advice      string // what may be done about it
	NeedsPerson bool   // Twilio refuses it until somebody has done what Advice says
}

// Explain returns what Send would answer to a request now. It changes nothing; that outreach waits for its turn is not explained.
// ErrInvalid.
func (s *Service) Explain(ctx context.Context, r Request) (Explanation, error) {
	a, err := s.attempt(ctx, r)
	if errors.Is(err, senders.ErrNoSender) {
		return explained([]Gate{{
			Name: "sender", Outcome: WithoutOne, Fact: "the organisation has no active sender",
			Change: "store one with POST /v1/senders, set a disabled one to active, or set DEFAULT_ORG_ID to this organisation",
		}}, nil, time.Time{}), nil
	}
	if err != nil {
		return Explanation{}, err
	}
	found, err := s.Store.Look(ctx, a)
	if err != nil {
		return Explanation{}, fmt.Errorf("look for the send: %w", err)
	}
	return explained(found.gates(a), found.Message, a.At), nil
}

// ExplainMessage explains the status of a stored message, what happens next, and what Send would answer to its key now.
func (s *Service) ExplainMessage(ctx context.Context, m Message) (Explanation, error) {
	if m.Direction == Inbound {
		return Explanation{Outcome: FromPerson, Next: "Onboarding answers it; the session's timeline has what it led to."}, nil
	}
	to, err := sms.StoredPhone(m.To)
	if err != nil {
		return Explanation{}, fmt.Errorf("read a recipient: %w", err)
	}
	r := Request{OrgID: m.OrgID, To: to, Key: m.Key, DespiteHold: strings.HasPrefix(m.Key, AnswerKeys)}
	decided, err := s.settingsFor(ctx, r)
	if err != nil {
		return Explanation{}, err
	}
	country, refused := s.checkNumber(r, decided.Numbers)
	a := Attempt{
		Request: r, BodyHash: m.BodyHash, Segments: m.Segments, At: s.Now(), Limits: decided.Caps.of(r), Country: country, Refused: refused,
	}
	found, err := s.Store.Look(ctx, a)
	if err != nil {
		return Explanation{}, fmt.Errorf("look for the send: %w", err)
	}
	return explained(found.gates(a), &m, a.At), nil
}

// gates are the questions that a claim and its answer ask, in the order in which resultOf lets them decide.
func (f ClaimPreview) gates(a Attempt) []Gate {
	m := f.Message
	waits := m == nil || m.Status == sms.Throttled // an attempt may be made, so what forbids one decides
	gates := []Gate{{Name: "sender", Passed: true, Fact: "the organisation has one"}}
	if m != nil && !m.Matches(a) {
		return append(gates, Gate{
			Name: "key", Outcome: OtherText, Fact: "the key was used for another recipient or another text", Since: m.CreatedAt,
			Change: "a key of its own",
		})
	}
	gates = append(gates, f.accepted())
	if waits {
		gates = append(gates, a.number())
	}
	gates = append(gates, f.consent(), f.attempt(a.At))
	if waits && a.Reminds() {
		gates = append(gates, Gate{
			Name: "reminders", Outcome: RemindersOff, Passed: !f.RemindersOff, Since: f.RemindersSince,
			Fact:   pick(f.RemindersOff, "the person wants no reminders", "the person wants reminders"),
			Change: pick(f.RemindersOff, "the person says that they want reminders, by text or by PUT /v1/profiles/{profile_id}/preferences", ""),
		})
	}
	if waits {
		gates = append(gates, f.hold(a.profile(m)), Gate{
			Name: "organisation", Outcome: Suspended, Passed: !f.Suspended, Since: f.SuspendedSince,
			Fact:   pick(f.Suspended, suspendedFact, "the organisation may send"),
			Change: pick(f.Suspended, "those who run this deployment resume the organisation", ""),
		})
	}
	if m != nil && (m.Status == sms.Undelivered || m.Status == sms.Failed) {
		gates = append(gates, m.undelivered())
	}
	if m != nil && m.Status == sms.Throttled {
		gates = append(gates, Gate{
			Name: "backoff", Outcome: Throttled, Passed: m.Retryable(a.At), Fact: m.unprocessed(), Since: m.UpdatedAt,
			Change: pick(m.Retryable(a.At), "", m.remedy()+"time: it may be tried again at "+at(m.LeaseUntil)),
		})
	}
	if waits {
		gates = append(gates, f.cap(a))
	}
	return gates
}

func (a Attempt) number() Gate {
	g := Gate{Name: "number", Outcome: Rejected, Passed: a.Refused == nil, Fact: "a number that may be texted"}
	if a.Refused != nil {
		g.Fact, g.Change, _ = strings.Cut(a.Refused.Error(), phone.Advice)
	}
	return g
}

// cap asks whether as much was sent already as may be.
func (f ClaimPreview) cap(a Attempt) Gate {
	full := f.Exceeded.Until()
	g := Gate{Name: "cap", Outcome: Capped, Passed: full.IsZero(), Fact: "no cap is full"}
	if !full.IsZero() {
		g.Fact, g.Since = "as much was sent as the cap allows: "+f.Exceeded.words(a.Limits), f.NewestAt
		g.Change = "time: there is room at " + at(full) + "; or a higher cap"
	}
	return g
}

// undelivered says why a message that Twilio took did not reach the person, which decides no send: it is never sent twice. Only a new
// session sends the same words again, under its own key.
func (m Message) undelivered() Gate {
	known := meaningOf(m.ErrorCode)
	g := Gate{
		Name: Delivered, Outcome: AlreadyAccepted, Since: m.UpdatedAt,
		Fact: fmt.Sprintf("it did not reach the person, code %d: %s", m.ErrorCode, known.Meaning), Change: known.Remedy,
	}
	session := conversationOf(m.Key)
	if m.ProfileID == uuid.Nil || !strings.HasPrefix(m.Key, "onboarding:") || session == "" || known.Class == twilio.ClassOptedOut {
		return g
	}
	g.Change += "; then POST /v1/sessions/" + session + ":reset"
	if known.Class == twilio.ClassRecipient {
		g.Change += "; /v1/profiles/" + m.ProfileID.String() + " takes the new number"
	}
	g.Change += "; POST /v1/profiles/" + m.ProfileID.String() + ":activate begins anew"
	return g
}

// profile returns the id of the recipient's profile, or the placeholder of an address.
func (a Attempt) profile(m *Message) string {
	switch {
	case a.ProfileID != uuid.Nil:
		return a.ProfileID.String()
	case m != nil && m.ProfileID != uuid.Nil:
		return m.ProfileID.String()
	}
	return "{profile_id}"
}

func pick(holds bool, then, otherwise string) string {
	if holds {
		return then
	}
	return otherwise
}

// accepted asks whether Twilio has the message, which decides before everything else.
func (f ClaimPreview) accepted() Gate {
	if f.Message == nil || !f.Message.Accepted() {
		return Gate{Name: "not_accepted", Passed: true, Fact: "Twilio is not known to have it"}
	}
	return Gate{
		Name: "not_accepted", Outcome: AlreadyAccepted, Since: f.Message.AcceptedAt,
		Fact: "Twilio has it; its status is " + string(f.Message.Status), Change: "nothing: it is never sent twice",
	}
}

// hold asks whether an operator holds the person, or their own words do.
func (f ClaimPreview) hold(profile string) Gate {
	switch {
	case !f.Held:
		return Gate{Name: "hold", Passed: true, Fact: "no hold", Since: f.HoldSince}
	case f.Unjudged != uuid.Nil:
		return Gate{
			Name: "hold", Outcome: Held, Since: f.HoldSince,
			Fact: "held by paceline: words of the person may be an opt-out, and no operator has judged them; message " + f.Unjudged.String(),
			Change: "read GET /v1/messages/" + f.Unjudged.String() + "; if they want no more, PUT /v1/consents/{their number} with opted_out; " +
				"if not, resume the session or cancel the failed job that waits for it; without either, POST /v1/profiles/" + profile + ":release",
		}
	}
	return Gate{
		Name: "hold", Outcome: Held, Fact: "the person is on a safety hold", Since: f.HoldSince,
		Change: "POST /v1/profiles/" + profile + ":release",
	}
}

func (f ClaimPreview) consent() Gate {
	return Gate{
		Name: "consent", Outcome: OptedOut, Passed: !f.OptedOut, Since: f.ConsentSince,
		Fact:   pick(f.OptedOut, "the person has opted out", "the person has not opted out"),
		Change: pick(f.OptedOut, "the person texts START; or PUT /v1/consents/{phone} with evidence of it", ""),
	}
}

func (f ClaimPreview) attempt(now time.Time) Gate {
	m := f.Message
	switch {
	case m == nil:
		return Gate{Name: "attempt", Passed: true, Fact: "none was made"}
	case m.Accepted():
		return Gate{Name: "attempt", Passed: true, Fact: "Twilio took it", Since: m.AcceptedAt}
	}
	g := Gate{Name: "attempt", Since: m.UpdatedAt, Fact: "the last one is " + string(m.Status)}
	switch m.Status {
	case sms.Throttled:
		g.Passed = true
	case sms.Sending:
		g.Outcome, g.Fact = InFlight, "Twilio was asked at "+at(m.AttemptedAt)+", and its answer is not recorded yet"
		if m.Abandoned(now) {
			g.Outcome, g.Fact = Unknown, "Twilio was asked at "+at(m.AttemptedAt)+", and the process that asked is gone"
		}
		g.Change = "Twilio's answer"
	case sms.Rejected:
		g.Outcome, g.Fact = Rejected, explain(m.ErrorCode)
		g.Change = "mend the cause, then POST /v1/messages/" + m.ID.String() + ":resolve with RESOLUTION_NOT_SENT; " +
			"a session that is parked is resumed after that"
	case sms.Parked, sms.GivenUp:
		g.Outcome = map[sms.Status]Outcome{sms.Parked: Parked, sms.GivenUp: GivenUp}[m.Status]
		g.Change = "POST /v1/messages/" + m.ID.String() + ":resolve, after GET /v1/messages/" + m.ID.String() + "/evidence"
	case sms.Unknown, sms.Accepted, sms.Queued, sms.Sent, sms.Failed, sms.Undelivered, sms.Delivered, sms.Received:
		g.Outcome, g.Fact, g.Change = Unknown, m.inDoubt(), "its receipt, or Twilio's list of messages"
		if !m.NextCheckAt.IsZero() {
			g.Change += ", which is asked at " + at(m.NextCheckAt)
		}
	}
	return g
}

// inDoubt returns the facts that are known of a message in doubt. The answer itself is not stored.
func (m Message) inDoubt() string {
	fact := fmt.Sprintf("in doubt: Twilio was asked at %s, attempt %d, and no usable answer is recorded", at(m.AttemptedAt), m.Attempts)
	if m.ErrorCode != 0 {
		fact += fmt.Sprintf(" but code %d", m.ErrorCode)
	}
	switch {
	case m.FailedListings > 0:
		fact += fmt.Sprintf("; Twilio's list of messages could not be had since %s, tries: %d", at(m.FailingSince), m.FailedListings)
	case !m.AbsentSince.IsZero():
		fact += "; Twilio's list of messages did not have it at " + at(m.AbsentSince)
	}
	return fact
}

// unprocessed names the attempt that Twilio did not process, and the reason where that is known.
func (m Message) unprocessed() string {
	fact := fmt.Sprintf("Twilio did not process the last attempt, number %d, of %s", m.Attempts, at(m.AttemptedAt))
	if m.ErrorCode != 0 {
		fact += ": " + explain(m.ErrorCode)
	}
	return fact
}

// remedy returns what a person has to do before the message passes; empty of one that passes by itself.
func (m Message) remedy() string {
	if !m.NeedsPerson() {
		return ""
	}
	return meaningOf(m.ErrorCode).Remedy + "; then "
}

// at is an instant as the texts of an explanation have it.
func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// explained reads the outcome off the gates, and says what follows.
func explained(gates []Gate, m *Message, now time.Time) Explanation {
	e := Explanation{Outcome: WouldSend, Gates: gates}
	for _, g := range gates {
		if !g.Passed {
			e.Outcome, e.Advice = g.Outcome, g.Change
			break
		}
	}
	if last := gates[len(gates)-1]; last.Name == Delivered && e.Outcome == AlreadyAccepted {
		e.Advice = last.Change
	}
	e.Next = next(e.Outcome, m, now)
	if m == nil || !m.NeedsPerson() {
		return e
	}
	e.NeedsPerson = true
	switch e.Outcome {
	case WouldSend:
		e.Advice = meaningOf(m.ErrorCode).Remedy
		e.Next += untilMended
	case Throttled:
		e.Next += untilMended
	default:
	}
	return e
}

// untilMended follows what happens by itself to a message that NeedsPerson.
const untilMended = " Twilio refuses it again until what it refuses is mended, which no retry does."

func next(o Outcome, m *Message, now time.Time) string {
	switch o {
	case WouldSend:
		return "It is sent when it is asked for again: onboarding does for a session that is active; a parked one has to be resumed first."
	case Throttled:
		return "It is sent when it is asked for again, not before " + at(m.LeaseUntil) + ": onboarding does for a session that is active; " +
			"a parked one has to be resumed first."
	case AlreadyAccepted:
		if m.Status.Final() {
			return ""
		}
		return "A receipt of Twilio says what became of it; without one Twilio is asked."
	case InFlight:
		left := cmp.Or(m.LeaseUntil.Sub(now).Round(time.Second), time.Second)
		return fmt.Sprintf("Twilio's answer is written down within %s, or the message is looked for at Twilio.", left)
	case Unknown:
		asked := ""
		if !m.NextCheckAt.IsZero() {
			asked = ", which is asked at " + at(m.NextCheckAt)
		}
		return "Its receipt settles it, or Twilio's list of messages does" + asked + ": seen there it is adopted; absent twice it is sent " +
			"again, or left to an operator where its flow says never_duplicate."
	case Capped:
		return "It is sent when there is room and it is asked for again."
	case Suspended:
		return "It is sent once the organisation is resumed and it is asked for again."
	case Held:
		return "It is sent once the hold is lifted and it is asked for again."
	case Rejected, OptedOut, RemindersOff, Paced, Parked, GivenUp, WithoutOne, OtherText, FromPerson, Accepted:
	}
	return ""
}
