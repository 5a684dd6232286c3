package twilio

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/twilio/twilio-go/client"

	twiliotest "paceline.internal/emulators/twilio"
	"paceline.internal/gateway/route"
	"paceline.internal/platform/config"
)

const (
	authToken = "c0ffee0123456789c0ffee0123456789"
	origin    = "https://paceline.example"
)

func callbacks(t *testing.T) *Callbacks {
	t.Helper()
	public, err := config.ParseOrigin(origin)
	require.NoError(t, err)
	c, err := New(Config{AuthTokens: config.NewSecret(authToken), Origin: public, Now: time.Now})
	require.NoError(t, err)
	return c
}

// Receipts keep no reply out: Twilio is asked for a receipt that is lost, and for no STOP.
func TestAReplyGoesBeforeAReceipt(t *testing.T) {
	t.Parallel()
	c := callbacks(t)
	require.Less(t, c.inbound().Priority, c.receipt().Priority)
	require.Same(t, c.inbound().Limiter, c.receipt().Limiter)
}

func TestTwilioSignature(t *testing.T) {
	t.Parallel()
	signatures, err := newSignatures(config.NewSecret(authToken))
	require.NoError(t, err)

	t.Run("PublishedVector", func(t *testing.T) {
		t.Parallel()
		published, err := newSignatures(config.NewSecret("12345"))
		require.NoError(t, err)
		form := url.Values{
			"CallSid": {"CA1234567890ABCDE"}, "Caller": {"+14158675310"}, "Digits": {"1234"}, "From": {"+14158675310"}, "To": {"+18005551212"},
		}
		require.True(t, published.valid("https://example.com/myapp.php?foo=1&bar=2", form, "L/OH5YylLD5NRKLltdqwSvS0BnU="))
	})

	t.Run("R_21_ARepeatedNameIsSignedAsTwiliosSDKDoesIt", func(t *testing.T) {
		t.Parallel()
		published, err := newSignatures(config.NewSecret("12345"))
		require.NoError(t, err)
		// By getExpectedTwilioSignature of the npm package twilio 6.2.0.
		require.True(t, published.valid("https://example.com/cb?x=1", url.Values{"A": {"2", "1", "2"}, "B": {"x"}}, "a127TE2GqEBOucfo/maGom54B1o="))
	})

	t.Run("R_15_AFormOfManyParametersIsRefusedBeforeItIsParsed", func(t *testing.T) {
		t.Parallel()
		c := callbacks(t)
		form := url.Values{"MessageSid": {"SM1"}, "MessageStatus": {"sent"}}
		verify := func() *route.Answer {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathStatus, nil)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(headerSignature, twiliotest.Sign(authToken, origin+PathStatus, form))
			_, refused := c.verify(r, []byte(form.Encode()))
			return refused
		}
		require.Nil(t, verify())
		for n := range maxParameters {
			form.Set(fmt.Sprintf("p%d", n), "")
		}
		require.Equal(t, http.StatusForbidden, verify().Status, "although it is signed")
	})

	t.Run("EmptyTokenIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := newSignatures(config.Secret{})
		require.EqualError(t, err, "twilio: the auth token is empty")
		_, err = newSignatures(config.NewSecret("12345,"))
		require.ErrorContains(t, err, "an empty secret among those")
	})

	t.Run("EveryTokenIsAcceptedDuringItsRotation", func(t *testing.T) {
		t.Parallel()
		both, err := newSignatures(config.NewSecret("new, old"))
		require.NoError(t, err)
		for token, want := range map[string]bool{"new": true, "old": true, "new, old": false, "other": false} {
			require.Equal(t, want, both.valid(origin, nil, twiliotest.Sign(token, origin, nil)), token)
		}
	})

	for _, tc := range []struct {
		name, signedURL, url string
		form                 url.Values
		want                 bool
	}{
		{name: "PortIsKept", signedURL: "https://x.example:8443/a", url: "https://x.example:8443/a", want: true},
		{name: "MissingPortIsAnotherURL", signedURL: "https://x.example:8443/a", url: "https://x.example/a"},
		{name: "OtherScheme", signedURL: "https://x.example/a", url: "http://x.example/a"},
		// Twilio gets the retry policy in the URL's fragment, and neither sends nor signs that: see the stack's tests.
		{name: "FragmentIsNoPartOfIt", signedURL: "https://x.example/a#rt=4000&rc=3&rp=all", url: "https://x.example/a"},
		{name: "TrailingSlash", signedURL: "https://x.example/a", url: "https://x.example/a/"},
		{name: "OtherQuery", signedURL: "https://x.example/a?m=1", url: "https://x.example/a?m=2"},
		{name: "EmptyValue", signedURL: origin, url: origin, form: url.Values{"Body": {""}}, want: true},
		{name: "NoParameters", signedURL: origin, url: origin, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, signatures.valid(tc.url, tc.form, twiliotest.Sign(authToken, tc.signedURL, tc.form)))
		})
	}

	t.Run("EveryValueOfARepeatedNameIsCovered", func(t *testing.T) {
		t.Parallel()
		signature := twiliotest.Sign(authToken, origin, url.Values{"A": {"1", "2"}})
		for _, other := range []url.Values{{"A": {"1"}}, {"A": {"2"}}, {"A": {"1", "3"}}, {"A": {"1", "2", "3"}}} {
			require.False(t, signatures.valid(origin, other, signature), "%v", other)
		}
	})
}

