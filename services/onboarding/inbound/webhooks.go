package inbound

import (
	"context"
	"encoding/json"
	"errors"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/roster"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/people"
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

// KapsoStatus is the status of a message that we sent, and the payload of its job.
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
func (in *Service) kapsoStatus(ctx context.Context, j queue.Job, s KapsoStatus) error {
	if s.MessageID == "" || s.Status == "" {
		return &queue.Permanent{Cause: errNoStatus}
	}
	matched, err := in.Carrier.RecordStatus(ctx, s)
	if err != nil {
		return conversation.Ended(err, in.Now().Sub(j.CreatedAt))
	}
	in.Log.DebugContext(ctx, "onboarding.kapso_status", "job_id", j.ID, "status", s.Status, "matched", matched)
	return nil
}

// number has the fields that are read of a WhatsApp number that was connected. The payload is Kapso's own, which may get more fields.
type number struct {
	PhoneNumberID string `json:"phone_number_id"`
}

// numberCreated only logs: which number is ours is a setting, and a vendor cannot change it.
func (in *Service) numberCreated(ctx context.Context, j queue.Job, n number) error {
	in.Log.InfoContext(ctx, "onboarding.whatsapp_number_connected", "job_id", j.ID, "phone_number_id", n.PhoneNumberID)
	return nil
}

// survey has the fields that are read of a person's answer to "how likely are you to recommend us?". It stays in the payload of its job.
type survey struct {
	Score    *int   `json:"score"` // 0 to 10
	Feedback string `json:"feedback"`
}

var errNoScore = errors.New("score must be 0 to 10")

// surveyAnswered only logs that it came: no conversation asks, and none goes on for it. What a person wrote is in no log.
func (in *Service) surveyAnswered(ctx context.Context, j queue.Job, s survey) error {
	if s.Score == nil || *s.Score < 0 || *s.Score > 10 {
		return conversation.Unreadable(j, errNoScore)
	}
	in.Log.InfoContext(ctx, "onboarding.survey_answered", "job_id", j.ID, "score", *s.Score, "has_feedback", s.Feedback != "")
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
func (in *Service) uninstalled(ctx context.Context, j queue.Job, d shopifyEvent) error {
	in.Log.InfoContext(ctx, "onboarding.shopify_uninstalled", "job_id", j.ID, "shop_domain", d.Shop)
	return nil
}

// customer has the fields that are read of a request about a customer of a shop.
type customer struct {
	Body struct {
		Customer struct {
			Phone string `json:"phone"`
		} `json:"customer"`
	} `json:"body"`
}

// What an operator is asked to do about a request that the law makes, within 30 days. These jobs fail at once, and stay in the list of
// failed jobs until an operator cancels them. (shopify.dev, Privacy law compliance.)
const (
	redactByHand = "erase what is kept about the customer in the payload (DELETE /v1/profiles/{id}), as far as the law does not have it " +
		"kept; then cancel this job"
	stranger = "no profile has the customer's phone; if they were texted by POST /v1/outbound alone, or wrote, that is kept: " +
		"enrol the phone in the payload (POST /v1/profiles) and "
	redactStranger = stranger + "erase that profile (DELETE /v1/profiles/{id}), which ends this job, too"
	showStranger   = stranger + "give the shop its export (GET /v1/profiles/{id}:export); then cancel this job"
	showByHand     = "give the shop what is kept about the customer in the payload; then cancel this job"
	redactShopHand = "erase what is kept for the shop in the payload; here that is the jobs of its webhooks; then cancel this job"
)

// redact erases the customer if a profile has their phone. Once that is kept the payload of the job is empty, and a repeat does
// nothing. Without a phone, or a profile that has it, it is an operator's to find them: texts can be here without a profile.
func (in *Service) redact(ctx context.Context, j queue.Job, r customer) error {
	if string(j.Payload) == "{}" {
		return nil
	}
	profileID, err := in.customerOf(ctx, j, r)
	switch {
	case errors.Is(err, roster.ErrInvalid):
		return conversation.ForOperator(redactByHand)
	case err != nil:
		return err
	case profileID == "":
		return conversation.ForOperator(redactStranger)
	}
	_, err = in.Erasures.Ask(ctx, erasure.Request{OrgID: j.OrgID, ProfileID: profileID, Source: erasure.FromShopify, JobID: j.ID})
	switch {
	case err == nil, errors.Is(err, people.ErrNoProfile):
		return nil
	case errors.Is(err, people.ErrUnavailable):
		return conversation.Ended(err, in.Now().Sub(j.CreatedAt))
	}
	return conversation.ForOperator("%w; %s", err, redactByHand)
}

// dataRequested asks an operator to hand out the export of the customer if a profile has their phone.
func (in *Service) dataRequested(ctx context.Context, j queue.Job, r customer) error {
	profileID, err := in.customerOf(ctx, j, r)
	switch {
	case errors.Is(err, roster.ErrInvalid):
		return conversation.ForOperator(showByHand)
	case err != nil:
		return err
	case profileID == "":
		return conversation.ForOperator(showStranger)
	}
	return conversation.ForOperator("give the shop the export of the customer: GET /v1/profiles/%s:export; then cancel this job", profileID)
}

// customerOf is the person with the phone of a customer; empty when there is none, ErrInvalid without a phone.
func (in *Service) customerOf(ctx context.Context, j queue.Job, r customer) (profileID string, err error) {
	phone, err := people.ReadPhone(r.Body.Customer.Phone)
	if err != nil {
		return "", err
	}
	view, err := in.Store.Conversation(ctx, j.OrgID, phone)
	return view.Session.ProfileID, err
}
