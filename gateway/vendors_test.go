package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"

	callback "paceline.internal/gateway/qstash"
	"paceline.internal/gateway/twilio"
)

const (
	kapsoSecret   = "kapso-secret-of-the-tests"
	shopifySecret = "shopify-secret-of-the-tests"
)

// callbacks returns one genuine request to each route of QStash and Twilio, and the RPC that it becomes.
func callbacks() map[string]struct {
	rpc     string
	request goldenRequest
} {
	form := map[string][]string{
		"MessageSid": {"SM1"}, "From": {phone}, "To": {"+551130000000"}, "Body": {"hello there"}, "MessageStatus": {"sent"},
	}
	return map[string]struct {
		rpc     string
		request goldenRequest
	}{
		twilio.PathInbound: {"OnboardingService/ReceiveMessage", goldenRequest{Path: twilio.PathInbound, Sign: "twilio current", Form: form}},
		twilio.PathStatus:  {"MessagingService/RecordStatus", goldenRequest{Path: twilio.PathStatus, Sign: "twilio current", Form: form}},
		callback.PathStep: {"OnboardingService/ExecuteStep", goldenRequest{
			Path: callback.PathStep, Sign: "qstash current", Headers: headers("0", "5"), Body: aStep,
		}},
		callback.PathStepFailed: {"OnboardingService/RecordStepFailure", goldenRequest{
			Path: callback.PathStepFailed, Sign: "qstash current", Headers: headers("0", "5"), Body: aFailure,
		}},
	}
}

func macOf(secret string, body []byte) []byte {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write(body)
	return sum.Sum(nil)
}

// signWebhook returns the header of a vendor's signature.
func signWebhook(vendor, secret string, body []byte) http.Header {
	mac := macOf(secret, body)
	if vendor == "kapso" {
		return http.Header{"X-Webhook-Signature": {hex.EncodeToString(mac)}}
	}
	return http.Header{"X-Shopify-Hmac-Sha256": {base64.StdEncoding.EncodeToString(mac)}}
}
