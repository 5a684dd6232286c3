package twilio_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"

	"paceline.internal/emulators/twilio"
)

func refused(t *testing.T, err error, status, code int) {
	t.Helper()
	var refusal *client.TwilioRestError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, []int{status, code}, []int{refusal.Status, refusal.Code}, refusal.Message)
}

func TestChangeOfAMessage(t *testing.T) {
	t.Parallel()
	t.Run("AnEmptyBodyRedactsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sid := b.must(nil)
		_, err := b.api.UpdateMessage(sid, (&openapi.UpdateMessageParams{}).SetBody(""))
		refused(t, err, 409, 20009)
		b.pass(time.Second)
		redacted, err := b.api.UpdateMessage(sid, (&openapi.UpdateMessageParams{}).SetBody(""))
		require.NoError(t, err)
		require.Equal(t, []string{"", "delivered", "1"}, []string{*redacted.Body, *redacted.Status, *redacted.NumSegments})
		require.Empty(t, b.message(sid).Body)
	})
	t.Run("NothingElseIsChanged", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sid := b.must(nil)
		b.pass(time.Second)
		for _, params := range []*openapi.UpdateMessageParams{
			{},
			(&openapi.UpdateMessageParams{}).SetBody("another text"),
			(&openapi.UpdateMessageParams{}).SetStatus("canceled"),
			(&openapi.UpdateMessageParams{}).SetStatus("sent"),
		} {
			_, err := b.api.UpdateMessage(sid, params)
			refused(t, err, 400, 20001)
		}
		_, err := b.api.UpdateMessage("SM0", (&openapi.UpdateMessageParams{}).SetBody(""))
		refused(t, err, 404, 20404)
		require.Equal(t, "hello", b.message(sid).Body)
	})
	t.Run("ADeletedOneIsNotListed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sid := b.must(nil)
		refused(t, b.api.DeleteMessage(sid, nil), 409, 20009)
		b.pass(time.Second)
		require.NoError(t, b.api.DeleteMessage(sid, nil))
		require.Empty(t, b.emulator.Messages())
		_, err := b.api.FetchMessage(sid, nil)
		refused(t, err, 404, 20404)
		refused(t, b.api.DeleteMessage(sid, nil), 404, 20404)
	})
}

func TestAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	found, err := b.api.FetchAccount(account)
	require.NoError(t, err)
	require.Equal(t, []string{account, "active", "Full"}, []string{*found.Sid, *found.Status, *found.Type})
	require.Nil(t, found.AuthToken)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.origin+"/2010-04-01/Accounts/"+account+".json", nil)
	require.NoError(t, err)
	denied, err := b.http.Do(request)
	require.NoError(t, err)
	require.NoError(t, denied.Body.Close())
	require.Equal(t, 401, denied.StatusCode)
	require.Equal(t, `Basic realm="Twilio API"`, denied.Header.Get("WWW-Authenticate"))

	// An API key calls for the account, but does not read it.
	const key, secret = "SKfeedfacefeedfacefeedfacefeedface", "secret"
	b = setup(t, func(c *twilio.Config) { c.APIKeys = map[string]string{key: secret} })
	_, err = b.client(key, secret).ListMessage(nil)
	require.NoError(t, err)
	_, err = b.client(key, secret).FetchAccount(account)
	refused(t, err, 401, 20003)
	_, err = b.client(key, token).ListMessage(nil)
	refused(t, err, 401, 20003)
	_, err = b.client("SKdeleted", secret).ListMessage(nil)
	refused(t, err, 401, 20003)
}

// TestWhatIsNotPlayedIsRefused names it in every error, and takes nothing in.
func TestWhatIsNotPlayedIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const text = "To=%2B15550190001&From=%2B15550100001&Body=hello&"
	for _, row := range []struct {
		method, path, form, names string
		status, code              int
	}{
		{"POST", "/Messages.json", text + "MediaUrl=https://example.com/a.png", "the parameter MediaUrl", 400, 20001},
		{"POST", "/Messages.json", text + "SendAt=2026-11-21T12:00:00Z", "the parameter SendAt", 400, 20001},
		{"POST", "/Messages.json", text + "ScheduleType=fixed", "the parameter ScheduleType", 400, 20001},
		{"POST", "/Messages.json", text + "ContentSid=HX1", "the parameter ContentSid", 400, 20001},
		{"POST", "/Messages.json", text + "SomethingNew=1", "the parameter SomethingNew", 400, 20001},
		{"GET", "/Messages.json?Status=sent", "", "the parameter Status", 400, 20001},
		{"GET", "/IncomingPhoneNumbers.json?Beta=true", "", "the parameter Beta", 400, 20001},
		{"GET", "/v1/Services/" + service + "/PhoneNumbers?Order=asc", "", "the parameter Order", 400, 20001},
		{"GET", "/Calls.json", "", "GET /2010-04-01/Accounts/" + account + "/Calls.json", 404, 20404},
		{"GET", "/v1/Services", "", "GET /v1/Services", 404, 20404},
		{"POST", ".json", "FriendlyName=x", "POST /2010-04-01/Accounts/" + account + ".json", 404, 20404},
	} {
		status, answer := b.ask(row.method, row.path, row.form)
		require.Equal(t, row.status, status, row.path)
		said := answer.(map[string]any)
		require.Equal(t, "This emulator does not play "+row.names, said["message"])
		require.EqualValues(t, row.code, said["code"])
	}
	require.Empty(t, b.emulator.Messages())
}

func TestPagesBeyondTheLastAreEmpty(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/IncomingPhoneNumbers.json", "/v1/Services/" + service + "/PhoneNumbers"} {
		for _, page := range []string{"1", "9223372036854775807"} {
			status, _ := b.ask("GET", path+"?PageSize=1000&Page="+page, "")
			require.Equal(t, 200, status)
		}
	}
}
