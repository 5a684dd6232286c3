// Package kapso reads the webhooks of Kapso: WhatsApp messages, receipts and other events.
package kapso

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"paceline.internal/gateway/route"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Kapso's webhooks, by docs.kapso.ai (Webhooks: Overview, Security, Message events, Advanced; read 2026-11) and by its own
// references in github.com/gokapso/agent-skills (integrate-whatsapp/references/webhooks-reference.md, webhooks-event-types.md):
//
//   - X-Webhook-Signature is the HMAC-SHA256 of the raw body under the webhook's secret key, in hex.
//   - X-Webhook-Event names the event, such as whatsapp.message.received. X-Idempotency-Key is unique per event.
//   - X-Webhook-Payload-Version is v2 for new webhooks; v1 has another shape and the field whatsapp_config.
//   - With buffering the body is {"type", "batch": true, "data": [event, ...]}. After the last retry of a batch each of its
//     events is delivered by itself.
//   - Anything but a 200 within ten seconds is retried after 10, 40 and 90 seconds. The docs say "200" throughout; that a 202
//     counts as well is common among webhooks, and if it did not, the repeats would be duplicates.
//   - Neither from nor phone_number are always there: a person with a user name is known by an id only (from_user_id, or in from itself).
const (
	headerSignature = "X-Webhook-Signature"
	headerEvent     = "X-Webhook-Event"
	headerKey       = "X-Idempotency-Key"
	headerBatch     = "X-Webhook-Batch"
	headerVersion   = "X-Webhook-Payload-Version"

	// maxBatch is Kapso's largest batch.
	maxBatch = 100
)

// New makes the source.
func New(keys route.Keys, served route.Owners) route.Source {
	return route.Source{
		Name: "kapso", Keys: keys, Limit: route.MaxBody, Limiter: route.NewLimiter(route.MaxCallbacks, 0),
		Signature: headerSignature, MAC: hex.DecodeString, Read: ours{served}.read,
	}
}

// ours are the organisations of the WhatsApp numbers that are served, by the id of the number.
type ours struct{ route.Owners }

// envelope is a body: one event, or a batch of them.
type envelope struct {
	Type  string            `json:"type"`  // of a batch
	Event string            `json:"event"` // of a project's event
	Batch bool              `json:"batch"`
	Data  []json.RawMessage `json:"data"`
}

const (
	received     = "kapso.message.received"
	messages     = "kapso.message."
	numberEvents = "kapso.phone_number."
)

// statuses are the events about one of our messages, and the status that each reports.
var statuses = []string{"sent", "delivered", "read", "failed"}

// read decodes a body.
func (n ours) read(header http.Header, body []byte) ([]route.Webhook, error) {
	if version := header.Get(headerVersion); version != "" && version != "v2" {
		return nil, errors.New("only payload version v2 is read; set the webhook to it")
	}
	whole, err := route.StorableObject(body)
	if err != nil {
		return nil, err
	}
	var outer envelope
	if err := json.Unmarshal(whole, &outer); err != nil {
		return nil, errors.New("the body is no event of Kapso")
	}
	name, err := eventName(header.Get(headerEvent), outer)
	if err != nil {
		return nil, err
	}
	events := []json.RawMessage{whole}
	if outer.Batch || header.Get(headerBatch) == "true" {
		if events = outer.Data; len(events) == 0 || len(events) > maxBatch {
			return nil, fmt.Errorf("a batch has 1 to %d events", maxBatch)
		}
	}
	hooks := make([]route.Webhook, 0, len(events))
	for i, event := range events {
		id := header.Get(headerKey)
		if len(events) > 1 && id != "" {
			id += "." + strconv.Itoa(i) // only of events that are no messages; a message has an id
		}
		hook, err := n.one(name, id, event)
		if err != nil {
			return nil, err
		}
		if text, ok := hook.Request.(*onboardingv1.ReceiveMessageRequest); ok {
			text.Whatsapp.OfSeveral = len(events) > 1
		}
		hooks = append(hooks, hook)
	}
	return hooks, nil
}

// eventName returns the name that we use: kapso.message.received for whatsapp.message.received. The body names the event in a batch
// and in a project's event; there it is signed, and the header may not say otherwise.
func eventName(header string, body envelope) (string, error) {
	name := header
	for _, signed := range []string{body.Type, body.Event} {
		switch {
		case signed == "":
		case name == "":
			name = signed
		case name != signed:
			return "", errors.New("the header and the body name two events")
		}
	}
	name = "kapso." + strings.TrimPrefix(strings.TrimPrefix(name, "whatsapp."), "kapso.")
	return name, route.CheckEventName(name)
}

// one reads one event.
func (n ours) one(name, id string, body json.RawMessage) (route.Webhook, error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return route.Webhook{}, errors.New("the body is no event of Kapso")
	}
	orgID, served := n.Of(e.phoneNumberID())
	hook := route.Webhook{EventType: name, OrgID: orgID}
	if !strings.HasPrefix(name, numberEvents) && !served {
		hook.Result = route.ResultUnknownPhone
		return hook, nil
	}
	status := strings.TrimPrefix(name, messages)
	switch {
	case name == received:
		return e.text(hook, orgID)
	case slices.Contains(statuses, status) && status != name:
		return e.status(hook, status)
	}
	if err := route.CheckEventID(headerKey, id); err != nil {
		return route.Webhook{}, err
	}
	subject := "" // what one person answers to a survey waits for no other's
	if strings.HasPrefix(name, numberEvents) {
		subject = "kapso:" + e.phoneNumberID()
	}
	request := route.Enqueue("kapso", name, name+":"+id, subject, body)
	request.OrgId = orgID
	hook.Request = request
	return hook, nil
}
