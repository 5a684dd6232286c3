package twilio_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/twilio"
)

const (
	otherAccount = "ACbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	otherToken   = "ffffffffffffffffffffffffffffffff"
	otherService = "MGbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	otherNumber  = "+14155550177"
)

// two is a bundle with a second account that has one service of one number.
func two(t *testing.T) *bundle {
	t.Helper()
	return setup(t, func(cfg *twilio.Config) {
		cfg.Others = []twilio.Account{{
			SID: otherAccount, AuthToken: otherToken, SecondToken: "2nd", Services: map[string][]string{otherService: {otherNumber}},
		}}
	})
}

// do calls the emulator as an account, and returns the status.
func (b *bundle) do(user, password, method, path string, form url.Values) int {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.origin+path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(user, password)
	answer, err := b.http.Do(request)
	require.NoError(b.t, err)
	require.NoError(b.t, answer.Body.Close())
	return answer.StatusCode
}

func TestAccountsAreSeparate(t *testing.T) {
	t.Parallel()
	b := two(t)
	const at = "/2010-04-01/Accounts/"
	sid := b.must(nil)
	text := func(from, service string) url.Values {
		form := url.Values{"To": {person}, "Body": {"hello"}}
		if from != "" {
			form.Set("From", from)
		}
		if service != "" {
			form.Set("MessagingServiceSid", service)
		}
		return form
	}
	for _, c := range []struct {
		name, user, password, method, path string
		form                               url.Values
		want                               int
	}{
		{"Own", otherAccount, otherToken, "GET", at + otherAccount + ".json", nil, 200},
		{"SecondToken", otherAccount, "2nd", "GET", at + otherAccount + ".json", nil, 200},
		{"TokenOfTheOther", otherAccount, token, "GET", at + otherAccount + ".json", nil, 401},
		{"AccountOfTheOther", otherAccount, otherToken, "GET", at + account + ".json", nil, 404},
		{"MessageOfTheOther", otherAccount, otherToken, "GET", at + otherAccount + "/Messages/" + sid + ".json", nil, 404},
		{"NumberOfTheOther", otherAccount, otherToken, "POST", at + otherAccount + "/Messages.json", text(number, ""), 400},
		{"ServiceOfTheOther", account, token, "POST", at + account + "/Messages.json", text("", otherService), 400},
		{"SendersOfTheOther", otherAccount, otherToken, "GET", "/v1/Services/" + service + "/PhoneNumbers", nil, 404},
		{"OwnService", otherAccount, otherToken, "POST", at + otherAccount + "/Messages.json", text("", otherService), 201},
	} {
		require.Equal(t, c.want, b.do(c.user, c.password, c.method, c.path, c.form), c.name)
	}
}

func TestAccountSignsWithItsOwnToken(t *testing.T) {
	t.Parallel()
	b := two(t)
	_, err := b.emulator.Receive(t.Context(), person, otherNumber, "STOP")
	require.NoError(t, err)
	posts, _ := b.app.received()
	got := posts[len(posts)-1]
	require.Equal(t, otherAccount, got.Form.Get("AccountSid"))
	require.Equal(t, otherService, got.Form.Get("MessagingServiceSid"))
	require.Equal(t, twilio.Sign(otherToken, b.app.url+"/inbound", got.Form), got.Header.Get("X-Twilio-Signature"))
	require.True(t, b.emulator.OptedOut(person, otherNumber))
	require.False(t, b.emulator.OptedOut(person, number))

	b.emulator.SetCredentials(otherAccount, "promoted", "", nil)
	_, err = b.emulator.Receive(t.Context(), person, otherNumber, "hello")
	require.NoError(t, err)
	posts, _ = b.app.received()
	got = posts[len(posts)-1]
	require.Equal(t, twilio.Sign("promoted", b.app.url+"/inbound", got.Form), got.Header.Get("X-Twilio-Signature"))
}
