package doctor_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/doctor"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/qstash"
)

const (
	origin = "https://texts.example.com"
	step   = "/api/onboarding/step"
	status = "/api/webhooks/twilio/status?message_id=0198c5d2-0000-7000-8000-000000000001"
	token  = "0123456789abcdef0123456789abcdef"
)

var (
	keys = doctor.Keys{
		PublicBaseURL: origin, QStashCurrent: "sig_current", QStashNext: "sig_next", TwilioAuthTokens: []string{"the one before", token}, Leeway: 5 * time.Second,
	}
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

// components of the differences.
func components(all []doctor.Difference) []doctor.Component {
	found := []doctor.Component{}
	for _, d := range all {
		found = append(found, d.Component)
	}
	return found
}

func TestDiagnoseQStash(t *testing.T) {
	t.Parallel()
	const body = `{"step_id":"onboarding_message_1"}`
	for name, tt := range map[string]struct {
		key, url, body string        // that were signed
		path           string        // that reached us
		after          time.Duration // it was signed
		want           []doctor.Component
	}{
		"Good":                  {want: []doctor.Component{}},
		"GoodByTheNextKey":      {key: "sig_next", want: []doctor.Component{}},
		"AnotherKey":            {key: "sig_other", want: []doctor.Component{doctor.Key}},
		"AnotherScheme":         {url: "http://texts.example.com" + step, want: []doctor.Component{doctor.Scheme}},
		"AnotherHost":           {url: "https://old.example.com" + step, want: []doctor.Component{doctor.Host}},
		"AnotherPort":           {url: origin + ":8443" + step, want: []doctor.Component{doctor.Port}},
		"APathThatWasRewritten": {url: origin + "/paceline" + step, want: []doctor.Component{doctor.Path}},
		"AQueryThatWasDropped":  {url: origin + step + "?a=1", want: []doctor.Component{doctor.Query}},
		"ABodyThatWasChanged":   {body: body + " ", want: []doctor.Component{doctor.Body}},
		"TooLate":               {after: 6 * time.Minute, want: []doctor.Component{doctor.Clock}},
		"AClockThatIsSlow":      {after: -time.Minute, want: []doctor.Component{doctor.Clock}},
		"SeveralAtOnce":         {key: "sig_other", url: "http://old.example.com" + step, want: []doctor.Component{doctor.Key, doctor.Scheme, doctor.Host}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, signedURL, signedBody := "sig_current", origin+step, body
			if tt.key != "" {
				key = tt.key
			}
			if tt.url != "" {
				signedURL = tt.url
			}
			if tt.body != "" {
				signedBody = tt.body
			}
			signature, err := qstash.Sign(key, signedURL, []byte(signedBody), noon)
			require.NoError(t, err)
			vendor, found, err := doctor.Diagnose(doctor.Request{
				URL: step, Header: http.Header{qstash.HeaderSignature: {signature}}, Body: []byte(body), At: noon.Add(tt.after),
			}, keys)
			require.NoError(t, err)
			require.Equal(t, "QStash", vendor)
			require.Equal(t, tt.want, components(found))
			for _, d := range found {
				require.NotEmpty(t, d.Mend)
			}
		})
	}
	t.Run("WithoutAKeyNothingIsGood", func(t *testing.T) {
		t.Parallel()
		made, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "Upstash", "sub": origin + step}).SignedString([]byte{})
		require.NoError(t, err)
		none := keys
		none.QStashCurrent, none.QStashNext = "", ""
		_, found, err := doctor.Diagnose(doctor.Request{URL: step, Header: http.Header{qstash.HeaderSignature: {made}}}, none)
		require.NoError(t, err)
		require.Contains(t, components(found), doctor.Key)
	})
	t.Run("AHeaderThatWasCut", func(t *testing.T) {
		t.Parallel()
		_, found, err := doctor.Diagnose(doctor.Request{URL: step, Header: http.Header{qstash.HeaderSignature: {"ey.cut"}}}, keys)
		require.NoError(t, err)
		require.Equal(t, []doctor.Component{doctor.Signature}, components(found))
	})
}

