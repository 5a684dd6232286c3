package gateway

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
)

// Shopify's webhooks, by shopify.dev (Webhooks: Delivery structure, Verify deliveries, HTTPS delivery, Privacy law compliance;
// read 2026-11) and its changelog of 2024-09-10:
//
//   - X-Shopify-Hmac-Sha256 is the HMAC-SHA256 of the raw body under the app's client secret, in base64. After the secret was
//     changed it may take an hour until the new one is used.
//   - X-Shopify-Topic names the event, X-Shopify-Webhook-Id the delivery: it is the same on every retry, and a retry brings the
//     original payload. X-Shopify-Event-Id is not the key: one action of a merchant that two topics report has one of it.
//   - X-Shopify-Shop-Domain is the shop's myshopify.com name; X-Shopify-Triggered-At when the event happened.
//   - What is not answered with a 2xx within five seconds is retried 8 times over 4 hours. After 8 failures in a row Shopify may
//     remove the subscription.
//   - Apps have to take customers/data_request, customers/redact and shop/redact, and to answer 401 to a bad signature.
const (
	headerShopifySignature = "X-Shopify-Hmac-Sha256"
	headerShopifyTopic     = "X-Shopify-Topic"
	headerShopifyID        = "X-Shopify-Webhook-Id"
	headerShopifyEventID   = "X-Shopify-Event-Id"
	headerShopifyShop      = "X-Shopify-Shop-Domain"
	headerShopifyVersion   = "X-Shopify-Api-Version"
	headerShopifyAt        = "X-Shopify-Triggered-At"

	// maxShopifyBody is more than others may send: the list of orders in a request to erase a customer is as long as the
	// customer's history, and the law does not let us refuse it. shopifyPlaces such bodies are 64 MiB.
	maxShopifyBody = 1 << 20
	shopifyPlaces  = 64
)

func newShopify(keys webhookKeys) source {
	return source{
		name: "shopify", keys: keys, limit: maxShopifyBody, places: newPlaces(shopifyPlaces, 0), signature: shopifySignature, read: readShopify,
	}
}

func shopifySignature(header http.Header) ([]byte, error) {
	text := header.Get(headerShopifySignature)
	if text == "" {
		return nil, errors.New("the signature is missing")
	}
	mac, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the signature is no base64")
	}
	return mac, nil
}

// shopifyEvent is the payload of an event: what the headers say, and the body as it came.
type shopifyEvent struct {
	Topic       string          `json:"topic"`
	Shop        string          `json:"shop_domain"`
	WebhookID   string          `json:"webhook_id"`
	EventID     string          `json:"event_id,omitempty"`
	APIVersion  string          `json:"api_version,omitempty"`
	TriggeredAt string          `json:"triggered_at,omitempty"`
	Body        json.RawMessage `json:"body"`
}

// readShopify reads a delivery: one event. Every topic is taken, known or not: the gateway does not decide which of them
// matter.
func readShopify(header http.Header, body []byte) ([]webhook, error) {
	event := shopifyEvent{
		Topic: header.Get(headerShopifyTopic), Shop: header.Get(headerShopifyShop), WebhookID: header.Get(headerShopifyID),
		EventID: storable(header.Get(headerShopifyEventID)), APIVersion: storable(header.Get(headerShopifyVersion)),
		TriggeredAt: storable(header.Get(headerShopifyAt)),
	}
	if err := checkEventName(event.Topic); err != nil {
		return nil, errors.New(headerShopifyTopic + " is missing or malformed")
	}
	if err := checkEventID(headerShopifyID, event.WebhookID); err != nil {
		return nil, err
	}
	if err := checkEventID(headerShopifyShop, event.Shop); err != nil {
		return nil, err
	}
	var err error
	if event.Body, err = keptObject(body); err != nil {
		return nil, err
	}
	payload, err := encode(event)
	if err != nil {
		return nil, err
	}
	name := "shopify." + event.Topic
	return []webhook{{
		eventType: name, request: enqueue("shopify", name, "shopify:"+event.WebhookID, "shopify:"+event.Shop, payload),
	}}, nil
}
