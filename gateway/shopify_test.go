package gateway

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

// shopifyHeaders are the headers of a delivery.
func shopifyHeaders(topic, id string) http.Header {
	return http.Header{
		headerShopifyTopic: {topic}, headerShopifyID: {id}, headerShopifyShop: {"quilts.myshopify.com"}, headerShopifyVersion: {"2026-10"},
		headerShopifyAt: {"2026-11-21T09:00:00.123Z"}, headerShopifyEventID: {"e1"}, "Content-Type": {"application/json"},
	}
}

func TestShopifyEvents(t *testing.T) {
	t.Parallel()

	t.Run("S2_17_ADeliveryIsKeptWhole", func(t *testing.T) {
		t.Parallel()
		hooks, err := readShopify(shopifyHeaders("customers/redact", "b54557e4"), []byte(`{"shop_id":954889,"customer":{"phone":"555","note":"a\u0000"}}`))
		require.NoError(t, err)
		require.Len(t, hooks, 1)
		require.Equal(t, "shopify.customers/redact", hooks[0].eventType)
		require.Equal(t, "shopify:b54557e4", job(t, hooks[0]).GetIdempotencyKey())
		require.Equal(t, "shopify:quilts.myshopify.com", job(t, hooks[0]).GetSubject())
		require.Equal(t, map[string]any{
			"topic": "customers/redact", "shop_domain": "quilts.myshopify.com", "webhook_id": "b54557e4", "event_id": "e1", "api_version": "2026-10",
			"triggered_at": "2026-11-21T09:00:00.123Z",
			"body":         map[string]any{"shop_id": 954889.0, "customer": map[string]any{"phone": "555", "note": "a\uFFFD"}},
		}, payloadOf(t, hooks[0]))
	})

	t.Run("S2_17_AngleBracketsStayOneByteEach", func(t *testing.T) {
		t.Parallel()
		body := `{"body_html":"` + strings.Repeat("<", 180<<10) + `"}`
		read, err := readShopify(shopifyHeaders("products/update", "2"), []byte(body))
		require.NoError(t, err)
		require.Less(t, len(job(t, read[0]).GetPayloadJson()), len(body)+1<<10, "onboarding takes a little more than what is taken here")
	})

	t.Run("S2_17_LongNumbersAreKeptToTheDigit", func(t *testing.T) {
		t.Parallel()
		hooks, err := readShopify(shopifyHeaders("orders/create", "1"), []byte(`{"id":9007199254740993}`))
		require.NoError(t, err)
		require.Contains(t, string(job(t, hooks[0]).GetPayloadJson()), `"id":9007199254740993`)
	})

	for _, tc := range []struct{ name, header, value, body, want string }{
		{name: "NoJSON", body: `x=1`, want: "no JSON object"},
		{name: "List", body: `[]`, want: "no JSON object"},
		{name: "Nothing", body: ``, want: "no JSON object"},
		{name: "NoTopic", header: headerShopifyTopic, body: `{}`, want: "X-Shopify-Topic is missing"},
		{name: "MalformedTopic", header: headerShopifyTopic, value: "Orders Create", body: `{}`, want: "X-Shopify-Topic is missing or malformed"},
		{name: "NoID", header: headerShopifyID, body: `{}`, want: "X-Shopify-Webhook-Id is missing"},
		{name: "MalformedID", header: headerShopifyID, value: "a\tb", body: `{}`, want: "X-Shopify-Webhook-Id is malformed"},
		{name: "NoShop", header: headerShopifyShop, body: `{}`, want: "X-Shopify-Shop-Domain is missing"},
		{name: "LongShop", header: headerShopifyShop, value: strings.Repeat("a", 151), body: `{}`, want: "X-Shopify-Shop-Domain is malformed"},
	} {
		t.Run("S2_31_"+tc.name+"IsMalformed", func(t *testing.T) {
			t.Parallel()
			header := shopifyHeaders("orders/create", "1")
			if tc.header != "" {
				header.Set(tc.header, tc.value)
			}
			_, err := readShopify(header, []byte(tc.body))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestShopifySignature(t *testing.T) {
	t.Parallel()
	keys, err := newWebhookKeys(config.NewSecret("hush"))
	require.NoError(t, err)
	body := []byte(`{"id":1}`)
	signature := base64.StdEncoding.EncodeToString(macOf("hush", body))
	mac, err := shopifySignature(http.Header{headerShopifySignature: {signature}})
	require.NoError(t, err)
	require.True(t, keys.signed(body, mac))
	require.False(t, keys.signed([]byte(`{"id": 1}`), mac), "the raw bytes are signed, and not what they mean")
	_, err = shopifySignature(http.Header{})
	require.EqualError(t, err, "the signature is missing")
	_, err = shopifySignature(http.Header{headerShopifySignature: {"%"}})
	require.EqualError(t, err, "the signature is no base64")
}

// FuzzShopify checks the reader on any bytes: no panic, and nothing is stored without a name, a key and a payload
// that Postgres can hold.
func FuzzShopify(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte, topic, id, shop string) {
		header := shopifyHeaders(topic, id)
		header.Set(headerShopifyShop, shop)
		hooks, err := readShopify(header, body)
		if err != nil {
			require.Empty(t, hooks)
			return
		}
		require.Len(t, hooks, 1)
		requireKept(t, hooks[0])
		require.Equal(t, topic, payloadOf(t, hooks[0])["topic"])
	})
}
