package shopify

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"paceline.internal/gateway/route"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// shopifyHeaders are the headers of a delivery.
func shopifyHeaders(topic, id string) http.Header {
	return http.Header{
		headerTopic: {topic}, headerID: {id}, headerShop: {"quilts.myshopify.com"}, headerVersion: {"2026-10"},
		headerAt: {"2026-11-21T09:00:00.123Z"}, headerEventID: {"e1"}, "Content-Type": {"application/json"},
	}
}

func TestShopifyEvents(t *testing.T) {
	t.Parallel()

	t.Run("S2_17_ADeliveryIsKeptWhole", func(t *testing.T) {
		t.Parallel()
		hooks, err := shops{}.read(shopifyHeaders("customers/redact", "b54557e4"), []byte(`{"shop_id":954889,"customer":{"phone":"555","note":"a\u0000"}}`))
		require.NoError(t, err)
		require.Len(t, hooks, 1)
		require.Equal(t, "shopify.customers/redact", hooks[0].EventType)
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
		got, err := shops{}.read(shopifyHeaders("products/update", "2"), []byte(body))
		require.NoError(t, err)
		require.Less(t, len(job(t, got[0]).GetPayloadJson()), len(body)+1<<10, "onboarding takes a little more than what is taken here")
	})

	t.Run("S2_17_LongNumbersAreKeptToTheDigit", func(t *testing.T) {
		t.Parallel()
		hooks, err := shops{}.read(shopifyHeaders("orders/create", "1"), []byte(`{"id":9007199254740993}`))
		require.NoError(t, err)
		require.Contains(t, string(job(t, hooks[0]).GetPayloadJson()), `"id":9007199254740993`)
	})

	t.Run("AShopBelongsToItsOrganisation", func(t *testing.T) {
		t.Parallel()
		const theirs = "00000000-0000-7000-8000-0000000000a2"
		owners, err := route.ReadOwners("quilts.myshopify.com=" + theirs + ",hats.myshopify.com")
		require.NoError(t, err)
		for shop, want := range map[string]string{"quilts.myshopify.com": theirs, "hats.myshopify.com": ""} {
			header := shopifyHeaders("customers/redact", "1")
			header.Set(headerShop, shop)
			hooks, err := shops{owners}.read(header, []byte(`{"shop_domain":"`+shop+`"}`))
			require.NoError(t, err)
			require.Equal(t, want, job(t, hooks[0]).GetOrgId())
		}
		header := shopifyHeaders("customers/redact", "1")
		header.Set(headerShop, "Quilts.myshopify.com")
		hooks, err := shops{owners}.read(header, []byte(`{"shop_domain":"quilts.MyShopify.com"}`))
		require.NoError(t, err)
		require.Equal(t, theirs, job(t, hooks[0]).GetOrgId(), "domains know no case")
		_, err = shops{owners}.read(header, []byte(`{"shop_domain":"hats.myshopify.com"}`))
		require.ErrorIs(t, err, errTwoShops, "the header is not signed")
		header.Set(headerShop, "boots.myshopify.com")
		hooks, err = shops{owners}.read(header, []byte(`{}`))
		require.NoError(t, err)
		require.Equal(t, []route.Webhook{{EventType: "shopify.customers/redact", Result: route.ResultUnknownShop}}, hooks)
	})

	for _, tc := range []struct{ name, header, value, body, want string }{
		{name: "NoJSON", body: `x=1`, want: "no JSON object"},
		{name: "List", body: `[]`, want: "no JSON object"},
		{name: "Nothing", body: ``, want: "no JSON object"},
		{name: "NoTopic", header: headerTopic, body: `{}`, want: "X-Shopify-Topic is missing"},
		{name: "MalformedTopic", header: headerTopic, value: "Orders Create", body: `{}`, want: "X-Shopify-Topic is missing or malformed"},
		{name: "NoID", header: headerID, body: `{}`, want: "X-Shopify-Webhook-Id is missing"},
		{name: "MalformedID", header: headerID, value: "a\tb", body: `{}`, want: "X-Shopify-Webhook-Id is malformed"},
		{name: "NoShop", header: headerShop, body: `{}`, want: "X-Shopify-Shop-Domain is missing"},
		{name: "LongShop", header: headerShop, value: strings.Repeat("a", 151), body: `{}`, want: "X-Shopify-Shop-Domain is malformed"},
	} {
		t.Run("S2_31_"+tc.name+"IsMalformed", func(t *testing.T) {
			t.Parallel()
			header := shopifyHeaders("orders/create", "1")
			if tc.header != "" {
				header.Set(tc.header, tc.value)
			}
			_, err := shops{}.read(header, []byte(tc.body))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// FuzzShopify checks the reader on any bytes: no panic, and nothing is stored without a name, a key and a payload
// that Postgres can hold.
func FuzzShopify(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte, topic, id, shop string) {
		header := shopifyHeaders(topic, id)
		header.Set(headerShop, shop)
		hooks, err := shops{}.read(header, body)
		if err != nil {
			require.Empty(t, hooks)
			return
		}
		require.Len(t, hooks, 1)
		payload := job(t, hooks[0]).GetPayloadJson()
		require.True(t, json.Valid(payload))
		require.True(t, utf8.Valid(payload))
		require.NotContains(t, strings.ReplaceAll(string(payload), `\\`, ""), `\u0000`, "jsonb refuses it")
		require.Equal(t, topic, payloadOf(t, hooks[0])["topic"])
	})
}

// job returns the job that an event becomes.
func job(t testing.TB, hook route.Webhook) *onboardingv1.EnqueueWebhookJobRequest {
	t.Helper()
	request, ok := hook.Request.(*onboardingv1.EnqueueWebhookJobRequest)
	require.True(t, ok, "%T", hook.Request)
	require.Equal(t, hook.EventType, request.GetEventType())
	return request
}

func payloadOf(t testing.TB, hook route.Webhook) (payload map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(job(t, hook).GetPayloadJson(), &payload))
	return payload
}
