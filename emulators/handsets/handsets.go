// Package handsets is the people's side of both emulators over HTTP: what each phone got and sent, and what goes wrong at Twilio and at
// QStash, to be switched by a person. It is JSON, for the page of the console that shows it (docs/adr/0043).
package handsets

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

const (
	// maxPhones bounds the number of handsets that are shown at once, and maxKnown the number of phone numbers that are offered.
	maxPhones = 4
	maxKnown  = 50
	// maxMessages bounds the number of messages that a handset scrolls back.
	maxMessages = 60
	maxFaults   = 4 << 10 // bytes of a request
)

// Config says to which emulators the handsets belong.
type Config struct {
	Twilio *twilio.Emulator
	QStash *qstash.Emulator
	Clock  clock.Clock // the emulators' own
	Number string      // the account's, which people write to
}

// Handsets serves GET /handsets?phone=…&phone=… and PUT /handsets/faults.
type Handsets struct {
	cfg    Config
	faults switched
}

// New returns handsets at which nothing goes wrong.
func New(cfg Config) *Handsets { return &Handsets{cfg: cfg} }

// Handler returns what it serves.
func (h *Handsets) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /handsets", h.show)
	mux.HandleFunc("PUT /handsets/faults", h.change)
	return mux
}

// Shown is everything that there is to see.
type Shown struct {
	Number   string    `json:"number"`
	Now      time.Time `json:"now"`
	Faults   Faults    `json:"faults"`
	Phones   []string  `json:"phones"` // that wrote or were written to, the latest first
	Handsets []Handset `json:"handsets"`
}

// Handset is one phone.
type Handset struct {
	Phone    string    `json:"phone"`
	Stopped  bool      `json:"stopped"` // the carrier keeps our messages from it
	Messages []Message `json:"messages"`
}

// Message is one bubble on it. The status is Twilio's word.
type Message struct {
	SID     string        `json:"sid"`
	Sent    bool          `json:"sent"`    // by the phone
	Carrier bool          `json:"carrier"` // Twilio's own answer to a keyword
	Body    string        `json:"body"`
	Status  twilio.Status `json:"status"`
	Code    int           `json:"code"`
	At      time.Time     `json:"at"`
}

func (h *Handsets) show(w http.ResponseWriter, r *http.Request) {
	phones := r.URL.Query()["phone"]
	phones = phones[:min(len(phones), maxPhones)]
	all := h.cfg.Twilio.Messages()
	shown := Shown{Number: h.cfg.Number, Now: h.cfg.Clock.Now(), Faults: h.faults.now(), Phones: known(all), Handsets: []Handset{}}
	for _, phone := range phones {
		shown.Handsets = append(shown.Handsets, Handset{
			Phone: phone, Stopped: h.cfg.Twilio.OptedOut(phone, h.cfg.Number), Messages: on(phone, all),
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shown) // or the caller has gone
}

// person returns the number of the handset that shows a message.
func person(m twilio.Message) string {
	if m.Direction == twilio.DirectionInbound {
		return m.From
	}
	return m.To
}

// known are the phones of all messages, the latest first.
func known(all []twilio.Message) []string {
	phones := []string{}
	for _, m := range slices.Backward(all) {
		if len(phones) == maxKnown {
			break
		}
		if !slices.Contains(phones, person(m)) {
			phones = append(phones, person(m))
		}
	}
	return phones
}

// on are the newest messages of one phone, oldest first.
func on(phone string, all []twilio.Message) []Message {
	messages := []Message{}
	for _, m := range slices.Backward(all) {
		if len(messages) == maxMessages {
			break
		}
		if person(m) != phone {
			continue
		}
		messages = append(messages, Message{
			SID: m.SID, Sent: m.Direction == twilio.DirectionInbound, Carrier: m.Carrier, Body: m.Body,
			Status: m.Status, Code: m.ErrorCode, At: m.CreatedAt,
		})
	}
	slices.SortStableFunc(messages, func(a, b Message) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.SID, b.SID)) })
	return messages
}

// change replaces all faults.
func (h *Handsets) change(w http.ResponseWriter, r *http.Request) {
	var faults Faults
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFaults))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&faults); err != nil {
		http.Error(w, "the faults are not JSON of their form", http.StatusBadRequest)
		return
	}
	if err := faults.check(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.faults.set(faults)
	h.cfg.Twilio.SetScript(faults.twilio())
	h.cfg.QStash.SetFaults(faults.qstash())
	w.WriteHeader(http.StatusNoContent)
}
