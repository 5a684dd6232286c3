package gateway

import "time"

// Bounds are what a proxy in front has to fit: it must take as much as the gateway does, wait longer, and pass on two routes as they come.
// A test holds deploy/proxy to them.
type Bounds struct {
	Body, ShopifyBody int64         // the most bytes of a body, and of one of Shopify's
	Header            int           // the most bytes of a header
	Answer            time.Duration // the longest that an answer takes
	Idle              time.Duration // a connection that is not used so long is closed
	Silent            time.Duration // the longest that nothing comes on a stream

	Shopify, Events, Connect string // paths: where a body may be larger; the stream of events; the WebSockets of devices
}

// ProxyBounds are the gateway's.
func ProxyBounds() Bounds {
	return Bounds{
		Body: maxBody, ShopifyBody: maxShopifyBody, Header: maxHeader,
		Answer: max(apiTimeout, stepTimeout, twilioTimeout, webhookTimeout) + answerTime,
		Idle:   idleTimeout, Silent: max(silentFor, pingEvery), Shopify: pathWebhooks + "shopify", Events: pathEvents, Connect: pathConnect,
	}
}
