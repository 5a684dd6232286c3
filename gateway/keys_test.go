package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/apikey"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// holder is the service of keys, with one that may be revoked.
type holder struct {
	*bench

	key     string
	asked   atomic.Int64
	revoked atomic.Bool
	away    atomic.Bool
	at      atomic.Int64 // of the machine's clock, beyond noon
}

const keyID = "01900000-0000-7000-8000-0000000000e1"

func setupKeys(t *testing.T) *holder {
	t.Helper()
	key, err := apikey.New()
	require.NoError(t, err)
	h := &holder{bench: setup(t), key: key}
	h.gateway.keys.known.now = func() time.Time { return noon().Add(time.Duration(h.at.Load())) }
	h.services.on("APIKeyService/AuthenticateKey", func(context.Context) (json.RawMessage, error) {
		h.asked.Add(1)
		switch {
		case h.away.Load():
			return nil, errors.New("the database is away")
		case h.revoked.Load():
			return nil, &rpc.Error{Code: codes.NotFound, Reason: onboardingv1.Reason_REASON_API_KEY_NOT_FOUND.String(), Domain: "d", Message: "m"}
		}
		return json.RawMessage(fmt.Sprintf(`{"api_key_id": %q, "org_id": %q, "role": "app", "expires_at": "2026-03-04T13:00:00Z"}`, keyID, orgID)), nil
	})
	return h
}

// asks makes a request with a bearer token.
func (h *holder) asks(t *testing.T, token string) (status int, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/v1/sessions", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, response.Header
}

func (h *holder) passes(d time.Duration) { h.at.Add(int64(d)) }

func TestAPIKeys(t *testing.T) {
	t.Parallel()

	t.Run("AKeyIsAPrincipalWithItsOwnSubject", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		status, _ := h.asks(t, h.key)
		require.Equal(t, http.StatusOK, status)
		seen := h.services.seen()
		require.Equal(t, rpc.Principal{Subject: "key:" + keyID, OrgID: orgID, Role: rpc.RoleApp, Client: "127.0.0.1"}, seen[len(seen)-1].Principal)
		require.NotContains(t, h.log.String(), h.key)
	})

	t.Run("AnAnswerIsUsedForThreeSeconds", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		for range 20 {
			status, _ := h.asks(t, h.key)
			require.Equal(t, http.StatusOK, status)
		}
		require.EqualValues(t, 1, h.asked.Load())
		h.revoked.Store(true)
		h.passes(trust)
		status, header := h.asks(t, h.key)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, "Bearer", header.Get("WWW-Authenticate"))
		for range 20 { // that there is none is kept, too
			h.asks(t, h.key)
		}
		require.EqualValues(t, 2, h.asked.Load())
	})

	t.Run("OneThatIsRevokedWhileARequestRunsEndsWithIt", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		h.services.on("OnboardingService/ListSessions", func(context.Context) (json.RawMessage, error) {
			h.revoked.Store(true)
			h.passes(trust)
			return json.RawMessage(`{}`), nil
		})
		status, _ := h.asks(t, h.key)
		require.Equal(t, http.StatusOK, status, "what was let on is answered")
		status, _ = h.asks(t, h.key)
		require.Equal(t, http.StatusUnauthorized, status)
	})

	t.Run("AMalformedKeyIsRefusedWithoutACall", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		for _, wrong := range []string{h.key + "x", h.key[:len(h.key)-1], apikey.Prefix + strings.Repeat("0", len(h.key)-len(apikey.Prefix))} {
			status, _ := h.asks(t, wrong)
			require.Equal(t, http.StatusUnauthorized, status)
		}
		require.Zero(t, h.asked.Load())
	})

	t.Run("AnOutageIsNotARefusal", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		h.away.Store(true)
		status, header := h.asks(t, h.key)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.NotEmpty(t, header.Get("Retry-After"))
		h.away.Store(false)
		status, _ = h.asks(t, h.key)
		require.Equal(t, http.StatusOK, status, "it is not kept")
	})

	t.Run("MadeUpKeysAreBounded", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		h.revoked.Store(true)
		h.gateway.keys.attempts.now = noon
		for range lookupRate.burst + 100 {
			made, err := apikey.New()
			require.NoError(t, err)
			_, _ = h.gateway.keys.caller(t.Context(), made)
		}
		require.EqualValues(t, lookupRate.burst, h.asked.Load(), "a network asks for so many only")
	})

	t.Run("MadeUpKeysLockNoKeyOut", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		h.gateway.keys.attempts.now = noon
		status, _ := h.asks(t, h.key)
		require.Equal(t, http.StatusOK, status)
		stranger := rpc.Principal{Client: "127.0.0.1"}
		for h.gateway.keys.attempts.take(t.Context(), http.Header{}, stranger) == nil { // as a look-up of a made-up key does
		}
		h.passes(trust)
		status, _ = h.asks(t, h.key)
		require.Equal(t, http.StatusOK, status, "it is in use")
		made, err := apikey.New()
		require.NoError(t, err)
		status, _ = h.asks(t, made)
		require.Equal(t, http.StatusTooManyRequests, status)
		require.EqualValues(t, 2, h.asked.Load())
	})

	t.Run("TheConsoleAsksAgain", func(t *testing.T) {
		t.Parallel()
		h := setupKeys(t)
		who, err := h.gateway.keys.caller(t.Context(), h.key)
		require.NoError(t, err)
		require.Equal(t, noon().Add(time.Hour), who.expires)
		require.NoError(t, h.gateway.keys.still(t.Context(), who.Principal))
		h.revoked.Store(true)
		h.passes(trust)
		require.ErrorIs(t, h.gateway.keys.still(t.Context(), who.Principal), errKey)
		require.NoError(t, h.gateway.keys.still(t.Context(), rpc.Principal{Subject: "ada"}))
	})
}

