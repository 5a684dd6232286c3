package stack_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/twilio"
	"paceline.internal/test/stack"
)

const (
	kapsoSecret   = "kapso-secret-of-this-stack"
	shopifySecret = "shopify-secret-of-this-stack"
	whatsAppID    = "123456789012345"
)

// withVendors is the environment of a stack that listens to Kapso and Shopify.
func withVendors() []string {
	return []string{"KAPSO_WEBHOOK_SECRET", kapsoSecret, "KAPSO_PHONE_NUMBER_ID", whatsAppID, "SHOPIFY_WEBHOOK_SECRET", shopifySecret}
}

// hooked is an answer to a webhook.
type hooked struct {
	Status  string `json:"status"`
	Results []struct {
		Result string `json:"result"`
		JobID  string `json:"job_id"`
	} `json:"results"`
}

func sumOf(secret, body string) []byte {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	return sum.Sum(nil)
}

// kapso posts an event as Kapso would, signed with this secret.
func (b *bundle) kapso(t *testing.T, secret, event, key, body string) (int, hooked) {
	t.Helper()
	status, _, answer := b.post(t, b.services.URL()+"/api/webhooks/kapso", http.Header{
		"Content-Type": {"application/json"}, "X-Webhook-Event": {"whatsapp." + event}, "X-Idempotency-Key": {key},
		"X-Webhook-Payload-Version": {"v2"}, "X-Webhook-Signature": {hex.EncodeToString(sumOf(secret, body))},
	}, body)
	var got hooked
	if status == http.StatusAccepted {
		require.NoError(t, json.Unmarshal([]byte(answer), &got), answer)
	}
	return status, got
}

// whatsApp is the event of a message that an account wrote.
func whatsApp(t *testing.T, id, account, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"message": map[string]any{
			"id": id, "timestamp": "4102444800", "type": "text", "from": account, "text": map[string]any{"body": text},
			"kapso": map[string]any{"direction": "inbound", "status": "received", "origin": "cloud_api"},
		},
		"conversation": map[string]any{"phone_number": "+" + account, "phone_number_id": whatsAppID}, "phone_number_id": whatsAppID,
	})
	require.NoError(t, err)
	return string(body)
}

// writes sends a WhatsApp message from the person's account, and returns once its job is done.
func (p *person) writes(t *testing.T, id, text string) {
	t.Helper()
	account := strings.TrimPrefix(p.phone, "+")
	if p.locale == "pt-BR" { // as an account that is older than the ninth digit
		account = account[:4] + account[5:]
	}
	status, got := p.b.kapso(t, kapsoSecret, "message.received", "key of "+id, whatsApp(t, id, account, text))
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "processed", got.Status)
	p.b.done(t, got.Results[0].JobID, "completed")
}

// done waits for the end of a job.
func (b *bundle) done(t *testing.T, id, status string) (failure string) {
	t.Helper()
	b.until(t, "the job is "+status, func() bool {
		return count(t, b.onboarding, `select count(*) from webhook_jobs where id = $1 and status = $2`, id, status) == 1
	})
	require.NoError(t, b.onboarding.QueryRow(t.Context(), `select error_message from webhook_jobs where id = $1`, id).Scan(&failure))
	return failure
}

// TestWebhooks is what Kapso and Shopify can do to a conversation.
func TestWebhooks(t *testing.T) {
	t.Parallel()

	for _, locale := range []string{"en", "pt-BR"} {
		t.Run("S2_28_AWhatsAppMessageAnswersLikeAnSMS_"+locale, func(t *testing.T) {
			t.Parallel()
			b := setup(t, withVendors()...)
			p := b.enrol(t, locale)
			p.activate(t)
			p.writes(t, "wamid.1", p.greets)
			p.requireStands(t, atExplanation, "")
			p.requireHeard(t, opening, explanation)
			for range 3 {
				account := strings.TrimPrefix(p.phone, "+")
				status, got := b.kapso(t, kapsoSecret, "message.received", "another key", strings.Replace(whatsApp(t, "wamid.1", account, p.greets), `"status":"received"`, `"status":"read"`, 1))
				require.Equal(t, http.StatusAccepted, status)
				require.Equal(t, "duplicate", got.Status)
			}
			b.rest(t)
			p.requireHeard(t, opening, explanation)
			p.says(t, p.begins) // and by SMS in between
			p.reaches(t, atInterview)
			p.writes(t, "wamid.2", p.ready)
			p.requireStands(t, interviewing, "")
			require.Equal(t, 2, count(t, b.messaging, `select count(*) from sms_messages where to_number = $1 and from_number = $2`, "whatsapp:"+whatsAppID, p.phone))
		})
	}
	whatsAppTexts(t)
	otherEvents(t)
}

