package twilio

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio signs so
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/twilio/twilio-go/client"

	"paceline.internal/platform/config"
)

// signatures checks X-Twilio-Signature with Twilio's own validator.
type signatures struct{ validators []client.RequestValidator }

// newSignatures accepts several tokens, separated by commas. It refuses an empty one, with which any stranger could sign.
func newSignatures(authTokens config.Secret) (signatures, error) {
	tokens, err := authTokens.Keys()
	if err != nil {
		return signatures{}, fmt.Errorf("twilio: the auth token %w", err)
	}
	if len(tokens) == 0 {
		return signatures{}, errors.New("twilio: the auth token is empty")
	}
	return signaturesOf(tokens), nil
}

// signaturesOf accepts what any of the tokens signs, and nothing without one.
func signaturesOf(tokens []string) (s signatures) {
	for _, token := range tokens {
		if token != "" {
			s.validators = append(s.validators, client.NewRequestValidator(token))
		}
	}
	return s
}

// valid reports whether signature was made for this URL and form, by one of the tokens. Twilio signs the URL and then every
// name with each of its values, in the order of the names and of the values, each value once, as its SDKs do.
// The validator gets all of that as the name of one parameter: it appends parameters one by one and copies the text each time, so a
// stranger's form of ten thousand would cost a third of a second.
func (s signatures) valid(fullURL string, form url.Values, signature string) bool {
	var signed strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := form[name]
		if len(values) > 1 {
			values = slices.Compact(slices.Sorted(slices.Values(values)))
		}
		for _, value := range values {
			signed.WriteString(name)
			signed.WriteString(value)
		}
	}
	found := false
	for i := range s.validators {
		found = s.validators[i].Validate(fullURL, map[string]string{signed.String(): ""}, signature) || found
	}
	return found
}

// Probe returns a signed receipt without content, for the doctor: a gateway with this token refuses it as malformed, and any other as
// forged.
func Probe(ctx context.Context, origin, authToken string) (*http.Request, error) {
	target := origin + PathStatus
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	mac := hmac.New(sha1.New, []byte(authToken))
	_, _ = io.WriteString(mac, target) // a hash never fails to write; no parameters follow
	request.Header.Set(headerSignature, base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return request, nil
}