// revocable is the client of a key that may be revoked.
type revocable struct {
	onboardingv1.APIKeyServiceClient

	refused atomic.Bool
}

// AuthenticateKey implements onboardingv1.APIKeyServiceClient.
func (r *revocable) AuthenticateKey(
	context.Context, *onboardingv1.AuthenticateKeyRequest, ...grpc.CallOption,
) (*onboardingv1.AuthenticateKeyResponse, error) {
	if r.refused.Load() {
		return nil, status.Error(codes.NotFound, "revoked")
	}
	return &onboardingv1.AuthenticateKeyResponse{}, nil
}

// TestStreamsEndWithTheirKey checks that a stream ends within five seconds after its key was revoked.
func TestStreamsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &revocable{}
		keys, err := newKeyring(client, &limits{now: time.Now}, time.Now, time.Now)
		require.NoError(t, err)
		a := &authenticator{keys: keys, tenants: allActive(t), now: time.Now}
		holder := rpc.Principal{Subject: "key:" + keyID}
		ctx, cancel := context.WithTimeout(rpc.WithPrincipal(t.Context(), holder), time.Hour)
		defer cancel()
		ended := make(chan struct{})
		go func() {
			a.awaitRefusal(ctx)
			close(ended)
		}()
		<-time.NewTimer(10 * time.Minute).C
		select {
		case <-ended:
			t.Fatal("it has ended while the key was accepted")
		default:
		}
		<-time.NewTimer(100 * time.Millisecond).C
		require.NoError(t, a.still(t.Context(), holder), "another stream has just asked, and the answer is kept")
		client.refused.Store(true)
		select {
		case <-ended:
		case <-time.NewTimer(5 * time.Second).C:
			t.Fatal("it goes on")
		}
	})
}

// TestEndedOrganisations refuses every caller of an organisation that has ended, but for the platform.
func TestEndedOrganisations(t *testing.T) {
	t.Parallel()
	ended, err := newTenants(&active{status: statusEnded}, noon)
	require.NoError(t, err)
	for _, role := range []rpc.Role{rpc.RoleOperator, rpc.RoleApp, rpc.RoleUser} {
		err := ended.check(t.Context(), rpc.Principal{Subject: "ada", OrgID: orgID, Role: role})
		require.ErrorContains(t, err, "the organisation has ended")
		require.False(t, outage(err), "it is no outage")
	}
	require.NoError(t, ended.check(t.Context(), rpc.Principal{Subject: "root", Role: rpc.RolePlatform}))

	b := setup(t)
	b.services.on("OrganisationService/GetOrganisationStatus", func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`{"status": "ended"}`), nil
	})
	status, body := b.calls(t, rpc.RoleOperator, http.MethodGet, "/v1/sessions", "r-1")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, reasonEnded)
	require.Empty(t, b.services.seen())
	status, _ = b.calls(t, rpc.RolePlatform, http.MethodGet, "/v1/organisations", "r-2")
	require.Equal(t, http.StatusOK, status)
}

// TestOutageOfOnboarding keeps what messaging answers alone while onboarding cannot be asked about an organisation that was active.
func TestOutageOfOnboarding(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var away atomic.Bool
	b.services.on("OrganisationService/GetOrganisationStatus", func(context.Context) (json.RawMessage, error) {
		if away.Load() {
			return nil, errors.New("away")
		}
		return json.RawMessage(`{"status": "active"}`), nil
	})
	at := noon()
	b.gateway.tenants.known.now = func() time.Time { return at }
	for _, step := range []struct {
		wait time.Duration
		want int
	}{{0, http.StatusOK}, {trust, http.StatusOK}, {outageTrust, http.StatusServiceUnavailable}} {
		at = at.Add(step.wait)
		status, body := b.calls(t, rpc.RoleOperator, http.MethodGet, "/v1/messages", "r")
		require.Equal(t, step.want, status, body)
		away.Store(true)
	}
}
