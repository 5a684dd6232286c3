package qstash_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"paceline.internal/platform/qstash"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "secret-token"

// setup is a client of a server that answers as told.
func setup(t *testing.T, answer http.HandlerFunc) *qstash.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := qstash.New(qstash.Config{URL: server.URL + "/", Token: token})
	require.NoError(t, err)
	return client
}

// counted is a publisher in front of such a server, and the number of its requests.
func counted(t *testing.T, answer http.HandlerFunc) (*qstash.Publisher, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	publisher, err := qstash.NewPublisher(publisherConfig(setup(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answer(w, r)
	})))
	require.NoError(t, err)
	return publisher, &requests
}

func TestNew(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, url, token string
		want             string
	}{
		{name: "Default", token: token},
		{name: "Origin", url: "http://127.0.0.1:8080", token: token},
		{name: "TrailingSlash", url: "https://qstash.upstash.io/", token: token},
		{name: "Path", url: "https://qstash.upstash.io/v2/publish", token: token, want: "bare origin"},
		{name: "Query", url: "https://qstash.upstash.io?x=1", token: token, want: "bare origin"},
		{name: "User", url: "https://me:secret-token@qstash.upstash.io", token: token, want: "bare origin"},
		{name: "NoScheme", url: "qstash.upstash.io", token: token, want: "not an http or https origin"},
		{name: "OtherScheme", url: "ftp://qstash.upstash.io", token: token, want: "not an http or https origin"},
		{name: "NoHost", url: "https://", token: token, want: "not an http or https origin"},
		{name: "NoToken", want: "token is empty"},
		{name: "TokenWithNewline", token: "secret-token\n", want: "white space"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := qstash.New(qstash.Config{URL: c.url, Token: c.token})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), token)
		})
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()

	t.Run("TriesAgainOnlyWhereItHelps", func(t *testing.T) {
		t.Parallel()
		cases := []struct {
			name   string
			answer http.HandlerFunc
			want   int32
		}{
			{name: "ServerError", answer: status(502, nil), want: 3},
			{name: "RateLimit", answer: status(429, nil), want: 3},
			{name: "DroppedConnection", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: 3},
			{name: "LongRateLimit", answer: status(429, map[string]string{"Retry-After": "60"}), want: 1},
			{name: "BadInput", answer: status(400, nil), want: 1},
			{name: "BadToken", answer: status(401, nil), want: 1},
			{name: "PlanLimit", answer: status(412, nil), want: 1},
			{name: "Redirect", answer: status(307, map[string]string{"Location": "/elsewhere"}), want: 1},
			{name: "NotQStash", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, want: 1},
			{name: "NoMessageID", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, want: 1},
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				publisher, requests := counted(t, c.answer)
				_, err := publisher.Publish(t.Context(), job(t))
				require.Error(t, err)
				require.Equal(t, c.want, requests.Load())
			})
		}
	})

	t.Run("StopsWithItsContext", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		publisher, requests := counted(t, func(w http.ResponseWriter, _ *http.Request) {
			cancel()
			w.WriteHeader(http.StatusInternalServerError)
		})
		_, err := publisher.Publish(ctx, job(t))
		require.Error(t, err)
		require.EqualValues(t, 1, requests.Load())
	})
}

func status(code int, header map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	const date = "Fri, 20 Nov 2026 12:00:00 GMT" // unix 1795176000
	cases := []struct {
		name   string
		header map[string]string
		body   string
		want   qstash.Error
	}{
		{
			name: "Explained", body: `{"error":"invalid token secret-token"}`,
			want: qstash.Error{Status: 429, Message: "invalid token ***"},
		},
		{name: "NoJSON", body: "<html>", want: qstash.Error{Status: 429, Message: "Too Many Requests"}},
		{
			name: "RetryAfter", header: map[string]string{"Retry-After": "7"},
			want: qstash.Error{Status: 429, Message: "Too Many Requests", RetryAfter: 7 * time.Second},
		},
		{
			name: "BurstReset", header: map[string]string{"Date": date, "Burst-RateLimit-Reset": "1795176002"},
			want: qstash.Error{Status: 429, Message: "Too Many Requests", RetryAfter: 2 * time.Second},
		},
		{
			name: "DailyReset", header: map[string]string{"Date": date, "RateLimit-Reset": "1795179600"},
			want: qstash.Error{Status: 429, Message: "Too Many Requests", RetryAfter: time.Hour},
		},
		{
			name: "Long", body: `{"error":"` + strings.Repeat("x", 5000) + `"}`,
			want: qstash.Error{Status: 429, Message: strings.Repeat("x", 300)},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := setup(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(c.body))
			})
			_, err := client.Keys(t.Context())
			var refused *qstash.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.want, *refused)
			require.True(t, refused.Temporary())
			require.NotContains(t, err.Error(), token)
		})
	}

	t.Run("ConnectionErrorHoldsNoToken", func(t *testing.T) {
		t.Parallel()
		client := setup(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, err := client.Keys(t.Context())
		require.Error(t, err)
		require.NotContains(t, err.Error(), token)
	})
}
