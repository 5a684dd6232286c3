package stack_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
)

const shopifySecret = "shopify-secret-of-this-stack"

type erasureJSON struct {
	Erasure struct {
		State        string  `json:"state"`
		Source       string  `json:"source"`
		WaitsFor     string  `json:"waits_for"`
		SuppressedAt *string `json:"suppressed_at"`
		Ledgers      []struct {
			Length   int  `json:"length"`
			Verified bool `json:"verified"`
		} `json:"ledgers"`
	} `json:"erasure"`
}

// everything is all that a database has, as text.
func everything(t *testing.T, db *pgxpool.Pool) (all string) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), `select string_agg(query_to_xml(format('select r::text from %I r', tablename), true, true, '')::text, '')
		from pg_tables where schemaname = 'public'`).Scan(&all))
	return all
}

// erased waits until nothing of a person is left.
func (p *person) erased(t *testing.T) (e erasureJSON) {
	t.Helper()
	p.b.until(t, "the person is erased", func() bool {
		p.b.call(t, http.MethodGet, "/v1/profiles/"+p.id+"/erasure", nil, &e)
		return e.Erasure.State == "erased"
	})
	return e
}

// TestErasure has a person converse, say STOP and be erased: none of their words, names or numbers is left in either database, their STOP
// is.
func TestErasure(t *testing.T) {
	t.Parallel()

	t.Run("NothingIsLeftButTheirSTOP", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 3)
		b.queue(t, map[string]any{
			"to": p.phone, "body": "Zuleika, see you at eight", "purpose": "transactional", "idempotency_key": "to " + p.phone, "profile_id": p.id,
		})
		b.rest(t)
		p.says(t, "STOP")
		p.says(t, "what is left of my avocado")
		b.rest(t)
		words := []string{p.phone[1:], p.name, "avocado", "see you at eight", p.greets, p.begins}
		all := everything(t, b.onboarding) + everything(t, b.messaging)
		for _, word := range words {
			require.Contains(t, all, word)
		}
		status, export := b.try(t, b.operator, http.MethodGet, "/v1/profiles/"+p.id+":export", nil)
		require.Equal(t, http.StatusOK, status, string(export))
		for _, word := range words {
			require.Contains(t, string(export), word)
		}

		hold := map[string]string{"reason": "case 815"}
		b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":legal-hold", hold, nil)
		require.Equal(t, "REASON_LEGAL_HOLD", b.refused(t, b.operator, http.MethodDelete, "/v1/profiles/"+p.id, nil, http.StatusBadRequest))
		b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":lift-legal-hold", struct{}{}, nil)
		for range 2 {
			b.call(t, http.MethodDelete, "/v1/profiles/"+p.id, nil, nil)
		}
		e := p.erased(t)
		require.NotNil(t, e.Erasure.SuppressedAt)
		require.Len(t, e.Erasure.Ledgers, 1)
		require.True(t, e.Erasure.Ledgers[0].Verified)
		all = everything(t, b.onboarding) + everything(t, b.messaging)
		for _, word := range words {
			require.NotContains(t, all, word)
		}

		heard := len(p.heard())
		var again struct {
			Profile profileJSON `json:"profile"`
		}
		b.call(t, http.MethodPost, "/v1/profiles", map[string]string{"phone": p.phone, "first_name": p.name}, &again)
		require.NotEqual(t, p.id, again.Profile.ProfileID)
		activate := "/v1/profiles/" + again.Profile.ProfileID + ":activate"
		require.Equal(t, "REASON_OPTED_OUT", b.refused(t, b.operator, http.MethodPost, activate, struct{}{}, http.StatusBadRequest))
		require.Len(t, p.heard(), heard)
	})

	t.Run("APersonWithoutAProfileIsEnrolledAndErased", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		b := setup(t)
		b.queue(t, map[string]any{"to": unenrolled, "body": "your avocado is ready", "purpose": "transactional", "idempotency_key": "to " + unenrolled})
		b.rest(t)
		_, err := b.vendors.Twilio.Receive(t.Context(), unenrolled, stack.FromNumber, "which avocado?")
		require.NoError(t, err)
		b.rest(t)
		var p person
		var enrolled struct {
			Profile profileJSON `json:"profile"`
		}
		b.call(t, http.MethodPost, "/v1/profiles", map[string]string{"phone": unenrolled, "first_name": "Rita"}, &enrolled)
		p.b, p.id = b, enrolled.Profile.ProfileID
		b.call(t, http.MethodDelete, "/v1/profiles/"+p.id, nil, nil)
		p.erased(t)
		all := everything(t, b.onboarding) + everything(t, b.messaging)
		for _, word := range []string{unenrolled[1:], "avocado"} {
			require.NotContains(t, all, word)
		}
		require.Equal(t, "REASON_PROFILE_NOT_FOUND", b.refused(t, b.operator, http.MethodGet, "/v1/profiles/"+p.id, nil, http.StatusNotFound))
		_, answer := b.try(t, b.operator, http.MethodGet, "/v1/profiles/"+p.id, nil)
		require.Contains(t, string(answer), "was erased: GET /v1/profiles/{id}/erasure")
	})

	t.Run("InTheMiddleOfAConversationAndByShopify", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		b := setup(t)
		b.restart(t, "SHOPIFY_WEBHOOK_SECRET", shopifySecret)
		p := b.begin(t)
		p.hears(t, 3)
		body := `{"customer":{"email":"zuleika@example.com","phone":"` + p.phone[:5] + " " + p.phone[5:] + `"}}`
		status, answer := b.shopify(t, "a.myshopify.com", "w1", body)
		require.Equal(t, http.StatusAccepted, status, answer)
		b.until(t, "it is asked for", func() bool {
			return count(t, b.onboarding, `select count(*) from erasures where source = 'shopify'`) == 1
		})
		p.erased(t)
		heard := len(p.heard()) // what was on its way when it was asked for
		require.Less(t, heard, 6)
		b.rest(t)
		require.Len(t, p.heard(), heard)
		all := everything(t, b.onboarding) + everything(t, b.messaging)
		for _, word := range []string{p.phone[1:], p.phone[5:], p.name, "zuleika@"} {
			require.NotContains(t, all, word)
		}
	})
}

// shopify posts a request to erase a customer, as Shopify would for a shop.
func (b *bundle) shopify(t *testing.T, shop, id, body string) (status int, answer string) {
	t.Helper()
	sum := hmac.New(sha256.New, []byte(shopifySecret))
	sum.Write([]byte(body))
	status, _, answer = b.post(t, b.services.URL()+"/api/webhooks/shopify", http.Header{
		"Content-Type": {"application/json"}, "X-Shopify-Topic": {"customers/redact"}, "X-Shopify-Webhook-Id": {id},
		"X-Shopify-Shop-Domain": {shop}, "X-Shopify-Hmac-Sha256": {base64.StdEncoding.EncodeToString(sum.Sum(nil))},
	}, body)
	return status, answer
}
