package conversation

import (
	"context"
	"encoding/json"
	"errors"

	"paceline.internal/platform/queue"
)

// Events of Kapso and Shopify, once they are stored as jobs. The gateway writes kapso. for the whatsapp. of Kapso's own names, and shopify.
// before a topic. What no handler is here for fails at once, by the rule for jobs of an unknown type, and is found among the failed jobs:
// nothing that a vendor has signed is dropped in silence. Messages and receipts of Kapso are jobs only of the gateway of the release
// before: this one's brings a message by ReceiveMessage, and a receipt straight to messaging.
const (
	kapsoSent          = "kapso.message.sent"
	kapsoDelivered     = "kapso.message.delivered"
	kapsoRead          = "kapso.message.read"
	kapsoFailed        = "kapso.message.failed"
	kapsoNumberCreated = "kapso.phone_number.created"
	kapsoSurvey        = "kapso.survey.response"

	shopifyUninstalled     = "shopify.app/uninstalled"
	shopifyDataRequest     = "shopify.customers/data_request"
	shopifyCustomersRedact = "shopify.customers/redact"
	shopifyShopRedact      = "shopify.shop/redact"
)

// KapsoStatus is what became of a message of ours, and the payload of its job.
type KapsoStatus struct {
	MessageID     string          `json:"message_id"` // the provider's
	Status        string          `json:"status"`     // sent, delivered, read or failed
	ErrorCode     int32           `json:"error_code"` // Meta's, 0 when there is none
	Errors        json.RawMessage `json:"errors"`     // Meta's, as they came
	PhoneNumberID string          `json:"phone_number_id"`
	At            string          `json:"at"` // WhatsApp's Unix time
}

var errNoStatus = errors.New("message_id and status are required")

// kapsoStatus merges a receipt into its message. The statuses are a lattice, so receipts may come in any order.
func (c *Service) kapsoStatus(ctx context.Context, j queue.Job, s KapsoStatus) error {
	if s.MessageID == "" || s.Status == "" {
		return &queue.Permanent{Cause: errNoStatus}
	}
	matched, err := c.Carrier.RecordStatus(ctx, s)
	if err != nil {
		return ended(err, c.Now().Sub(j.CreatedAt))
	}
	c.Log.DebugContext(ctx, "onboarding.kapso_status", "job_id", j.ID, "status", s.Status, "matched", matched)
	return nil
}

// number is what is read of a WhatsApp number that was connected. The payload is Kapso's own, which may get more fields.
type number struct {
	PhoneNumberID string `json:"phone_number_id"`
}

// numberCreated only logs: which number is ours is a setting, and a vendor cannot change it.
func (c *Service) numberCreated(ctx context.Context, j queue.Job, n number) error {
	c.Log.InfoContext(ctx, "onboarding.whatsapp_number_connected", "job_id", j.ID, "phone_number_id", n.PhoneNumberID)
	return nil
}

// survey is what is read of a person's answer to "how likely are you to recommend us?". It stays in the payload of its job.
type survey struct {
	Score    *int   `json:"score"` // 0 to 10
	Feedback string `json:"feedback"`
}

var errNoScore = errors.New("score must be 0 to 10")

// surveyAnswered only logs that it came: no conversation asks, and none goes on for it. What a person wrote is in no log.
func (c *Service) surveyAnswered(ctx context.Context, j queue.Job, s survey) error {
	if s.Score == nil || *s.Score < 0 || *s.Score > 10 {
		return unreadable(j, errNoScore)
	}
	c.Log.InfoContext(ctx, "onboarding.survey_answered", "job_id", j.ID, "score", *s.Score, "has_feedback", s.Feedback != "")
	return nil
}

// shopifyEvent is a webhook of Shopify, and the payload of its job.
type shopifyEvent struct {
	Topic       string          `json:"topic"`
	Shop        string          `json:"shop_domain"`
	WebhookID   string          `json:"webhook_id"`
	EventID     string          `json:"event_id"`
	APIVersion  string          `json:"api_version"`
	TriggeredAt string          `json:"triggered_at"`
	Body        json.RawMessage `json:"body"` // Shopify's own
}

// uninstalled ends nothing: no conversation comes from a shop, and nothing is kept for one but the jobs of its webhooks.
func (c *Service) uninstalled(ctx context.Context, j queue.Job, d shopifyEvent) error {
	c.Log.InfoContext(ctx, "onboarding.shopify_uninstalled", "job_id", j.ID, "shop_domain", d.Shop)
	return nil
}

// duties are the requests that Shopify passes on from the law, and what they ask of an operator within 30 days. What of a
// person's messages and consent has to be shown, and what has to be kept against a claim although they want it erased, is for
// an operator who may to decide: these jobs fail at once, and stay in the list of failed jobs until an operator cancels them.
// (shopify.dev, Privacy law compliance.)
func duties() map[string]string {
	return map[string]string{
		shopifyDataRequest:     "give the shop what is kept about the customer in the payload (GET /v1/messages and /v1/consents/{phone})",
		shopifyCustomersRedact: "erase what is kept about the customer in the payload, as far as the law does not have it kept",
		shopifyShopRedact:      "erase what is kept for the shop in the payload; here that is the jobs of its webhooks",
	}
}
