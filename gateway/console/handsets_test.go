package console

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"paceline.internal/emulators/clock"
	emulated "paceline.internal/emulators/handsets"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/config"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// said posts a form, and is the page that it comes back to, with its notice.
func (s *site) said(path string, form url.Values) string {
	s.t.Helper()
	return readsAll(s.t, s.post(path, form))
}

func readsAll(t *testing.T, answer *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

func TestHandsetsPage(t *testing.T) {
	t.Parallel()
	const number, ana = "+12025550100", "+12025550143"
	now := clock.NewSettable(noon)
	carrier, err := twilio.New(twilio.Config{Clock: now, AccountSID: "ACfeedfacefeedfacefeedfacefeedface", AuthToken: "token", Numbers: []string{number}})
	require.NoError(t, err)
	t.Cleanup(carrier.Close)
	alarms := qstash.New(qstash.Config{Clock: now})
	t.Cleanup(alarms.Close)
	mux := http.NewServeMux()
	phones := emulated.New(emulated.Config{Twilio: carrier, QStash: alarms, Clock: now, Number: number}).Handler()
	mux.Handle("/handsets", phones)
	mux.Handle("/handsets/", phones)
	mux.HandleFunc("POST /phone", func(w http.ResponseWriter, r *http.Request) { // as the command paceline serves it
		_, err := carrier.Receive(r.Context(), r.FormValue("From"), number, r.FormValue("Body"))
		_ = json.NewEncoder(w).Encode(map[string]any{"callback_status": http.StatusOK, "refused": err != nil}) // or the caller has gone
	})
	emulators := httptest.NewServer(mux)
	t.Cleanup(emulators.Close)
	_, err = carrier.Receive(t.Context(), ana, number, "Good morning")
	require.NoError(t, err)
	s := &scripted{answers: map[string]func(proto.Message) (proto.Message, error){}, asked: map[string][]proto.Message{}}
	b := opens(t, func(cfg *Config) {
		cfg.Services.Onboarding, cfg.Services.Messaging = onboardingv1.NewOnboardingServiceClient(s), sending{}
		cfg.Services.Tickets = onboardingv1.NewTicketServiceClient(s)
		cfg.Handsets, err = config.ParseOrigin(emulators.URL)
		require.NoError(t, err)
		cfg.PhonesOf = org
	})
	require.Equal(t, http.StatusOK, b.post(signin.PathSignIn, url.Values{"token": {"good operator"}}).StatusCode)

	address := func(phone string) string { return root + "/handsets?" + url.Values{"a": {phone}}.Encode() }
	_, body := b.page(address("+1 (202) 555-0143"))
	require.Contains(t, body, "Good morning", "any spelling of the number is this phone")

	_, body = b.page(address("Ana"))
	require.Contains(t, body, "This is no phone number")
	require.Contains(t, body, `value="Ana"`, "what was typed is kept")

	writes := func(phone string) string {
		return b.said(root+"/handsets/write", url.Values{"phone": {phone}, "body": {"Hello"}})
	}
	before := len(carrier.Messages())
	require.Contains(t, writes("202 555 0143"), "This is no phone number")
	require.Len(t, carrier.Messages(), before, "nothing is sent")
	writes("+1 202 555 0143")
	all := carrier.Messages()
	require.Equal(t, ana, all[len(all)-1].From)

	for _, code := range []string{"abc", "-1", "0", "123456"} {
		require.Contains(t, b.said(root+"/handsets/faults", url.Values{"code": {code}}), "a number such as 21211", code)
	}
	require.Contains(t, b.said(root+"/handsets/faults", url.Values{"code": {"21211"}, "sends": {"refused"}}), "Switched.")

	b.org = uuid.NewString() // another organisation signs in
	require.Equal(t, http.StatusOK, b.post(signin.PathSignIn, url.Values{"token": {"good operator"}}).StatusCode)
	before = len(carrier.Messages())
	code, body := b.page(address(ana))
	require.Equal(t, http.StatusForbidden, code)
	require.NotContains(t, body, "Good morning")
	require.NotContains(t, body, `href="`+root+`/handsets"`, "nor is it in the menu")
	require.Contains(t, writes("+1 202 555 0143"), "another organisation")
	require.Len(t, carrier.Messages(), before, "nobody speaks for another organisation's person")
	require.Contains(t, b.said(root+"/handsets/faults", url.Values{"sends": {"down"}}), "another organisation")
}
