package qstash_test

import (
	"context"
	"fmt"
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

// setup is a client of a server that answers as told and counts the requests.
func setup(t *testing.T, answer http.HandlerFunc) (*qstash.Client, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := qstash.New(qstash.Config{URL: server.URL + "/", Token: token})
	require.NoError(t, err)
	return client, &requests
}

func message() qstash.Message {
	return qstash.Message{Destination: "https://paceline.example/hook", DeduplicationID: "onboarding-s1-step_1-0"}
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

	t.Run("SendsTheDocumentedHeaders", func(t *testing.T) {
		t.Parallel()
		var path string
		var got http.Header
		client, _ := setup(t, func(w http.ResponseWriter, r *http.Request) {
			path, got = r.RequestURI, r.Header.Clone()
			_, _ = fmt.Fprint(w, `{"messageId":"msg_1"}`)
		})
		m := message()
		m.Destination += "?a=%2F"
		m.ContentType, m.Label, m.RetryDelay, m.FailureCallback = "application/json", "burst", "1000", "https://paceline.example/failed"
		m.Delay, m.Timeout, m.Retries = 7100*time.Millisecond, 30*time.Second, 5
		m.NotBefore = time.Unix(1_800_000_000, 1)
		m.ForwardHeaders = map[string]string{"X-Org": "o1"}
		receipt, err := client.Publish(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, qstash.Receipt{MessageID: "msg_1"}, receipt)
		require.Equal(t, "/v2/publish/"+m.Destination, path)
		for name, want := range map[string]string{
			"Authorization": "Bearer " + token, "Content-Type": "application/json", "Upstash-Label": "burst",
			"Upstash-Delay": "8s", "Upstash-Not-Before": "1800000001", "Upstash-Timeout": "30s", "Upstash-Retries": "5",
			"Upstash-Retry-Delay": "1000", "Upstash-Deduplication-Id": m.DeduplicationID,
			"Upstash-Failure-Callback": m.FailureCallback, "Upstash-Forward-X-Org": "o1",
		} {
			require.Equal(t, want, got.Get(name), name)
		}
	})

	t.Run("LeavesOutWhatIsUnset", func(t *testing.T) {
		t.Parallel()
		client, _ := setup(t, func(w http.ResponseWriter, r *http.Request) {
			for name := range r.Header {
				if strings.HasPrefix(name, "Upstash-") && name != "Upstash-Deduplication-Id" {
					w.WriteHeader(http.StatusBadRequest)
				}
			}
			_, _ = fmt.Fprint(w, `{"messageId":"msg_1"}`)
		})
		m := message()
		m.Retries = qstash.DefaultRetries
		_, err := client.Publish(t.Context(), m)
		require.NoError(t, err)
	})

	t.Run("RefusesBeforeSending", func(t *testing.T) {
		t.Parallel()
		cases := []struct {
			name   string
			change func(*qstash.Message)
			want   string
		}{
			{name: "NoDestination", change: func(m *qstash.Message) { m.Destination = "" }, want: "destination"},
			{name: "RelativeDestination", change: func(m *qstash.Message) { m.Destination = "/hook" }, want: "destination"},
			{name: "Fragment", change: func(m *qstash.Message) { m.Destination += "#x" }, want: "destination"},
			{name: "SpaceInDestination", change: func(m *qstash.Message) { m.Destination += "/a b" }, want: "clean URL"},
			{name: "UnicodeInDestination", change: func(m *qstash.Message) { m.Destination += "/é" }, want: "clean URL"},
			{name: "S1_01_NoDeduplicationID", change: func(m *qstash.Message) { m.DeduplicationID = "" }, want: "missing"},
			{name: "S1_01_ColonInDeduplicationID", change: func(m *qstash.Message) { m.DeduplicationID = "a:b" }, want: "colon"},
			{name: "SpaceInDeduplicationID", change: func(m *qstash.Message) { m.DeduplicationID = "a b" }, want: "outside"},
			{name: "NegativeDelay", change: func(m *qstash.Message) { m.Delay = -1 }, want: "negative"},
			{name: "RelativeFailureCallback", change: func(m *qstash.Message) { m.FailureCallback = "x" }, want: "failure callback"},
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				client, requests := setup(t, func(http.ResponseWriter, *http.Request) {})
				m := message()
				c.change(&m)
				_, err := client.Publish(t.Context(), m)
				require.ErrorIs(t, err, qstash.ErrInvalid)
				require.ErrorContains(t, err, c.want)
				require.Zero(t, requests.Load())
			})
		}
	})

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
				client, requests := setup(t, c.answer)
				_, err := client.Publish(t.Context(), message())
				require.Error(t, err)
				require.Equal(t, c.want, requests.Load())
			})
		}
	})

	t.Run("StopsWithItsContext", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		client, requests := setup(t, func(w http.ResponseWriter, _ *http.Request) {
			cancel()
			w.WriteHeader(http.StatusInternalServerError)
		})
		_, err := client.Publish(ctx, message())
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
			client, _ := setup(t, func(w http.ResponseWriter, _ *http.Request) {
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
		client, _ := setup(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, err := client.Keys(t.Context())
		require.Error(t, err)
		require.NotContains(t, err.Error(), token)
	})
}
