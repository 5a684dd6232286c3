package twilio_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"

	"paceline.internal/emulators/twilio"
)

// strict makes an object's unknown names an error, which Twilio's documents leave open.
func strict(document *openapi3.T) {
	closed := false
	for _, schema := range document.Components.Schemas {
		if len(schema.Value.Properties) > 0 {
			schema.Value.AdditionalProperties.Has = &closed
		}
	}
}

// TestAnswersFitTheVendorsSchemas holds the answers to Twilio's own documents, an excerpt of which is in testdata.
func TestAnswersFitTheVendorsSchemas(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromFile("testdata/twilio_oai.json")
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context()))
	strict(document)
	b := setup(t, func(cfg *twilio.Config) { cfg.Services = map[string][]string{service: {pooled1, "55501"}} })
	sid := b.must(nil)
	b.pass(time.Second)
	accepted := b.must(func(p *openapi.CreateMessageParams) { p.From = nil; p.SetMessagingServiceSid(service) })

	for _, call := range []struct {
		method, path, form, schema string
		status                     int
	}{
		{"GET", ".json", "", "api.v2010.account", 200},
		{"POST", "/Messages.json", "To=" + url.QueryEscape(person) + "&From=" + url.QueryEscape(number) + "&Body=x", "api.v2010.account.message", 201},
		{"POST", "/Messages.json", "To=1", "Error", 400},
		{"GET", "/Messages.json?PageSize=1", "", "ListMessageResponse", 200},
		{"GET", "/Messages/" + accepted + ".json", "", "api.v2010.account.message", 200},
		{"GET", "/Messages/" + sid + ".json", "", "api.v2010.account.message", 200},
		{"POST", "/Messages/" + sid + ".json", "Body=", "api.v2010.account.message", 200},
		{"POST", "/Messages/" + accepted + ".json", "Body=", "Error", 409},
		{"GET", "/Messages/SM0.json", "", "Error", 404},
		{"GET", "/Messages/" + sid + "/Media.json", "", "Error", 404},
		{"GET", "/IncomingPhoneNumbers.json", "", "ListIncomingPhoneNumberResponse", 200},
		{"GET", "/v1/Services/" + service + "/PhoneNumbers?PageSize=1", "", "ListPhoneNumberResponse", 200},
		{"GET", "/v1/Services/" + service + "/ShortCodes", "", "ListShortCodeResponse", 200},
	} {
		status, answer := b.ask(call.method, call.path, call.form)
		require.Equal(t, call.status, status, call.path)
		require.NoError(t, document.Components.Schemas[call.schema].Value.VisitJSON(answer), "%s %s", call.method, call.path)
	}
}

// ask is one call with the account's credentials; the path is below the account, or of another part of the API. An empty answer is nil.
func (b *bundle) ask(method, path, form string) (int, any) {
	b.t.Helper()
	if !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/2010") {
		path = "/2010-04-01/Accounts/" + account + path
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.origin+path, strings.NewReader(form))
	require.NoError(b.t, err)
	request.SetBasicAuth(account, token)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := b.http.Do(request)
	require.NoError(b.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	var answer any
	if len(body) > 0 {
		require.NoError(b.t, json.Unmarshal(body, &answer))
	}
	return response.StatusCode, answer
}
