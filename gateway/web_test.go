package gateway

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
)

// asks makes a request of /v1 with headers, as a client does that decompresses nothing by itself.
func (b *bench) asks(t *testing.T, method, path string, header map[string]string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", bearer(t, string(rpc.RoleOperator)))
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, response.Body.Close()) })
	return response
}

func TestClientsOfTheWeb(t *testing.T) {
	t.Parallel()
	const jobs = "/v1/webhook-jobs"
	long := `{"jobs": [` + strings.TrimSuffix(strings.Repeat(`{"job_id": "01900000-0000-7000-8000-000000000001"},`, 40), ",") + `]}`
	serve := func(t *testing.T, changes ...string) *bench {
		t.Helper()
		b := setup(t, changes...)
		b.services.on("WebhookJobService/ListWebhookJobs", func(context.Context) (json.RawMessage, error) { return json.RawMessage(long), nil })
		return b
	}

	t.Run("HEADIsAnsweredAsGETWithoutTheBody", func(t *testing.T) {
		t.Parallel()
		b := serve(t)
		got, head := b.asks(t, http.MethodGet, jobs+"?page_size=9", nil), b.asks(t, http.MethodHead, jobs+"?page_size=9", nil)
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), "01900000-0000-7000-8000-000000000001")
		none, err := io.ReadAll(head.Body)
		require.NoError(t, err)
		require.Empty(t, none)
		require.Equal(t, []any{http.StatusOK, got.Header.Get("Content-Type")}, []any{head.StatusCode, head.Header.Get("Content-Type")})
	})

	t.Run("AnswersAreCompressedForWhoAsksForItAndSmallOnesAreNot", func(t *testing.T) {
		t.Parallel()
		b := serve(t)
		accepts := map[string]string{"Accept-Encoding": "gzip"}
		response := b.asks(t, http.MethodGet, jobs, accepts)
		require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
		require.Contains(t, response.Header.Values("Vary"), "Accept-Encoding")
		plain, err := gzip.NewReader(response.Body)
		require.NoError(t, err)
		body, err := io.ReadAll(plain)
		require.NoError(t, err)
		require.True(t, json.Valid(body))
		require.Empty(t, b.asks(t, http.MethodGet, jobs, nil).Header.Get("Content-Encoding"))
		require.Empty(t, b.asks(t, http.MethodGet, "/v1/nothing", accepts).Header.Get("Content-Encoding"))
	})

	t.Run("PagesOfTheOriginsMayCallAndNoOthers", func(t *testing.T) {
		t.Parallel()
		b := serve(t, "CORS_ORIGINS", "https://shop.example,http://localhost:3000")
		preflight := func(origin string) http.Header {
			return b.asks(t, http.MethodOptions, jobs, map[string]string{
				"Origin": origin, "Access-Control-Request-Method": http.MethodPost, "Access-Control-Request-Headers": "authorization,content-type",
			}).Header
		}
		for _, origin := range []string{"https://shop.example", "http://localhost:3000"} {
			allowed := preflight(origin)
			require.Equal(t, origin, allowed.Get("Access-Control-Allow-Origin"))
			require.Equal(t, http.MethodPost, allowed.Get("Access-Control-Allow-Methods"))
			require.Equal(t, "authorization,content-type", allowed.Get("Access-Control-Allow-Headers"))
			require.Empty(t, allowed.Get("Access-Control-Allow-Credentials"), "a caller is known by a token, never by a cookie")
			answer := b.asks(t, http.MethodGet, jobs, map[string]string{"Origin": origin})
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.Equal(t, origin, answer.Header.Get("Access-Control-Allow-Origin"))
		}
		require.Empty(t, preflight("https://shop.example.evil.example").Get("Access-Control-Allow-Origin"))
		require.Empty(t, b.services.seen()[2:], "a preflight asks no service")
	})

	t.Run("WithoutOriginsNoPageMay", func(t *testing.T) {
		t.Parallel()
		b := serve(t, "CORS_ORIGINS", "")
		answer := b.asks(t, http.MethodGet, jobs, map[string]string{"Origin": "https://shop.example"})
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"))
	})

	t.Run("WhatIsNoOriginRefusesTheStart", func(t *testing.T) {
		t.Parallel()
		for _, origins := range []string{"*", "shop.example", "https://shop.example/path"} {
			env := environ()
			env["CORS_ORIGINS"] = origins
			_, err := LoadConfig(env)
			require.ErrorContains(t, err, "CORS_ORIGINS", origins)
		}
	})
}
