package delivery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/twilio"
)

// Auditor says what people texted to a sender as Twilio has it, and which of it was never recorded: Twilio gives a webhook up
// after a quarter of a minute, but keeps the text. It records nothing; whoever asks feeds what is missing through the way
// that every text takes.
type Auditor struct {
	Twilio incomingList
	Store  recordedTexts
	Sender Sender
}

// incomingList is Twilio's own record; twilio.Client implements it.
type incomingList interface {
	// ListInbound is one page of the texts to a number in a span of time, the newest first, and where the next page is.
	ListInbound(ctx context.Context, to string, since, until time.Time, page string) (texts []twilio.Incoming, next string, err error)
	// ServiceNumbers are the senders of a messaging service.
	ServiceNumbers(ctx context.Context, serviceSID string) ([]string, error)
}

// recordedTexts is what was recorded; postgres.Store implements it.
type recordedTexts interface {
	// RecordedTexts are those of the SIDs whose texts RecordInbound has stored.
	RecordedTexts(ctx context.Context, sids []string) ([]string, error)
}

// Span asks for the texts of a span of time, in whole seconds.
type Span struct {
	OrgID        uuid.UUID
	Since, Until time.Time
	Page         string // of the page before; empty for the first
}

// Heard is a text of a person as Twilio has it.
type Heard struct {
	twilio.Incoming

	Recorded bool
}

// HeardPage is a part of a span.
type HeardPage struct {
	Texts []Heard // of one number, the newest first
	Next  string  // empty on the last page
}

// place is where a page begins: in the list of the first of the numbers that are left.
type place struct {
	Numbers []string `json:"numbers"`
	At      string   `json:"at"` // Twilio's own; empty at the beginning
}

// Inbound is one page of the texts in a span. Errors: ErrInvalid, ErrNoSender, ErrUnavailable.
func (a *Auditor) Inbound(ctx context.Context, s Span) (HeardPage, error) {
	if s.Since.IsZero() || s.Until.Before(s.Since) {
		return HeardPage{}, fmt.Errorf("%w: since and until must be a span of time", ErrInvalid)
	}
	if _, err := a.Sender.Of(s.OrgID); err != nil {
		return HeardPage{}, err
	}
	at, err := a.begin(ctx, s.Page)
	if err != nil || len(at.Numbers) == 0 { // a service without a number
		return HeardPage{}, err
	}
	incoming, next, err := a.Twilio.ListInbound(ctx, at.Numbers[0], s.Since, s.Until, at.At)
	if err != nil {
		return HeardPage{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	texts, err := a.mark(ctx, incoming)
	if err != nil {
		return HeardPage{}, err
	}
	if at.At = next; next == "" {
		at.Numbers = at.Numbers[1:]
	}
	return HeardPage{Texts: texts, Next: at.token()}, nil
}

// begin reads a page's token, or begins with all numbers of the sender.
func (a *Auditor) begin(ctx context.Context, token string) (at place, err error) {
	if token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || json.Unmarshal(raw, &at) != nil || len(at.Numbers) == 0 {
			return place{}, fmt.Errorf("%w: page_token is not one of ours", ErrInvalid)
		}
		return at, nil
	}
	if a.Sender.Number != "" {
		at.Numbers = append(at.Numbers, a.Sender.Number)
	}
	if a.Sender.ServiceSID == "" {
		return at, nil
	}
	pool, err := a.Twilio.ServiceNumbers(ctx, a.Sender.ServiceSID)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
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

// mark finds out which of the texts are recorded, and makes the others storable as the gateway does.
func (a *Auditor) mark(ctx context.Context, incoming []twilio.Incoming) ([]Heard, error) {
	sids := make([]string, len(incoming))
	for i, m := range incoming {
		sids[i] = storable(m.SID)
	}
	recorded, err := a.Store.RecordedTexts(ctx, sids)
	if err != nil {
		return nil, fmt.Errorf("find what is recorded: %w", err)
	}
	known := make(map[string]bool, len(recorded))
	for _, sid := range recorded {
		known[sid] = true
	}
	texts := make([]Heard, len(incoming))
	for i, m := range incoming {
		m.SID, m.From, m.To, m.Body = sids[i], storable(m.From), storable(m.To), storable(m.Body)
		m.ServiceSID = a.service(m)
		texts[i] = Heard{Incoming: m, Recorded: known[m.SID]}
	}
	return texts, nil
}

// service is the messaging service by which a text is ours: it was sent to a number that the service has now, whatever Twilio
// noted when it came.
func (a *Auditor) service(m twilio.Incoming) string {
	if m.To == a.Sender.Number {
		return storable(m.ServiceSID)
	}
	return a.Sender.ServiceSID
}
