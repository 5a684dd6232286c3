package inbound

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// records are Twilio's own; twilio.Client implements it.
type records interface {
	// ListInbound is one page of the messages to a number in a span of time, the newest first, and where the next page is.
	ListInbound(
		ctx context.Context, to string, since, until time.Time, page string,
	) (messages []twilio.Incoming, next string, err error)
	// ServiceNumbers are the senders of a messaging service.
	ServiceNumbers(ctx context.Context, serviceSID string) ([]string, error)
}

// Span asks for the messages of a span of time, in whole seconds.
type Span struct {
	OrgID        uuid.UUID
	Since, Until time.Time
	Page         string // of the page before; empty for the first
}

// Listed is a message of a person as Twilio has it.
type Listed struct {
	twilio.Incoming

	Recorded bool
}

// ListedPage is a part of a span.
type ListedPage struct {
	Messages []Listed // of one number, the newest first
	Next     string   // empty on the last page
}

// place is the point at which a page begins: in the list of the first of the numbers that are left.
type place struct {
	Numbers []string `json:"numbers"`
	At      string   `json:"at"` // Twilio's own; empty at the beginning
}

// ListInbound is one page of what people wrote to a sender in a span of time, as Twilio has it, and of each whether it was recorded:
// Twilio gives a webhook up after a quarter of a minute, but keeps the message. It records nothing; the caller delivers what is missing
// the way that every message is delivered. Errors: sms.ErrInvalid, send.ErrNoSender, sms.ErrUnavailable.
func (s *Service) ListInbound(ctx context.Context, span Span) (ListedPage, error) {
	if span.Since.IsZero() || span.Until.Before(span.Since) {
		return ListedPage{}, fmt.Errorf("%w: since and until must be a span of time", sms.ErrInvalid)
	}
	if _, err := s.Send.Sender.Of(span.OrgID); err != nil {
		return ListedPage{}, err
	}
	at, err := s.begin(ctx, span.Page)
	if err != nil || len(at.Numbers) == 0 { // a service without a number
		return ListedPage{}, err
	}
	incoming, next, err := s.Twilio.ListInbound(ctx, at.Numbers[0], span.Since, span.Until, at.At)
	if err != nil {
		return ListedPage{}, fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	listed, err := s.mark(ctx, incoming)
	if err != nil {
		return ListedPage{}, err
	}
	if at.At = next; next == "" {
		at.Numbers = at.Numbers[1:]
	}
	return ListedPage{Messages: listed, Next: at.token()}, nil
}

// begin reads a page's token, or begins with all numbers of the sender.
func (s *Service) begin(ctx context.Context, token string) (at place, err error) {
	if token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || json.Unmarshal(raw, &at) != nil || len(at.Numbers) == 0 {
			return place{}, fmt.Errorf("%w: page_token is not one of ours", sms.ErrInvalid)
		}
		return at, nil
	}
	if s.Send.Sender.Number != "" {
		at.Numbers = append(at.Numbers, s.Send.Sender.Number)
	}
	if s.Send.Sender.ServiceSID == "" {
		return at, nil
	}
	pool, err := s.Twilio.ServiceNumbers(ctx, s.Send.Sender.ServiceSID)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	for _, number := range pool {
		if !slices.Contains(at.Numbers, number) {
			at.Numbers = append(at.Numbers, number)
		}
	}
	return at, nil
}

// token is the place as its page's token; empty behind the last number.
func (p place) token() string {
	if len(p.Numbers) == 0 {
		return ""
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // two fields of strings
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// mark finds out which of the messages are recorded, and makes the others storable as the gateway does.
func (s *Service) mark(ctx context.Context, incoming []twilio.Incoming) ([]Listed, error) {
	sids := make([]string, len(incoming))
	for i, m := range incoming {
		sids[i] = send.Storable(m.SID)
	}
	recorded, err := s.Store.RecordedSIDs(ctx, sids)
	if err != nil {
		return nil, fmt.Errorf("find what is recorded: %w", err)
	}
	known := make(map[string]bool, len(recorded))
	for _, sid := range recorded {
		known[sid] = true
	}
	listed := make([]Listed, len(incoming))
	for i, m := range incoming {
		m.SID, m.From, m.To, m.Body = sids[i], send.Storable(m.From), send.Storable(m.To), send.Storable(m.Body)
		m.ServiceSID = s.service(m)
		listed[i] = Listed{Incoming: m, Recorded: known[m.SID]}
	}
	return listed, nil
}

// service is the messaging service by which a message is ours: it was sent to a number that the service has now, whatever Twilio
// noted when it came.
func (s *Service) service(m twilio.Incoming) string {
	if m.To == s.Send.Sender.Number {
		return send.Storable(m.ServiceSID)
	}
	return s.Send.Sender.ServiceSID
}
