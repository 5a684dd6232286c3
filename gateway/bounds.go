package gateway

import (
	"time"

	"paceline.internal/gateway/console"
	"paceline.internal/gateway/qstash"
	"paceline.internal/gateway/route"
	"paceline.internal/gateway/shopify"
	"paceline.internal/gateway/stream"
	"paceline.internal/gateway/twilio"
)

// Bounds are the limits that a proxy in front has to fit: it must take as much as the gateway does, wait longer, and pass on two routes as
// they come. A test holds deploy/proxy to them.
type Bounds struct {
	Body, ShopifyBody int64         // the most bytes of a body, and of one of Shopify's
	FlowBody          int64         // the most bytes of a body with the files of a flow
	ListForm          int64         // the most bytes of a form of the console with a list of people
	Header            int           // the most bytes of a header
	Answer            time.Duration // the longest that an answer takes
	Idle              time.Duration // a connection that is not used so long is closed
	Silent            time.Duration // the longest that nothing comes on a stream

	Shopify, Flows, Events, Connect string // paths: where a body may be larger; the stream of events; the WebSockets of devices
}

// ProxyBounds are the gateway's.
func ProxyBounds() Bounds {
	return Bounds{
		Body: route.MaxBody, ShopifyBody: shopify.MaxBody, FlowBody: maxFlows, ListForm: console.MaxListForm, Header: maxHeader,
		Answer: max(apiTimeout, qstash.Timeout, twilio.Timeout, route.WebhookTimeout) + answerTime,
		Idle:   idleTimeout, Silent: max(stream.SilentFor, stream.PingEvery),
		Shopify: route.PathWebhooks + "shopify", Flows: pathFlows, Events: stream.PathEvents, Connect: stream.PathConnect,
	}
}