// whatsAppTexts are what people write by WhatsApp.
func whatsAppTexts(t *testing.T) {
	t.Helper()
	t.Run("S2_28_AWhatsAppSTOPEndsTheConversation", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		p := b.begin(t)
		p.hears(t, 3)
		p.writes(t, "wamid.stop", "STOP")
		require.Equal(t, "stopped", p.session(t).Status)
		require.Equal(t, "opted_out", p.consent(t).Consent.State)
		b.rest(t)
		for _, m := range b.vendors.Twilio.Messages() { // one that confirms the STOP may come
			for _, key := range []string{message2, message3, message4} {
				require.NotEqual(t, p.text(t, key), m.Body)
			}
		}
	})

	t.Run("S2_28_AReplyByWhatsAppDuringTheBurstIsHeld", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		p := b.begin(t)
		p.hears(t, 4)
		p.writes(t, "wamid.early", p.ready)
		// On a busy machine its job may come to be done after the burst; then it is told to have been early, and answers nothing either.
		require.Equal(t, 1, count(t, b.onboarding, `select (select count(*) from held_replies)
			+ (select count(*) from session_transitions where kind = 'replied' and detail = 'early')`))
		p.reaches(t, atInterview)
		b.rest(t)
		p.requireStands(t, atInterview, "")
	})

	t.Run("S2_31_ForgedIs401AndChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		p := b.enrol(t, "en")
		p.activate(t)
		jobs := count(t, b.onboarding, `select count(*) from webhook_jobs`)
		body := whatsApp(t, "wamid.1", strings.TrimPrefix(p.phone, "+"), "STOP")
		for _, secret := range []string{"forged", "", shopifySecret, stack.AuthToken} {
			status, _ := b.kapso(t, secret, "message.received", "k", body)
			require.Equal(t, http.StatusUnauthorized, status)
		}
		status, got := b.kapso(t, kapsoSecret, "message.received", "k", strings.ReplaceAll(body, whatsAppID, "999"))
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, "unknown_phone", got.Status)
		b.rest(t)
		require.Equal(t, jobs, count(t, b.onboarding, `select count(*) from webhook_jobs`))
		require.Equal(t, "active", p.session(t).Status)
	})

	t.Run("S0_41_STOPByWhatsAppCountsBeforeItsJobsTurnComes", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		p := b.enrol(t, "en")
		var busy atomic.Bool
		busy.Store(true)
		b.vendors.Twilio.SetScript(twilio.Script{OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
			if busy.Load() {
				return twilio.CreateFault{Answer: twilio.AnswerTooMany}
			}
			return twilio.CreateFault{}
		}})
		p.activate(t) // the opening is put off, and is the older job of this person
		status, _ := b.kapso(t, kapsoSecret, "message.received", "k", whatsApp(t, "wamid.1", strings.TrimPrefix(p.phone, "+"), "STOP"))
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, "opted_out", p.consent(t).Consent.State)
		require.Equal(t, "active", p.session(t).Status, "its job waits behind the opening's")
		busy.Store(false)
		b.until(t, "the session is stopped", func() bool { return p.session(t).Status == "stopped" })
		b.rest(t)
		p.hears(t, 1)
		p.requireHeard(t, confirmed) // and not the opening
	})

	t.Run("S0_69_STARTByWhatsAppThatIsDeliveredLateDoesNotUndoTheSTOPAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		p := b.enrol(t, "en")
		p.activate(t)
		said := b.clock.Now()
		b.clock.Advance(5 * time.Second)
		p.writes(t, "wamid.stop", "STOP")
		b.clock.Advance(5 * time.Second)
		late := strings.Replace(whatsApp(t, "wamid.start", strings.TrimPrefix(p.phone, "+"), "START"), "4102444800", strconv.FormatInt(said.Unix(), 10), 1)
		status, _ := b.kapso(t, kapsoSecret, "message.received", "k", late)
		require.Equal(t, http.StatusAccepted, status)
		b.rest(t)
		require.Equal(t, "opted_out", p.consent(t).Consent.State)
	})

	t.Run("S2_02_AnotherTextUnderOneIDIs409", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		p := b.enrol(t, "en")
		p.activate(t)
		p.writes(t, "wamid.1", p.greets)
		status, _ := b.kapso(t, kapsoSecret, "message.received", "k", whatsApp(t, "wamid.1", strings.TrimPrefix(p.phone, "+"), "STOP"))
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "active", p.session(t).Status)
	})
}

