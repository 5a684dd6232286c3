package inbound

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
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
	Sender       *uuid.UUID // of this one alone; nil for all
	Since, Until time.Time
	Page         string // of the page before; empty for the first
}

// Listed is a message of a person as Twilio has it.
type Listed struct {
	twilio.Incoming

	Account  string // that has it; empty for that of the environment
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
	// Senders are the stored senders that the numbers are of, in the same order; a release without them lists the environment's alone.
	Senders []uuid.UUID `json:"senders,omitempty"`
	// Refused are Twilio's refusals of senders in use, which are reported when the others are listed.
	Refused []string `json:"refused,omitempty"`
}

// sender returns the sender of the first number.
func (p *place) sender() uuid.UUID {
	if len(p.Senders) == 0 {
		return uuid.Nil
	}
	return p.Senders[0]
}

// drop leaves the first number out.
func (p *place) drop() {
	p.Numbers, p.Senders, p.At = p.Numbers[1:], p.Senders[min(1, len(p.Senders)):], ""
}

// passOver reports whether a sender is left out because its account cannot be asked: a disabled one for good, and one in use until the
// others are listed. Every other error may pass.
func (p *place) passOver(from senders.Sender, err error) bool {
	refused := errors.Is(err, twilio.ErrCredentials) || errors.Is(err, twilio.ErrForbidden) || errors.Is(err, twilio.ErrNoResource)
	if refused && from.Status == senders.Active {
		p.Refused = append(p.Refused, fmt.Sprintf("sender %s: %v", from.ID, err))
	}
	return refused || errors.Is(err, senders.ErrGone)
}

// ListInbound is one page of what people wrote to a sender in a span of time, as Twilio has it, and of each whether it was recorded:
// Twilio gives a webhook up after a quarter of a minute, but keeps the message. It records nothing; the caller delivers what is missing
// the way that every message is delivered. A sender in use that Twilio refuses is an error when all others were listed. Errors:
// sms.ErrInvalid, senders.ErrNoSender, sms.ErrUnavailable.
func (s *Service) ListInbound(ctx context.Context, span Span) (ListedPage, error) {
	if span.Since.IsZero() || span.Until.Before(span.Since) {
		return ListedPage{}, fmt.Errorf("%w: since and until must be a span of time", sms.ErrInvalid)
	}
	at, err := s.begin(ctx, span)
	for err == nil && len(at.Numbers) > 0 {
		var page ListedPage
		var from senders.Sender
		page, from, err = s.page(ctx, span, &at)
		if err == nil {
			return page, nil
		}
		if span.Sender == nil && at.passOver(from, err) {
			at.drop()
			err = nil
		}
	}
	if err == nil && len(at.Refused) > 0 {
		err = fmt.Errorf("%w: Twilio refuses to list what came to %s", sms.ErrUnavailable, strings.Join(at.Refused, ", "))
	}
	return ListedPage{}, err // without an error, of a service without a number
}

// page lists what the first of the numbers got, and moves the place behind it.
func (s *Service) page(ctx context.Context, span Span, at *place) (ListedPage, senders.Sender, error) {
	from, through, err := s.listed(ctx, span.OrgID, at.sender())
	if err != nil {
		return ListedPage{}, from, err
	}
	incoming, next, err := through.ListInbound(ctx, at.Numbers[0], span.Since, span.Until, at.At)
	if err != nil {
		return ListedPage{}, from, fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	listed, err := s.mark(ctx, from, incoming)
	if err != nil {
		return ListedPage{}, from, err
	}
	if at.At = next; next == "" {
		at.drop()
	}
	return ListedPage{Messages: listed, Next: at.token()}, from, nil
}

// listed returns a sender and the records of its account.
func (s *Service) listed(ctx context.Context, orgID, id uuid.UUID) (senders.Sender, records, error) {
	all, err := s.Send.Senders.Of(ctx, orgID)
	if err != nil {
		return senders.Sender{}, nil, err
	}
	i := slices.IndexFunc(all, func(from senders.Sender) bool { return from.ID == id })
	switch {
	case i < 0:
		return senders.Sender{}, nil, fmt.Errorf("%w: page_token is not one of ours", sms.ErrInvalid)
	case id == uuid.Nil:
		return all[i], s.Twilio, nil
	}
	through, err := s.Send.Senders.Client(ctx, orgID, id)
	if err != nil {
		return all[i], nil, fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	return all[i], through, nil
}

// begin reads a page's token, or begins with all numbers of all senders of the organisation, also of those that send no more.
func (s *Service) begin(ctx context.Context, span Span) (at place, err error) {
	if span.Page != "" {
		raw, err := base64.RawURLEncoding.DecodeString(span.Page)
		if err != nil || json.Unmarshal(raw, &at) != nil || len(at.Numbers)+len(at.Refused) == 0 || len(at.Senders) > len(at.Numbers) {
			return place{}, fmt.Errorf("%w: page_token is not one of ours", sms.ErrInvalid)
		}
		return at, nil
	}
	all, err := s.Send.Senders.Of(ctx, span.OrgID)
	if err != nil {
		return place{}, err
	}
	all = slices.DeleteFunc(all, func(from senders.Sender) bool {
		return !from.DeletedAt.IsZero() || span.Sender != nil && from.ID != *span.Sender
	})
	if len(all) == 0 {
		return place{}, senders.ErrNoSender
	}
	for _, from := range all {
		numbers, err := s.numbers(ctx, from)
		if errors.Is(err, senders.ErrGone) || span.Sender == nil && err != nil && at.passOver(from, err) {
			continue
		}
		if err != nil {
			return place{}, err
		}
		for _, number := range numbers {
			if !slices.Contains(at.Numbers, number) {
				at.Numbers, at.Senders = append(at.Numbers, number), append(at.Senders, from.ID)
			}
		}
	}
	if len(all) == 1 && all[0].ID == uuid.Nil {
		at.Senders = nil // as releases without stored senders have it
	}
	return at, nil
}

// numbers lists the numbers at which a sender receives.
func (s *Service) numbers(ctx context.Context, from senders.Sender) (numbers []string, err error) {
	if from.Number != "" {
		numbers = append(numbers, from.Number)
	}
	if from.ServiceSID == "" {
		return numbers, nil
	}
	_, through, err := s.listed(ctx, from.OrgID, from.ID)
	if err != nil {
		return nil, err
	}
	pool, err := through.ServiceNumbers(ctx, from.ServiceSID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	return append(numbers, pool...), nil
}

// token is the place as its page's token; empty behind the last number, unless a refusal is to be reported.
func (p *place) token() string {
	if len(p.Numbers)+len(p.Refused) == 0 {
		return ""
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and ids
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// mark finds out which of the messages are recorded, and makes the others storable as the gateway does.
func (s *Service) mark(ctx context.Context, from senders.Sender, incoming []twilio.Incoming) ([]Listed, error) {
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
		m.ServiceSID = service(from, m)
		listed[i] = Listed{Incoming: m, Recorded: known[m.SID]}
		if from.ID != uuid.Nil {
			listed[i].Account = from.AccountSID
		}
	}
	return listed, nil
}

// service is the messaging service by which a message is the sender's: it was sent to a number that the service has now, whatever Twilio
// noted when it came.
func service(from senders.Sender, m twilio.Incoming) string {
	if m.To == from.Number {
		return send.Storable(m.ServiceSID)
	}
	return from.ServiceSID
}
