package send

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// MaxReason is the longest reason that an operator may give, in characters.
const MaxReason = 500

// ResolutionKind is the verdict of an operator on a message in doubt.
type ResolutionKind string

// The kinds.
const (
	Sent    ResolutionKind = "sent"     // Twilio has it, under the SID given
	NotSent ResolutionKind = "not_sent" // it does not: the next call of Send may send it again
	GiveUp  ResolutionKind = "give_up"  // it is never sent, whether Twilio has it or not
)

// ResolveRequest is an operator's resolution of one message.
type ResolveRequest struct {
	OrgID     uuid.UUID
	MessageID uuid.UUID
	Kind      ResolutionKind
	SID       string // with Sent, and only then
	Attempt   int    // which attempt it is about; 0 for the only one that there was
	Reason    string
}

// Resolution is a request with what it was checked against.
type Resolution struct {
	ResolveRequest

	Token   uuid.UUID      // of the attempt that it is about
	Stored  *twilio.Stored // with Sent: what Twilio says of the SID
	Timeout time.Duration  // of one call to Twilio
	At      time.Time
}

var sidShape = regexp.MustCompile(`^(SM|MM)[0-9a-fA-F]{32}$`)

// Resolve takes an operator's resolution of a message that only an operator can settle, and keeps it with the evidence. It sends nothing.
// The same resolution again changes nothing. ErrNotResolvable says why one is not taken: the message needs none, is being sent
// at this moment, or Twilio contradicts it.
func (s *Service) Resolve(ctx context.Context, request ResolveRequest) (Message, error) {
	if err := request.check(); err != nil {
		return Message{}, err
	}
	evidence, err := s.Evidence.Evidence(ctx, request.OrgID, request.MessageID)
	if err != nil {
		return Message{}, err
	}
	request.Reason = Storable(strings.TrimSpace(request.Reason))
	r := Resolution{ResolveRequest: request, Token: evidence.Message.AttemptToken, Timeout: s.Timeout, At: s.Now()}
	if _, err := evidence.Message.resolvable(r); err != nil {
		return Message{}, err
	}
	if r.Kind == Sent {
		if r.Stored, err = s.confirm(ctx, evidence.Message, r.SID); err != nil {
			return Message{}, err
		}
		r.At = s.Now()
	}
	m, changed, err := s.Evidence.Resolve(ctx, r)
	if err != nil {
		return Message{}, err
	}
	if changed {
		as := map[ResolutionKind]Settlement{Sent: SettledSent, NotSent: SettledNotSent, GiveUp: SettledGivenUp}[r.Kind]
		s.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.sms_doubt_settled", slog.String("as", string(as)), m.Attr())
		s.Metrics.settled(ctx, as)
	}
	return m, nil
}

func (r ResolveRequest) check() error {
	reason := strings.TrimSpace(r.Reason)
	switch {
	case r.Kind != Sent && r.Kind != NotSent && r.Kind != GiveUp:
		return fmt.Errorf("%w: resolution must be SENT, NOT_SENT or GIVE_UP", sms.ErrInvalid)
	case r.Kind == Sent && !sidShape.MatchString(r.SID):
		return fmt.Errorf("%w: twilio_sid must be Twilio's SID of the message, SM or MM and 32 hex digits", sms.ErrInvalid)
	case r.Attempt < 0:
		return fmt.Errorf("%w: attempt must be the number that the evidence shows", sms.ErrInvalid)
	case r.Kind != Sent && r.SID != "":
		return fmt.Errorf("%w: twilio_sid is for SENT only", sms.ErrInvalid)
	case reason == "" || utf8.RuneCountInString(reason) > MaxReason || strings.ContainsRune(reason, 0):
		return fmt.Errorf("%w: reason must have 1 to %d characters", sms.ErrInvalid, MaxReason)
	}
	return nil
}

