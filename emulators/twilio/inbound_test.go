package twilio_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"
	messagingapi "github.com/twilio/twilio-go/rest/messaging/v1"

	"paceline.internal/emulators/twilio"
)

// TestInboundIsKept shows what Twilio has of a message after its webhook failed.
func TestInboundIsKept(t *testing.T) {
	t.Parallel()

	t.Run("AMessageWhoseWebhookFailedIsListed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.app.answers(func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		lost := b.receive("STOP")
		require.Equal(t, http.StatusServiceUnavailable, lost.StatusCode)
		b.clock.Advance(time.Hour)
		b.emulator.SetInboundURL("")
		later := b.receive("hello?")
		_, err := b.emulator.Receive(t.Context(), person, pooled1, "another number")
		require.NoError(t, err)

		listed, err := b.api.ListMessage((&openapi.ListMessageParams{}).SetTo(number))
		require.NoError(t, err)
		require.Len(t, listed, 2)
		require.Equal(t, []string{later.MessageSID, lost.MessageSID}, []string{*listed[0].Sid, *listed[1].Sid}, "newest first")
		require.Equal(t, "inbound", *listed[1].Direction)
		require.Equal(t, "received", *listed[1].Status)
		require.Equal(t, []string{person, number, "STOP"}, []string{*listed[1].From, *listed[1].To, *listed[1].Body})
		require.Equal(t, start.Format(time.RFC1123Z), *listed[1].DateSent, "when Twilio got it")

		listed, err = b.api.ListMessage((&openapi.ListMessageParams{}).SetTo(number).SetDateSentAfter(start.Add(time.Second)))
		require.NoError(t, err)
		require.Len(t, listed, 1)
		require.Equal(t, later.MessageSID, *listed[0].Sid)
	})

	t.Run("ADroppedMessageIsNeverPostedAndIsListed", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *twilio.Config) {
			c.Script.OnInbound = func(m twilio.Message) twilio.InboundFault { return twilio.InboundFault{Drop: m.Body == "STOP"} }
		})
		lost, heard := b.receive("STOP"), b.receive("hello")
		require.True(t, lost.Dropped)
		require.Empty(t, lost.Attempts)
		require.Equal(t, http.StatusNoContent, heard.StatusCode)
		posts, _ := b.app.received()
		require.Len(t, posts, 1)
		require.Equal(t, "hello", posts[0].Form.Get("Body"))
		require.True(t, b.emulator.OptedOut(person, number), "Twilio itself has heard it")
		fetched, err := b.api.FetchMessage(lost.MessageSID, nil)
		require.NoError(t, err)
		require.Equal(t, "STOP", *fetched.Body)
	})

	t.Run("MediaAndOptOutTypeAreInTheWebhook", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d, err := b.emulator.ReceiveText(t.Context(), twilio.Incoming{
			From: person, To: pooled1, OptOutType: "HELP", Media: []twilio.Media{{URL: "https://media.example/1", ContentType: "image/jpeg"}},
		})
		require.NoError(t, err)
		require.Equal(t, "MM", d.MessageSID[:2])
		posts, _ := b.app.received()
		form := posts[0].Form
		require.True(t, posts[0].Signed)
		require.Equal(t, []string{"1", "https://media.example/1", "image/jpeg", "", "HELP", service},
			[]string{
				form.Get("NumMedia"), form.Get("MediaUrl0"), form.Get("MediaContentType0"), form.Get("Body"), form.Get("OptOutType"),
				form.Get("MessagingServiceSid"),
			})
		fetched, err := b.api.FetchMessage(d.MessageSID, nil)
		require.NoError(t, err)
		require.Equal(t, "1", *fetched.NumMedia)
		require.Equal(t, service, *fetched.MessagingServiceSid)
	})
}

// TestSendersOfAService goes through twilio-go, which takes the URLs of the next pages as they are.
func TestSendersOfAService(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *twilio.Config) {
		c.Services = map[string][]string{service: {pooled1, "12345", pooled2, "+15550100004"}}
	})
	base := &client.Client{Credentials: client.NewCredentials(account, token), HTTPClient: b.http}
	base.SetAccountSid(account)
	api := messagingapi.NewApiService(&client.RequestHandler{Client: base})

	numbers, err := api.ListPhoneNumber(service, (&messagingapi.ListPhoneNumberParams{}).SetPageSize(2))
	require.NoError(t, err)
	var got []string
	for _, n := range numbers {
		got = append(got, *n.PhoneNumber)
	}
	require.Equal(t, []string{pooled1, pooled2, "+15550100004"}, got)
	codes, err := api.ListShortCode(service, nil)
	require.NoError(t, err)
	require.Len(t, codes, 1)
	require.Equal(t, "12345", *codes[0].ShortCode)

	_, err = api.ListPhoneNumber("MG00000000000000000000000000000000", nil)
	var refusal *client.TwilioRestError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, 20404, refusal.Code)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.origin+"/v1/Services/"+service+"/PhoneNumbers?PageSize=2", nil)
	require.NoError(t, err)
	req.SetBasicAuth(account, "wrong")
	resp, err := b.http.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	var denied struct{ Code int }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&denied))
	require.Equal(t, 20003, denied.Code)
}