func TestDiagnoseTwilio(t *testing.T) {
	t.Parallel()
	form := url.Values{"MessageSid": {"SM1"}, "MessageStatus": {"delivered"}, "From": {"+12025550100"}}
	for name, tt := range map[string]struct {
		token, url string     // that signed, and was signed
		form       url.Values // that was signed
		header     http.Header
		path       string // that reached us
		want       []doctor.Component
	}{
		"Good":                        {want: []doctor.Component{}},
		"AnotherToken":                {token: strings.Repeat("0", 32), want: []doctor.Component{doctor.Key, doctor.Body}},
		"AnotherScheme":               {url: "http://texts.example.com" + status, want: []doctor.Component{doctor.Scheme}},
		"AHostThatTheProxyTellsOf":    {url: "https://old.example.com" + status, header: http.Header{"X-Forwarded-Host": {"old.example.com"}}, want: []doctor.Component{doctor.Host}},
		"AHostOfTheRequest":           {url: "https://old.example.com" + status, path: "https://old.example.com" + status, want: []doctor.Component{doctor.Host}},
		"APortThatWasSigned":          {url: origin + ":443" + status, want: []doctor.Component{doctor.Port}},
		"ASlashThatWasAdded":          {path: strings.Replace(status, "?", "/?", 1), want: []doctor.Component{doctor.Path}},
		"APrefixThatWasTakenOff":      {url: origin + "/paceline" + status, header: http.Header{"X-Forwarded-Prefix": {"/paceline"}}, want: []doctor.Component{doctor.Path}},
		"AQueryThatWasAdded":          {url: origin + "/api/webhooks/twilio/status", want: []doctor.Component{doctor.Query}},
		"AFormThatWasChanged":         {form: url.Values{"MessageSid": {"SM2"}}, want: []doctor.Component{doctor.Key, doctor.Body}},
		"AFormThatWasNotSigned":       {form: url.Values{}, want: []doctor.Component{doctor.Body}},
		"AnotherSchemeAndAnotherPort": {url: "http://texts.example.com:8080" + status, want: []doctor.Component{doctor.Scheme, doctor.Port}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, signedURL, signedForm, path := token, origin+status, form, status
			if tt.token != "" {
				key = tt.token
			}
			if tt.url != "" {
				signedURL = tt.url
			}
			if tt.form != nil {
				signedForm = tt.form
			}
			if tt.path != "" {
				path = tt.path
			}
			header := http.Header{"X-Twilio-Signature": {twilio.Sign(key, signedURL, signedForm)}}
			maps.Copy(header, tt.header)
			vendor, found, err := doctor.Diagnose(doctor.Request{URL: path, Header: header, Body: []byte(form.Encode()), At: noon}, keys)
			require.NoError(t, err)
			require.Equal(t, "Twilio", vendor)
			require.Equal(t, tt.want, components(found))
		})
	}
}

func TestDiagnoseRefuses(t *testing.T) {
	t.Parallel()
	_, _, err := doctor.Diagnose(doctor.Request{URL: step}, keys)
	require.ErrorIs(t, err, doctor.ErrNoVendor)
	_, _, err = doctor.Diagnose(doctor.Request{URL: "texts.example.com"}, keys)
	require.ErrorContains(t, err, "absolute")
	_, _, err = doctor.Diagnose(doctor.Request{URL: step}, doctor.Keys{})
	require.ErrorContains(t, err, "PUBLIC_BASE_URL")
}

func TestDiagnoseTwilioJSON(t *testing.T) {
	t.Parallel()
	const body = `{"MessageSid":"SM1","MessageStatus":"sent"}`
	hash := sha256.Sum256([]byte(body))
	at := status + "&bodySHA256=" + hex.EncodeToString(hash[:])
	header := http.Header{"X-Twilio-Signature": {twilio.Sign(token, origin+at, nil)}}
	for given, want := range map[string][]doctor.Component{body: {}, body + " ": {doctor.Body}} {
		vendor, found, err := doctor.Diagnose(doctor.Request{URL: origin + at, Header: header, Body: []byte(given), At: noon}, keys)
		require.NoError(t, err)
		require.Equal(t, "Twilio", vendor)
		require.Equal(t, want, components(found))
	}
}

// FuzzDiagnose finds nothing wrong with a signature only if the gateway's own check does.
func FuzzDiagnose(f *testing.F) {
	good, err := qstash.Sign("sig_current", origin+step, []byte("{}"), noon)
	require.NoError(f, err)
	f.Add(step, good, "", []byte("{}"))
	f.Add(status, "", twilio.Sign(token, origin+status, url.Values{"a": {"b"}}), []byte("a=b"))
	f.Add("https://x:99/%zz", "a.b.c", "", []byte("%"))
	verifier, err := qstash.NewVerifier(qstash.VerifierConfig{CurrentKey: "sig_current", NextKey: "sig_next", Now: func() time.Time { return noon }})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, path, byQStash, byTwilio string, body []byte) {
		header := http.Header{}
		header.Set(qstash.HeaderSignature, byQStash)
		header.Set("X-Twilio-Signature", byTwilio)
		vendor, found, err := doctor.Diagnose(doctor.Request{URL: path, Header: header, Body: body, At: noon}, keys)
		if err != nil || vendor != "QStash" {
			return
		}
		u, err := url.Parse(path)
		require.NoError(t, err)
		verified := verifier.Verify(byQStash, body, origin+u.RequestURI()) == nil
		if verified {
			require.Empty(t, found)
		}
	})
}
