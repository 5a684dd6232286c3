package twilio

import (
	"slices"
	"strconv"
	"time"
)

// Status is the state of a message, in Twilio's words.
type Status string

// The statuses of an SMS. Received is an inbound one's only status.
const (
	StatusAccepted    Status = "accepted"
	StatusQueued      Status = "queued"
	StatusSending     Status = "sending"
	StatusSent        Status = "sent"
	StatusDelivered   Status = "delivered"
	StatusUndelivered Status = "undelivered"
	StatusFailed      Status = "failed"
	StatusReceived    Status = "received"
)

// Direction is the origin of a message, in Twilio's words.
type Direction string

// The directions: made by a call of the API, by a TwiML reply or the carrier's own keyword reply, or by a phone.
const (
	DirectionAPI     Direction = "outbound-api"
	DirectionReply   Direction = "outbound-reply"
	DirectionInbound Direction = "inbound"
)

// Message is one message in either direction, as the emulator remembers it.
type Message struct {
	SID        string // "SM" and 32 hex digits
	AccountSID string // of the account that owns it
	ServiceSID string // the messaging service that it was sent through or received by, else empty
	To, From   string // E.164
	Body       string
	Media      []Media // of an inbound one
	OptOutType string  // STOP, START or HELP where Advanced Opt-Out has read an inbound one; only its webhook has it, no list
	Direction  Direction
	Carrier    bool // true for Twilio's own answer to STOP, START and HELP, which no application asked for
	Segments   int
	Status     Status
	ErrorCode  int // Twilio's code when failed or undelivered, else 0
	CreatedAt  time.Time
	UpdatedAt  time.Time
	SentAt     time.Time // zero until the carrier took it
	History    []Change  // every status it has had, oldest first

	StatusCallback string // as given, with its fragment; empty for none
	silent         bool   // from the magic number: never moves and never calls back
}

// Media is one picture or other file that came with a message.
type Media struct {
	URL, ContentType string
}

// Change is one step of a message's life.
type Change struct {
	Status Status
	At     time.Time // on the emulator's clock
}

// become moves the message to status at now.
func (m *Message) become(status Status, now time.Time) {
	m.Status, m.UpdatedAt = status, now
	m.History = append(m.History, Change{Status: status, At: now})
	if status == StatusSent || status == StatusReceived {
		m.SentAt = now
	}
}

// snapshot is a copy that later changes of the message do not reach.
func (m *Message) snapshot() Message {
	c := *m
	c.History, c.Media = slices.Clone(m.History), slices.Clone(m.Media)
	return c
}

// resource is a message as the API shows it. Every field is present, unknown ones as null.
type resource struct {
	AccountSID          string            `json:"account_sid"`
	APIVersion          string            `json:"api_version"`
	Body                string            `json:"body"`
	DateCreated         string            `json:"date_created"`
	DateSent            *string           `json:"date_sent"`
	DateUpdated         string            `json:"date_updated"`
	Direction           Direction         `json:"direction"`
	ErrorCode           *int              `json:"error_code"`
	ErrorMessage        *string           `json:"error_message"`
	From                *string           `json:"from"`
	MessagingServiceSID *string           `json:"messaging_service_sid"`
	NumMedia            string            `json:"num_media"`
	NumSegments         string            `json:"num_segments"`
	Price               *string           `json:"price"`
	PriceUnit           *string           `json:"price_unit"`
	SID                 string            `json:"sid"`
	Status              Status            `json:"status"`
	SubresourceURIs     map[string]string `json:"subresource_uris"`
	To                  string            `json:"to"`
	URI                 string            `json:"uri"`
}

func (e *Emulator) resource(m Message) resource {
	uri := (&Account{SID: m.AccountSID}).path("/Messages/" + m.SID)
	r := resource{
		AccountSID: m.AccountSID, APIVersion: "2010-04-01", Body: m.Body,
		DateCreated: rfc2822(m.CreatedAt), DateUpdated: rfc2822(m.UpdatedAt),
		Direction: m.Direction, NumMedia: strconv.Itoa(len(m.Media)), NumSegments: strconv.Itoa(m.Segments),
		SID: m.SID, Status: m.Status, To: m.To, URI: uri + ".json",
		SubresourceURIs: map[string]string{"media": uri + "/Media.json"},
	}
	if m.Status == StatusAccepted { // a service has not yet picked the sender
		r.NumSegments = "0"
	} else {
		r.From = &m.From
	}
	if m.ServiceSID != "" {
		r.MessagingServiceSID = &m.ServiceSID
	}
	if !m.SentAt.IsZero() {
		sent := rfc2822(m.SentAt)
		r.DateSent = &sent
	}
	if m.ErrorCode != 0 {
		r.ErrorCode = &m.ErrorCode
	}
	return r
}

func rfc2822(t time.Time) string { return t.UTC().Format(time.RFC1123Z) }
