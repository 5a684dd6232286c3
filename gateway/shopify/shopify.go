// Package shopify reads the webhooks of Shopify.
package shopify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"paceline.internal/gateway/route"
)

// Shopify's webhooks, by shopify.dev (Webhooks: Delivery structure, Verify deliveries, HTTPS delivery, Privacy law compliance;
// read 2026-11) and its changelog of 2024-09-10:
//
//   - X-Shopify-Hmac-Sha256 is the HMAC-SHA256 of the raw body under the app's client secret, in base64. After the secret was
//     changed it may take an hour until the new one is used.
//   - X-Shopify-Topic names the event, X-Shopify-Webhook-Id the delivery: it is the same on every retry, and a retry brings the
//     original payload. X-Shopify-Event-Id is not the key: one action of a merchant that two topics report has one of it.
//   - X-Shopify-Shop-Domain is the shop's myshopify.com name; X-Shopify-Triggered-At when the event happened.
//   - Without a 2xx within five seconds Shopify retries 8 times over 4 hours. After 8 failures in a row Shopify may
//     remove the subscription.
//   - Apps have to take customers/data_request, customers/redact and shop/redact, and to answer 401 to a bad signature.
const (
	headerSignature = "X-Shopify-Hmac-Sha256"
	headerTopic     = "X-Shopify-Topic"
	headerID        = "X-Shopify-Webhook-Id"
	headerEventID   = "X-Shopify-Event-Id"
	headerShop      = "X-Shopify-Shop-Domain"
	headerVersion   = "X-Shopify-Api-Version"
	headerAt        = "X-Shopify-Triggered-At"

	// MaxBody is more than others may send: the list of orders in a request to erase a customer is as long as the
	// customer's history, and the law does not let us refuse it. So many slots hold 64 MiB of such bodies.
	MaxBody = 1 << 20
	slots   = 64
)

// New makes the source. An event is of the organisation of its shop.
func New(keys route.Keys, owners route.Owners) route.Source {
	return route.Source{
		Name: "shopify", Keys: keys, Limit: MaxBody, Limiter: route.NewLimiter(slots, 0),
		Signature: headerSignature, MAC: base64.StdEncoding.DecodeString, Read: shops{owners}.read,
	}
}

// event is the payload of an event: its headers, and the body as it came.
type event struct {
	Topic       string          `json:"topic"`
	Shop        string          `json:"shop_domain"`
	WebhookID   string          `json:"webhook_id"`
	EventID     string          `json:"event_id,omitempty"`
	APIVersion  string          `json:"api_version,omitempty"`
	TriggeredAt string          `json:"triggered_at,omitempty"`
	Body        json.RawMessage `json:"body"`
}

// shops are the organisations of the shops that are served, by their myshopify.com names.
type shops struct{ route.Owners }

// errTwoShops refuses a delivery that was signed for another shop: the signature covers the body alone, and the laws' requests, which erase
// people, name their shop in it.
var errTwoShops = errors.New(headerShop + " and the body name two shops")

// read reads a delivery of one event. Every topic is taken, known or not: the gateway does not decide which of them
// matter.
func (s shops) read(header http.Header, body []byte) ([]route.Webhook, error) {
	e := event{
		Topic: header.Get(headerTopic), Shop: strings.ToLower(header.Get(headerShop)), WebhookID: header.Get(headerID),
		EventID: route.Storable(header.Get(headerEventID)), APIVersion: route.Storable(header.Get(headerVersion)),
		TriggeredAt: route.Storable(header.Get(headerAt)),
	}
	if err := route.CheckEventName(e.Topic); err != nil {
		return nil, errors.New(headerTopic + " is missing or malformed")
	}
	if err := route.CheckEventID(headerID, e.WebhookID); err != nil {
		return nil, err
	}
	if err := route.CheckEventID(headerShop, e.Shop); err != nil {
		return nil, err
	}
	var err error
	if e.Body, err = route.StorableObject(body); err != nil {
		return nil, err
	}
	var signed struct {
		Shop string `json:"shop_domain"`
	}
	if json.Unmarshal(e.Body, &signed) == nil && signed.Shop != "" && !strings.EqualFold(signed.Shop, e.Shop) {
		return nil, errTwoShops
	}
	name := "shopify." + e.Topic
	orgID, served := s.Of(e.Shop)
	if !served {
		return []route.Webhook{{EventType: name, Result: route.ResultUnknownShop}}, nil
	}
	payload, err := route.Encode(e)
	if err != nil {
		return nil, err
	}
	request := route.Enqueue("shopify", name, "shopify:"+e.WebhookID, "shopify:"+e.Shop, payload)
	request.OrgId = orgID
	return []route.Webhook{{EventType: name, OrgID: orgID, Request: request}}, nil
}
