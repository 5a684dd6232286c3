package twilio

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's choice; HMAC does not need collision resistance
	"encoding/base64"
	"io"
	"maps"
	"net/url"
	"slices"
)

// Sign returns the X-Twilio-Signature of a form posted to fullURL: base64 of the HMAC-SHA1, keyed by the account's
// auth token, of the URL followed by every parameter's name and value, names in byte order and the values of a
// repeated name in the order given. fullURL is signed exactly as it stands, so it must already be what the receiver
// configured: port and query kept, userinfo and fragment gone. A nil form signs a GET.
//
// Source: https://www.twilio.com/docs/usage/security
func Sign(authToken, fullURL string, form url.Values) string {
	mac := hmac.New(sha1.New, []byte(authToken))
	write := func(s string) { _, _ = io.WriteString(mac, s) } // a hash never fails to write
	write(fullURL)
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) { // as the SDKs do: each once, in order
			write(name)
			write(value)
		}
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
