package stack_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	kapsoSecret = "kapso-secret-of-this-stack"
	whatsAppID  = "123456789012345"
)

// hooked is an answer to a webhook.
type hooked struct {
	Status  string `json:"status"`
	Results []struct {
		Result string `json:"result"`
		JobID  string `json:"job_id"`
	} `json:"results"`
}

// kapso posts a message that an account wrote, as Kapso would, signed with this secret.
func (b *bundle) kapso(t *testing.T, secret, key, body string) (int, hooked) {
	t.Helper()
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	status, _, answer := b.post(t, b.services.URL()+"/api/webhooks/kapso", http.Header{
		"Content-Type": {"application/json"}, "X-Webhook-Event": {"whatsapp.message.received"}, "X-Idempotency-Key": {key},
		"X-Webhook-Payload-Version": {"v2"}, "X-Webhook-Signature": {hex.EncodeToString(sum.Sum(nil))},
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
	status, got := p.b.kapso(t, kapsoSecret, "key of "+id, whatsApp(t, id, account, text))
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "processed", got.Status)
	p.b.until(t, "the job is completed", func() bool {
		return count(t, p.b.onboarding, `select count(*) from webhook_jobs where id = $1 and status = 'completed'`, got.Results[0].JobID) == 1
	})
}

// byWhatsApp is a conversation of a person who answers there, and by SMS in between, until they write STOP.
func byWhatsApp(t *testing.T) {
	t.Parallel()
	b := setup(t, "KAPSO_WEBHOOK_SECRET", kapsoSecret, "KAPSO_PHONE_NUMBER_ID", whatsAppID)
	p := b.enrol(t, "pt-BR")
	p.activate(t)
	status, _ := b.kapso(t, "forged", "k", whatsApp(t, "wamid.0", strings.TrimPrefix(p.phone, "+"), "STOP"))
	require.Equal(t, http.StatusUnauthorized, status)
	p.writes(t, "wamid.1", p.greets)
	p.requireStands(t, atExplanation, "")
	p.requireHeard(t, opening, explanation)
	again := strings.Replace(whatsApp(t, "wamid.1", strings.TrimPrefix(p.phone, "+"), p.greets), `"status":"received"`, `"status":"read"`, 1)
	for range 3 {
		status, got := b.kapso(t, kapsoSecret, "another key", again)
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, "duplicate", got.Status)
	}
	b.rest(t)
	p.requireHeard(t, opening, explanation)
	p.says(t, p.begins)
	p.hears(t, 4)
	p.writes(t, "wamid.2", "STOP")
	require.Equal(t, "stopped", p.session(t).Status)
	require.Equal(t, "opted_out", p.consent(t).Consent.State)
	p.hears(t, 5)
	b.rest(t)
	p.requireHeard(t, opening, explanation, message1, message2, confirmed)
	require.Equal(t, 2, count(t, b.messaging, `select count(*) from sms_messages where to_number = $1 and from_number = $2`, "whatsapp:"+whatsAppID, p.phone))
}