// A stranger's form of as many names as fit costs no more than reading it. Allocations are counted and not time, because a
// loaded machine is slow.
func TestAForgedFormIsCheap(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts those of the whole process
	signatures, err := newSignatures(config.NewSecret(authToken))
	require.NoError(t, err)
	form := url.Values{}
	for i := range 9_000 {
		form.Set(strconv.FormatInt(int64(i), 36), "")
	}
	allocations := testing.AllocsPerRun(5, func() {
		if signatures.valid(origin, form, "forged") {
			t.Error("a forged signature was accepted")
		}
	})
	require.Less(t, allocations, 200.0, "one a parameter would be 9,000 copies of what was there before")
}

// FuzzTwilioSignature checks three things for any form: what Twilio signs is accepted, one changed byte or
// another URL is not, and where Twilio's own ValidateBody can judge (no repeated name) it agrees.
func FuzzTwilioSignature(f *testing.F) {
	signatures, err := newSignatures(config.NewSecret(authToken))
	require.NoError(f, err)
	official := client.NewRequestValidator(authToken)
	f.Fuzz(func(t *testing.T, body, query string) {
		form, err := decodeForm("application/x-www-form-urlencoded", []byte(body))
		if err != nil {
			t.Skip()
		}
		target := origin + PathStatus + "?" + url.QueryEscape(query)
		signature := twiliotest.Sign(authToken, target, form)
		require.True(t, signatures.valid(target, form, signature))
		require.False(t, signatures.valid(target+"x", form, signature))
		require.False(t, signatures.valid(target, form, "A"+signature[1:]) && signature[0] != 'A')
		require.False(t, signatures.valid(target, form, ""))
		form.Set("Fuzz", form.Get("Fuzz")+"x")
		require.False(t, signatures.valid(target, form, signature))
		form, err = url.ParseQuery(body)
		require.NoError(t, err)
		for _, values := range form {
			if len(values) > 1 {
				return
			}
		}
		require.True(t, official.ValidateBody(target, []byte(body), signature))
	})
}

// FuzzTwilioForm checks the decoders on any bytes: no panic, only text that can be stored, and nothing
// that was not in the form.
func FuzzTwilioForm(f *testing.F) {
	f.Fuzz(func(t *testing.T, body, query string) {
		form, err := decodeForm("application/x-www-form-urlencoded", []byte(body))
		if err != nil {
			t.Skip()
		}
		if text, err := decodeInbound(form); err == nil {
			for name, got := range map[string]string{
				"MessageSid": text.GetTwilioSid(), "From": text.GetFrom(), "To": text.GetTo(), "Body": text.GetBody(),
				"MessagingServiceSid": text.GetMessagingServiceSid(), "OptOutType": text.GetOptOutType(),
			} {
				requireStorable(t, got)
				require.LessOrEqual(t, len(form[name]), 1)
				require.Equal(t, route.Storable(form.Get(name)), got)
			}
			require.NotEmpty(t, text.GetTwilioSid())
			require.GreaterOrEqual(t, text.GetSegments(), int32(0))
		}
		if receipt, err := decodeReceipt(parameters{query: query, form: form}); err == nil {
			require.NotEmpty(t, receipt.GetStatus())
			require.GreaterOrEqual(t, receipt.GetErrorCode(), int32(0))
			require.LessOrEqual(t, len(receipt.GetRaw()), len(form))
			for name, value := range receipt.GetRaw() {
				requireStorable(t, name)
				requireStorable(t, value)
			}
		}
	})
}

func requireStorable(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text) && !strings.Contains(text, "\x00"), "%q", text)
}

// FuzzTwilioJSON checks the reader of JSON on any bytes: it takes what is a flat object and nothing else, and with the value that any other
// reader finds; and a signature covers the bytes that it was made for and no others.
func FuzzTwilioJSON(f *testing.F) {
	signatures, err := newSignatures(config.NewSecret(authToken))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body string) {
		hash := sha256.Sum256([]byte(body))
		query := url.Values{bodyHashParameter: {hex.EncodeToString(hash[:])}}
		target := origin + PathInbound + "?" + query.Encode()
		signature := twiliotest.Sign(authToken, target, nil)
		require.True(t, signatures.validJSON(target, query, []byte(body), signature))
		require.False(t, signatures.validJSON(target, query, []byte(body+" "), signature))
		require.False(t, signatures.validJSON(target, nil, []byte(body), signature))
		require.False(t, signatures.validJSON(target+"x", query, []byte(body), signature))

		form, err := decodeJSON([]byte(body))
		var flat map[string]json.RawMessage
		if problem := json.Unmarshal([]byte(body), &flat); problem != nil || flat == nil {
			require.Error(t, err)
			return
		}
		if err != nil {
			return // nested
		}
		for name, value := range flat {
			var text string
			if string(value) != "null" && json.Unmarshal(value, &text) == nil {
				require.Equal(t, text, form[name][len(form[name])-1])
			}
		}
		for name := range form {
			require.Contains(t, flat, name)
		}
	})
}
