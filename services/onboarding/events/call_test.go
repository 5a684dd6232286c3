package events_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/events"
)

func TestCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.courier()
	answers := map[string]func(w http.ResponseWriter){
		"/ok":    func(w http.ResponseWriter) { fmt.Fprint(w, `{"field": 3}`) },
		"/none":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
		"/fails": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"/away":  func(w http.ResponseWriter) { w.Header().Set("Location", "/ok"); w.WriteHeader(http.StatusFound) },
		"/long":  func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 65<<10)) },
	}
	var secret []byte
	stops := make(chan struct{})
	host := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		judge, err := standardwebhooks.NewWebhookRaw(secret)
		if err == nil { // the signature is judged by the standard's library, by its own clock
			err = judge.VerifyIgnoringTimestamp(body, r.Header)
		}
		switch answer := answers[r.URL.Path]; {
		case err != nil, r.Header.Get("webhook-id") != "the key":
			out.WriteHeader(http.StatusUnauthorized)
		case answer == nil:
			<-stops
		default:
			answer(out)
		}
	}))
	t.Cleanup(host.Close)
	t.Cleanup(func() { close(stops) })
	call := func(path string) ([]byte, error) {
		patience := time.Minute
		if path == "/silent" {
			patience = 50 * time.Millisecond
		}
		return c.Call(t.Context(), orgID, host.URL+path, "the key", patience, []byte(`{"flow": "visit"}`))
	}

	_, err := call("/ok")
	require.ErrorIs(t, err, events.ErrNoSecret, "there is no subscription of this host")
	s := w.subscribes(host.URL + "/events")
	secret = s.Secret
	got, err := call("/ok")
	require.NoError(t, err)
	require.JSONEq(t, `{"field": 3}`, string(got))
	got, err = call("/none")
	require.NoError(t, err)
	require.Empty(t, got)
	for path, want := range map[string]string{
		"/fails": "answered 500", "/away": "answered 302", "/long": "longer than 65536 bytes", "/silent": "no answer",
	} {
		_, err = call(path)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), host.URL)
	}
	_, err = c.Call(t.Context(), another, host.URL+"/ok", "the key", time.Second, nil)
	require.ErrorIs(t, err, events.ErrNoSecret, "another organisation has no subscription")
	_, err = c.Call(t.Context(), orgID, "https://10.0.0.1/ok", "the key", time.Second, nil)
	require.ErrorContains(t, err, "public address")
}