// otherEvents are those that are no text.
func otherEvents(t *testing.T) {
	t.Helper()
	t.Run("S2_28_DeliveredAndFailedUpdateTheMessage", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		for i, tc := range []struct{ event, errors, want string }{
			{"message.delivered", "", "delivered"},
			{"message.failed", `,"statuses":[{"status":"failed","errors":[{"code":131026}]}]`, "failed"},
		} {
			id := "wamid.out" + tc.want
			_, err := b.messaging.Exec(t.Context(), `insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash,
				idempotency_key, status, twilio_sid, segments, correlation_id, attempt_token, lease_until, attempts, accepted_at, created_at, updated_at)
				values (gen_random_uuid(), $1, 'outbound', 'whatsapp:`+whatsAppID+`', '+14155550100', 'x', sha256('x'), $2, 'sent', $2, 1, '',
				gen_random_uuid(), $3, 1, $3, $3, $3)`, stack.OrgID, id, noon)
			require.NoError(t, err, "as a sender of WhatsApp messages would have left it")
			body := `{"message":{"id":"` + id + `","kapso":{"direction":"outbound"` + tc.errors + `}},"phone_number_id":"` + whatsAppID + `"}`
			status, got := b.kapso(t, kapsoSecret, tc.event, "k", body)
			require.Equal(t, http.StatusAccepted, status)
			require.Empty(t, got.Results[0].JobID, "messaging has it already")
			require.Equal(t, 1, count(t, b.messaging, `select count(*) from sms_messages where twilio_sid = $1 and status = $2`, id, tc.want))
			require.Equal(t, i+1, count(t, b.messaging, `select count(*) from sms_receipts where message_id is not null`))
		}
		status, _ := b.kapso(t, kapsoSecret, "message.delivered", "k", `{"message":{"id":"wamid.nobodys"},"phone_number_id":"`+whatsAppID+`"}`)
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, 1, count(t, b.messaging, `select count(*) from sms_receipts where twilio_sid = 'wamid.nobodys' and message_id is null`), "it is kept raw")
	})

	// Also: S2-24
	t.Run("S2_17_ShopifyIsStoredAndWhatNobodyTakesFailsAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withVendors()...)
		for topic, want := range map[string]struct{ status, failure string }{
			"app/uninstalled":        {"completed", ""},
			"customers/data_request": {"failed", "needs an operator"},
			"customers/redact":       {"failed", "needs an operator"},
			"shop/redact":            {"failed", "needs an operator"},
			"orders/create":          {"failed", "no handler"},
		} {
			body := `{"id":820982911946154508,"shop_id":954889}`
			var got hooked
			for _, wanted := range []string{"processed", "duplicate"} {
				status, _, answer := b.post(t, b.services.URL()+"/api/webhooks/shopify", http.Header{
					"X-Shopify-Topic": {topic}, "X-Shopify-Webhook-Id": {"id-of-" + topic}, "X-Shopify-Shop-Domain": {"quilts.myshopify.com"},
					"X-Shopify-Hmac-Sha256": {base64.StdEncoding.EncodeToString(sumOf(shopifySecret, body))},
				}, body)
				require.Equal(t, http.StatusAccepted, status, answer)
				require.NoError(t, json.Unmarshal([]byte(answer), &got))
				require.Equal(t, wanted, got.Status)
			}
			require.Contains(t, strings.ToLower(b.done(t, got.Results[0].JobID, want.status)), want.failure)
		}
		require.Equal(t, 1, count(t, b.onboarding, `select count(*) from webhook_jobs where payload #>> '{body,id}' = '820982911946154508' and event_type = 'shopify.orders/create'`))
	})

	t.Run("S2_31_WithoutASecretTheSourcesAre404", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		status, _ := b.kapso(t, "", "message.received", "k", "{}")
		require.Equal(t, http.StatusNotFound, status)
	})
}
