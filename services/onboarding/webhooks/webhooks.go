// Package webhooks does what the webhooks of Kapso and Shopify ask for, once they are stored as jobs.
//
// What no handler is here for fails at once, by the rule for jobs of an unknown type, and is found among the failed jobs: nothing
// that a vendor has signed is dropped in silence.
package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/jobs"
)

// Types of the events that mean something here. The gateway writes kapso. for the whatsapp. of Kapso's own names, and shopify.
// before a topic.
const (
	KapsoReceived      = inbound.EventWhatsApp
	KapsoSent          = "kapso.message.sent"
	KapsoDelivered     = "kapso.message.delivered"
	KapsoRead          = "kapso.message.read"
	KapsoFailed        = "kapso.message.failed"
	KapsoNumberCreated = "kapso.phone_number.created"

	ShopifyUninstalled     = "shopify.app/uninstalled"
	ShopifyDataRequest     = "shopify.customers/data_request"
	ShopifyCustomersRedact = "shopify.customers/redact"
	ShopifyShopRedact      = "shopify.shop/redact"
)

type texts interface {
	// Handle routes a text that came as a job.
	Handle(ctx context.Context, j jobs.Job) error
}

type receipts interface {
	// RecordStatus merges what a provider says of a message of ours, and reports whether there is such a message. What it says of
	// another is kept all the same.
	RecordStatus(ctx context.Context, s Status) (matched bool, err error)
}

// Takers handle the events.
type Takers struct {
	Texts    texts
	Receipts receipts
	Log      *slog.Logger
	Now      func() time.Time
}

// Handlers are the takers by event type.
func (t *Takers) Handlers() map[string]jobs.Handler {
	handlers := map[string]jobs.Handler{
		KapsoReceived:      t.Texts.Handle,
		KapsoNumberCreated: t.numberCreated,
		ShopifyUninstalled: jobs.Typed(t.uninstalled),
	}
	for _, event := range []string{KapsoSent, KapsoDelivered, KapsoRead, KapsoFailed} {
		handlers[event] = jobs.Typed(t.status)
	}
	for event, duty := range duties() {
		handlers[event] = forAnOperator(duty)
	}
	return handlers
}

// Status is what became of a message of ours, and the payload of its job.
type Status struct {
	MessageID     string          `json:"message_id"` // the provider's
	Status        string          `json:"status"`     // sent, delivered, read or failed
	ErrorCode     int32           `json:"error_code"` // Meta's, 0 when there is none
	Errors        json.RawMessage `json:"errors"`     // Meta's, as they came
	PhoneNumberID string          `json:"phone_number_id"`
	At            string          `json:"at"` // WhatsApp's Unix time
}

var errNoStatus = errors.New("webhooks: message_id and status are required")

// status merges a receipt into its message. The statuses are a lattice, so receipts may come in any order.
func (t *Takers) status(ctx context.Context, j jobs.Job, s Status) error {
	if s.MessageID == "" || s.Status == "" {
		return &jobs.Permanent{Cause: errNoStatus}
	}
	matched, err := t.Receipts.RecordStatus(ctx, s)
	if err != nil {
		return dispatch.Soften(err, t.Now().Sub(j.CreatedAt))
	}
	t.Log.DebugContext(ctx, "onboarding.kapso_status", "job_id", j.ID, "status", s.Status, "matched", matched)
	return nil
}

// numberCreated only tells: which number is ours is a setting, and a vendor cannot change it. The payload is Kapso's own, which may
// get more fields.
func (t *Takers) numberCreated(ctx context.Context, j jobs.Job) error {
	var number struct {
		PhoneNumberID string `json:"phone_number_id"`
	}
	if err := json.Unmarshal(j.Payload, &number); err != nil {
		return &jobs.Permanent{Cause: fmt.Errorf("the payload of %s cannot be read: %w", j.EventType, err)}
	}
	t.Log.InfoContext(ctx, "onboarding.whatsapp_number_connected", "job_id", j.ID, "phone_number_id", number.PhoneNumberID)
	return nil
}
