package handsets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Phones calls the emulators' phones (docs/adr/0043).
type Phones struct {
	origin string // of the emulated Twilio
	orgID  string // the organisation that has the number that they text
	client *http.Client
	people onboardingv1.OnboardingServiceClient
}

const (
	handsetsTimeout = 10 * time.Second // what a phone sends is answered when its webhook is
	maxHandsets     = 2 << 20
)

// New returns the phones of the emulated Twilio at an origin, which text the number of an organisation.
func New(origin, orgID string, people onboardingv1.OnboardingServiceClient) *Phones {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // net/http documents it
	transport.Proxy = nil                                        // it is on this machine, or next to it
	return &Phones{origin: origin, orgID: orgID, client: &http.Client{Transport: transport, Timeout: handsetsTimeout}, people: people}
}

// phonesShown is the answer of the emulators.
type phonesShown struct {
	Number   string         `json:"number"`
	Now      time.Time      `json:"now"`
	Faults   Faults         `json:"faults"`
	Phones   []string       `json:"phones"`
	Handsets []phoneHandset `json:"handsets"`
}

// phoneHandset is one phone.
type phoneHandset struct {
	Phone    string         `json:"phone"`
	Stopped  bool           `json:"stopped"`
	Messages []phoneMessage `json:"messages"`
}

// phoneMessage is one bubble.
type phoneMessage struct {
	SID     string    `json:"sid"`
	Sent    bool      `json:"sent"`
	Carrier bool      `json:"carrier"`
	Body    string    `json:"body"`
	Status  string    `json:"status"`
	Code    int       `json:"code"`
	At      time.Time `json:"at"`
}

// Faults are the faults that are switched on, by the emulators' words.
type Faults struct {
	Sends    string `json:"sends"`
	Receipts string `json:"receipts"`
	Handset  string `json:"handset"`
	Replies  string `json:"replies"`
	Alarms   string `json:"alarms"`
	Code     int    `json:"code"`
}

func (h *Phones) show(ctx context.Context, phones ...string) (shown phonesShown, err error) {
	err = h.call(ctx, http.MethodGet, "/handsets?"+url.Values{"phone": phones}.Encode(), "", nil, &shown)
	return shown, err
}

// send sends a message from a phone. posted reports whether the product took it.
func (h *Phones) send(ctx context.Context, phone, body string) (posted bool, err error) {
	var answer struct {
		Status int `json:"callback_status"`
	}
	form := url.Values{"From": {phone}, "Body": {body}}.Encode()
	err = h.call(ctx, http.MethodPost, "/phone", "application/x-www-form-urlencoded", strings.NewReader(form), &answer)
	return answer.Status/100 == 2, err
}

func (h *Phones) change(ctx context.Context, faults Faults) error {
	body, err := json.Marshal(faults)
	if err != nil {
		return err
	}
	return h.call(ctx, http.MethodPut, "/handsets/faults", "application/json", bytes.NewReader(body), nil)
}

// errHandsets is the error that a person sees when the emulators cannot be asked.
var errHandsets = errors.New("the emulators do not answer")

func (h *Phones) call(ctx context.Context, method, path, kind string, body io.Reader, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, h.origin+path, body)
	if err != nil {
		return err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errHandsets, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	content, err := io.ReadAll(io.LimitReader(response.Body, maxHandsets))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errHandsets, err)
	case response.StatusCode/100 != 2:
		return fmt.Errorf("%w: %s", errHandsets, response.Status)
	case into == nil:
		return nil
	}
	return json.Unmarshal(content, into)
}
