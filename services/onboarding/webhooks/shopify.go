package webhooks

import (
	"context"
	"encoding/json"

	"paceline.internal/services/onboarding/jobs"
)

// delivery is a webhook of Shopify, and the payload of its job.
type delivery struct {
	Topic       string          `json:"topic"`
	Shop        string          `json:"shop_domain"`
	WebhookID   string          `json:"webhook_id"`
	EventID     string          `json:"event_id"`
	APIVersion  string          `json:"api_version"`
	TriggeredAt string          `json:"triggered_at"`
	Body        json.RawMessage `json:"body"` // Shopify's own
}

// uninstalled ends nothing: no conversation comes from a shop, and nothing is kept for one but the jobs of its webhooks.
func (t *Takers) uninstalled(ctx context.Context, j jobs.Job, d delivery) error {
	t.Log.InfoContext(ctx, "onboarding.shopify_uninstalled", "job_id", j.ID, "shop_domain", d.Shop)
	return nil
}

// duties are the requests that Shopify passes on from the law, and what they ask of an operator within 30 days. What of a
// person's texts and consent has to be shown, and what has to be kept against a claim although they want it erased, is for
// somebody to decide who may: these jobs fail at once, and stay in the list of failed jobs until somebody cancels them because it is done.
// (shopify.dev, Privacy law compliance.)
func duties() map[string]string {
	return map[string]string{
		ShopifyDataRequest:     "give the shop what is kept about the customer in the payload (GET /v1/messages and /v1/consents/{phone})",
		ShopifyCustomersRedact: "erase what is kept about the customer in the payload, as far as the law does not have it kept",
		ShopifyShopRedact:      "erase what is kept for the shop in the payload; here that is the jobs of its webhooks",
	}
}

// forAnOperator fails a job for good with what there is to do.
func forAnOperator(duty string) jobs.Handler {
	return func(context.Context, jobs.Job) error { return jobs.ForOperator("%s; then cancel this job", duty) }
}