// confirm asks the account of the sender of a message for the one at Twilio that an operator says it is.
func (s *Service) confirm(ctx context.Context, m Message, sid string) (*twilio.Stored, error) {
	through, err := carrierOf(ctx, s.Senders, s.Carrier, m)
	var stored twilio.Stored
	if err == nil {
		stored, err = through.Fetch(ctx, sid)
	}
	switch {
	case errors.Is(err, senders.ErrGone):
		return nil, notResolvable(senders.ErrGone.Error() + "; only GIVE_UP settles it")
	case errors.Is(err, twilio.ErrNotFound):
		return nil, notResolvable("Twilio has no message with this SID")
	case err != nil:
		return nil, fmt.Errorf("%w: Twilio has to confirm the SID: %w", sms.ErrUnavailable, err)
	}
	return &stored, nil
}

// Resolve applies an operator's resolution. Changed is false when it says what is so already.
func (m Message) Resolve(r Resolution) (resolved Message, changed bool, err error) {
	if changed, err = m.resolvable(r); err != nil || !changed {
		return m, false, err
	}
	switch r.Kind {
	case Sent:
		if !r.Stored.Outbound() || r.Stored.To != m.To {
			return m, false, notResolvable("Twilio's message with this SID went to another number")
		}
		if r.Stored.Body != "" && !says(*r.Stored, m.Body) { // empty when Twilio does not keep it: then the operator's resolution is all there is
			return m, false, notResolvable("Twilio's message with this SID says something else")
		}
		return m.take(*r.Stored, r.At), true, nil
	case NotSent:
		return m.release(r.At), true, nil
	case GiveUp:
		m = m.endChecks(r.At)
		m.Status = sms.GivenUp
		return m, true, nil
	}
	return m, false, notResolvable("there is no such word")
}

// resolvable reports whether the resolution would change anything, or why it is not taken.
func (m Message) resolvable(r Resolution) (changes bool, err error) {
	said := map[ResolutionKind]bool{Sent: m.Accepted() && m.SID == r.SID, NotSent: m.Status == sms.Throttled, GiveUp: m.Status == sms.GivenUp}
	switch {
	case m.Direction != Outbound:
		return false, notResolvable("it is a text of the person's")
	case said[r.Kind]:
		return false, nil
	case m.Accepted():
		return false, notResolvable("Twilio has it, under " + m.SID)
	case r.Attempt == 0 && m.Attempts > 1:
		return false, notResolvable(fmt.Sprintf("it has had %d attempts; look at the evidence and name the one that you mean", m.Attempts))
	case r.Attempt != 0 && r.Attempt != m.Attempts:
		return false, notResolvable(fmt.Sprintf("attempt %d is not the last one; look at the evidence again", r.Attempt))
	case m.AttemptToken != r.Token:
		return false, notResolvable("a new attempt has been made meanwhile; look at the evidence again")
	}
	waits := m.Status == sms.Sending || r.Kind == NotSent && m.Status != sms.Rejected
	if waits && !m.Quiet(r.At, r.Timeout) {
		left := m.LeaseUntil.Add(r.Timeout).Sub(r.At).Round(time.Second)
		return false, notResolvable(fmt.Sprintf("it is being sent now, or may still be on its way; ask again in %s", left))
	}
	switch m.Status {
	case sms.Sending, sms.Unknown, sms.Parked:
		return true, nil
	case sms.Rejected, sms.GivenUp:
		if r.Kind == NotSent {
			return true, nil
		}
		return false, notResolvable("it is " + string(m.Status) + ", which is not in doubt; only NOT_SENT lets it be sent again")
	case sms.Throttled, sms.Accepted, sms.Queued, sms.Sent, sms.Failed, sms.Undelivered, sms.Delivered, sms.Received:
	}
	return false, notResolvable("it is " + string(m.Status) + ", which is not in doubt; the next call that asks for it sends it")
}

// ErrTaken means that the SID an operator gave is another message's.
var ErrTaken = notResolvable("another message has this SID")

// Candidates is the message at Twilio that the resolution names, for the evidence.
func (r Resolution) Candidates() []Candidate {
	if r.Stored == nil {
		return nil
	}
	return []Candidate{{SID: r.Stored.SID, Status: r.Stored.Status, CreatedAt: r.Stored.CreatedAt}}
}

func notResolvable(why string) error { return fmt.Errorf("%w: %s", ErrNotResolvable, why) }
