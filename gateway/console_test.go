package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// visitor is a browser in front of a gateway with its console on.
type visitor struct {
	*bench

	t      *testing.T
	client *http.Client
}

func visits(t *testing.T, settings ...string) *visitor {
	t.Helper()
	b := setup(t, append(settings, "CONSOLE", "on", "CONSOLE_KEY", strings.Repeat("0f", 32), "PUBLIC_BASE_URL", "http://127.0.0.1:8080")...)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	return &visitor{bench: b, t: t, client: client}
}

func (v *visitor) asks(method, path string, form url.Values) (status int, body string, header http.Header) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := v.client.Do(r)
	require.NoError(v.t, err)
	defer func() { require.NoError(v.t, answer.Body.Close()) }()
	page, err := io.ReadAll(answer.Body)
	require.NoError(v.t, err)
	return answer.StatusCode, string(page), answer.Header
}

// signsIn pastes the token of a bearer.
func (v *visitor) signsIn(who string) (status int, header http.Header) {
	v.t.Helper()
	token := strings.TrimPrefix(bearer(v.t, who), "Bearer ")
	status, page, header := v.asks(http.MethodPost, "/console/sign-in", url.Values{"token": {token}})
	require.NotContains(v.t, page, token)
	require.NotContains(v.t, header.Get("Location"), token)
	require.NotContains(v.t, v.log.String(), token)
	return status, header
}

func TestConsole(t *testing.T) {
	t.Parallel()

	t.Run("IsNotThereUnlessItIsOn", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/console", "/console/sign-in", "/console/assets/console.css"} {
			answer := httptest.NewRecorder()
			setup(t).handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			require.Equal(t, http.StatusNotFound, answer.Code, path)
		}
	})

	t.Run("IsWhereABrowserIsLedFromTheBareAddress", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			accept, location string
			on               *bench
		}{
			{accept: "text/html,application/xhtml+xml", location: "/console", on: visits(t).bench},
			{accept: "*/*", on: visits(t).bench},
			{accept: "text/html", on: setup(t)},
		} {
			answer, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("Accept", tt.accept)
			tt.on.handler.ServeHTTP(answer, r)
			require.Equal(t, tt.location, answer.Header().Get("Location"))
			if tt.location == "" {
				require.Equal(t, http.StatusNotFound, answer.Code)
				require.Contains(t, answer.Body.String(), "REASON_NO_SUCH_ROUTE")
			}
		}
	})

	t.Run("IsFoundWithASlashToo", func(t *testing.T) {
		t.Parallel()
		status, _, header := visits(t).asks(http.MethodGet, "/console/", nil)
		require.Equal(t, http.StatusMovedPermanently, status)
		require.Equal(t, "/console", header.Get("Location"))
	})

	t.Run("AsksAsThePersonWhoseTokenWasPasted", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		status, _, header := v.asks(http.MethodGet, "/console/people?q=Ana", nil)
		require.Equal(t, http.StatusSeeOther, status)
		require.Equal(t, "/console/sign-in?to=%2Fconsole%2Fpeople%3Fq%3DAna", header.Get("Location"))
		status, _ = v.signsIn("operator")
		require.Equal(t, http.StatusSeeOther, status)
		v.services.on("OnboardingService/ListProfiles", func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
		status, _, _ = v.asks(http.MethodGet, "/console/people?q=Ana", nil)
		require.Equal(t, http.StatusOK, status)
		made := v.services.seen()
		require.NotEmpty(t, made)
		for _, c := range made {
			require.Equal(t, "ada", c.Principal.Subject)
			require.Equal(t, "127.0.0.1", c.Principal.Client)
		}
	})

	t.Run("ItsCookieIsWorthNothingOnV1", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		_, header := v.signsIn("operator")
		cookie, err := http.ParseSetCookie(header.Get("Set-Cookie"))
		require.NoError(t, err)
		for _, authorization := range []string{"", "Bearer " + cookie.Value} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+"/v1/sessions", http.NoBody)
			require.NoError(t, err)
			r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value}) // a browser sends it here, where its path is /
			r.Header.Set("Authorization", authorization)
			answer, err := v.client.Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
		}
		require.Empty(t, v.services.seen())
	})

	t.Run("ShowsAUserNoPageOfOperators", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		status, _ := v.signsIn("user")
		require.Equal(t, http.StatusSeeOther, status)
		for _, path := range []string{"/console/people", "/console/people/" + ownProfile, "/console/needs", "/console/queues", "/console/ledger", "/console/ledger/export", "/console/do"} {
			status, _, _ := v.asks(http.MethodGet, path, nil)
			require.Equal(t, http.StatusForbidden, status, path)
		}
		require.Empty(t, v.services.seen(), "no service was asked")
	})

	t.Run("RefusesAnAppAndWhoseTokenIsNotBelieved", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		status, _ := v.signsIn("app")
		require.Equal(t, http.StatusForbidden, status)
		for _, token := range []string{"hunter2", strings.Repeat("x", maxToken+1)} {
			status, page, header := v.asks(http.MethodPost, "/console/sign-in", url.Values{"token": {token}})
			require.Equal(t, http.StatusForbidden, status)
			require.Empty(t, header.Values("Set-Cookie"))
			require.NotContains(t, page, token)
			require.NotContains(t, v.log.String(), token)
		}
	})

	t.Run("TakesNoLinkThatOnlyPacelineUpPrints", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		status, _, header := v.asks(http.MethodGet, "/console/sign-in/link?key=x", nil)
		require.Equal(t, http.StatusSeeOther, status)
		require.Equal(t, "/console/sign-in", strings.Split(header.Get("Location"), "?")[0])
	})

	t.Run("CountsACallOfAPageAsOneOfV1", func(t *testing.T) {
		t.Parallel()
		v := visits(t, "API_RATE_TOKEN", "1:1")
		v.signsIn("operator")
		v.services.on("OnboardingService/ListProfiles", func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
		status, _, _ := v.asks(http.MethodGet, "/console/people", nil)
		require.Equal(t, http.StatusOK, status)
		calls, refused := 1, 0
		for range 10 {
			status, page, _ := v.asks(http.MethodGet, "/console/people", nil)
			if calls++; status == http.StatusTooManyRequests {
				require.Contains(t, page, "the limit &#34;token&#34; of requests is reached")
				refused++
			}
		}
		require.Positive(t, refused)
		require.Len(t, v.services.seen(), calls-refused)
	})

	t.Run("BoundsTheAttemptsOfAnAddress", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		refused := 0
		for range signInRate.burst + 10 { // some come back while these are made
			if status, _, header := v.asks(http.MethodPost, "/console/sign-in", url.Values{"token": {"hunter2"}}); status == http.StatusTooManyRequests {
				require.NotEmpty(t, header.Get("Retry-After"))
				refused++
			}
		}
		require.Positive(t, refused)
	})
}
