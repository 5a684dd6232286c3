package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/emulators/clock"
	"paceline.internal/gateway/stream"
	"paceline.internal/platform/rpc"
)

func TestRate(t *testing.T) {
	t.Parallel()

	t.Run("IsABurstAfterARestAndThenOneASlot", func(t *testing.T) {
		t.Parallel()
		rate := Rate{perSecond: 4, burst: 3}
		var whole time.Time // of a caller that is not known
		now := noon()
		for left := 2; left >= 0; left-- {
			require.LessOrEqual(t, rate.wait(whole, now), time.Duration(0))
			whole = rate.spend(whole, now)
			require.Equal(t, left, rate.left(whole, now))
		}
		require.Equal(t, 250*time.Millisecond, rate.wait(whole, now))
		require.Equal(t, time.Millisecond, rate.wait(whole, now.Add(249*time.Millisecond)))
		require.Zero(t, rate.left(whole, now.Add(249*time.Millisecond)))
		require.LessOrEqual(t, rate.wait(whole, now.Add(250*time.Millisecond)), time.Duration(0))
		require.Equal(t, 1, rate.left(whole, now.Add(250*time.Millisecond)))
		require.Equal(t, 1, rate.resets(whole, now))
		require.Zero(t, rate.resets(whole, now.Add(time.Hour)))
		require.Equal(t, 3, rate.left(whole, now.Add(time.Hour)), "a long rest saves up no more than the burst")
	})

	t.Run("NeverLetsMoreThanBurstAndRateThroughInAnyWindow", func(t *testing.T) {
		t.Parallel()
		rate := Rate{perSecond: 7, burst: 5}
		var whole time.Time
		var taken []time.Time
		now := noon()
		for i := range 900 { // far faster than the rate, in an uneven beat
			now = now.Add(time.Duration(i*i%97) * time.Millisecond)
			if rate.wait(whole, now) <= 0 {
				whole = rate.spend(whole, now)
				taken = append(taken, now)
			}
		}
		require.Greater(t, len(taken), 7*20)
		for i := range taken {
			for j := i; j < len(taken); j++ {
				require.LessOrEqual(t, j-i+1, 5+int(taken[j].Sub(taken[i])/rate.slot()))
			}
		}
	})

	for _, tt := range []struct {
		name, text, want string
		window           int
	}{
		{name: "BothNumbers", text: "100:500", want: "100:500", window: 5},
		{name: "AWindowIsWholeSeconds", text: "4:6", want: "4:6", window: 2},
		{name: "ARateAloneIsItsBurst", text: "100", want: "100:100", window: 1},
		{name: "NoLimit", text: "0", want: "0:0"},
		{name: "RefusesABurstOfNone", text: "100:0"},
		{name: "RefusesARateOfNone", text: "0:100"},
		{name: "RefusesTheNegative", text: "-1:5"},
		{name: "RefusesTheHuge", text: "2000000"},
		{name: "RefusesWords", text: "100/s"},
	} {
		t.Run("Reads"+tt.name, func(t *testing.T) {
			t.Parallel()
			env := environ()
			env["API_RATE_ORG"] = tt.text
			cfg, err := LoadConfig(env)
			if tt.want == "" {
				require.ErrorContains(t, err, "API_RATE_ORG is malformed: must be requests a second")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, cfg.RateOrg.String())
			if tt.want == "0:0" {
				require.True(t, cfg.RateOrg.off())
				return
			}
			require.Equal(t, tt.window, cfg.RateOrg.window())
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	const jobs = "/v1/webhook-jobs"

	serve := func(t *testing.T, org, token string) (*bench, *clock.Settable) {
		t.Helper()
		b, machine := setup(t, "API_RATE_ORG", org, "API_RATE_TOKEN", token), clock.NewSettable(noon())
		b.gateway.limits.now = machine.Now
		return b, machine
	}
	as := func(t *testing.T, org, role, subject string, life time.Duration) map[string]string {
		t.Helper()
		return map[string]string{"Authorization": "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(jwtSecret), jwt.MapClaims{
			"sub": subject, "org_id": org, "role": role, "exp": noon().Add(life).Unix(),
		})}
	}
	standing := func(r *http.Response) [3]any {
		return [3]any{r.StatusCode, r.Header.Get("RateLimit-Policy"), r.Header.Get("RateLimit")}
	}

	t.Run("EveryAnswerSaysHowTheCallerStands", func(t *testing.T) {
		t.Parallel()
		b, machine := serve(t, "10:20", "2:3")
		const policy = `"org";q=20;w=2, "token";q=3;w=2`
		require.Equal(t, [3]any{http.StatusOK, policy, `"org";r=19;t=1, "token";r=2;t=1`}, standing(b.asks(t, http.MethodGet, jobs, nil)))
		require.Equal(t, [3]any{http.StatusOK, policy, `"org";r=18;t=1, "token";r=1;t=1`}, standing(b.asks(t, http.MethodHead, jobs, nil)))
		require.Equal(t, [3]any{http.StatusNotFound, policy, `"org";r=17;t=1, "token";r=0;t=2`}, standing(b.asks(t, http.MethodGet, "/v1/nothing", nil)))
		machine.Advance(time.Minute)
		require.Equal(t, [3]any{http.StatusOK, policy, `"org";r=19;t=1, "token";r=2;t=1`}, standing(b.asks(t, http.MethodGet, jobs, nil)))
	})

	t.Run("WhatIsBeyondIsRefusedAndReachesNoService", func(t *testing.T) {
		t.Parallel()
		b, machine := serve(t, "0", "1:2")
		for range 2 {
			require.Equal(t, http.StatusOK, b.asks(t, http.MethodGet, jobs, nil).StatusCode)
		}
		refused := b.asks(t, http.MethodGet, jobs, nil)
		require.Equal(t, [3]any{http.StatusTooManyRequests, `"token";q=2;w=2`, `"token";r=0;t=2`}, standing(refused))
		require.Equal(t, "1", refused.Header.Get("Retry-After"))
		var said struct {
			Code    int
			Details []struct{ Reason string }
		}
		body, err := io.ReadAll(refused.Body)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, &said))
		require.Equal(t, 8, said.Code)
		require.Equal(t, "REASON_RATE_LIMITED", said.Details[0].Reason)
		require.Len(t, b.services.seen(), 2)
		require.Equal(t, map[string]int64{"token": 1}, b.limited(t))
		machine.Advance(time.Second)
		require.Equal(t, http.StatusOK, b.asks(t, http.MethodGet, jobs, nil).StatusCode, "Retry-After was true")
		b.stop()
		require.Contains(t, b.log.String(), `"reason":"REASON_RATE_LIMITED"`)
	})

	t.Run("ACallerIsWhoTheTokenNamesAndNotItsBytes", func(t *testing.T) {
		t.Parallel()
		b, _ := serve(t, "0", "1:1")
		for _, call := range []struct {
			as   map[string]string
			want int
		}{
			{as(t, orgID, "operator", "ada", time.Hour), http.StatusOK},
			{as(t, orgID, "operator", "ada", 2*time.Hour), http.StatusTooManyRequests},
			{as(t, orgID, "operator", "grace", time.Hour), http.StatusOK},
			{as(t, orgID, "app", "ada", time.Hour), http.StatusOK},
			{as(t, otherProfile, "operator", "ada", time.Hour), http.StatusOK},
		} {
			require.Equal(t, call.want, b.asks(t, http.MethodGet, "/v1/sessions", call.as).StatusCode)
		}
	})

	t.Run("AnOrganisationIsAllItsCallersTogetherAndNoOther", func(t *testing.T) {
		t.Parallel()
		b, _ := serve(t, "1:2", "1:2")
		require.Equal(t, http.StatusOK, b.asks(t, http.MethodGet, jobs, as(t, orgID, "operator", "ada", time.Hour)).StatusCode)
		require.Equal(t, http.StatusOK, b.asks(t, http.MethodGet, jobs, as(t, orgID, "operator", "grace", time.Hour)).StatusCode)
		refused := b.asks(t, http.MethodGet, jobs, as(t, orgID, "operator", "ada", time.Hour))
		require.Equal(t, [3]any{http.StatusTooManyRequests, `"org";q=2;w=2, "token";q=2;w=2`, `"org";r=0;t=2, "token";r=1;t=1`},
			standing(refused), "what one limit refuses counts against none")
		require.Equal(t, http.StatusOK, b.asks(t, http.MethodGet, jobs, as(t, otherProfile, "operator", "ada", time.Hour)).StatusCode)
		require.Equal(t, map[string]int64{"org": 1, "token": 0}, b.limited(t))
	})

	t.Run("AStreamCountsOnceWhenItIsOpened", func(t *testing.T) {
		t.Parallel()
		b, _ := serve(t, "0", "1:1")
		first := b.asks(t, http.MethodGet, stream.PathEvents+"?nonsense=1", nil)
		require.Equal(t, [3]any{http.StatusBadRequest, `"token";q=1;w=1`, `"token";r=0;t=1`}, standing(first))
		require.Equal(t, http.StatusTooManyRequests, b.asks(t, http.MethodGet, stream.PathEvents, nil).StatusCode)
	})

	t.Run("RefusedTokensCountForNoCaller", func(t *testing.T) {
		t.Parallel()
		b, _ := serve(t, "1:1", "1:1")
		stranger := b.asks(t, http.MethodGet, jobs, map[string]string{"Authorization": "Bearer x"})
		require.Equal(t, [3]any{http.StatusUnauthorized, "", ""}, standing(stranger))
		require.Equal(t, http.StatusOK, b.asks(t, http.MethodGet, jobs, nil).StatusCode)
	})

	t.Run("WithoutLimitsNothingIsSaidOfThem", func(t *testing.T) {
		t.Parallel()
		b, _ := serve(t, "0", "0")
		require.Equal(t, [3]any{http.StatusOK, "", ""}, standing(b.asks(t, http.MethodGet, jobs, nil)))
	})

	t.Run("PagesMayReadHowTheyStand", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "CORS_ORIGINS", "https://shop.example")
		answer := b.asks(t, http.MethodGet, jobs, map[string]string{"Origin": "https://shop.example"})
		require.Contains(t, answer.Header.Get("Access-Control-Expose-Headers"), "Ratelimit-Policy, Ratelimit")
		require.Contains(t, answer.Header.Get("RateLimit-Policy"), `"token";q=`, "there are limits without a word")
	})

	t.Run("NoMoreCallersAreRememberedThanThereIsRoomFor", func(t *testing.T) {
		t.Parallel()
		ls, err := newLimits(Rate{}, Rate{perSecond: 1, burst: 1}, noop.Meter{}, noon)
		require.NoError(t, err)
		for i := range maxCallers + 10 {
			by, _ := ls.count(http.Header{}, rpc.Principal{OrgID: orgID, Role: rpc.RoleUser, Subject: fmt.Sprint(i)})
			require.Nil(t, by)
		}
		require.Equal(t, maxCallers, ls.limits[0].callers.Len())
		require.False(t, ls.limits[0].callers.Contains(sha256.Sum256([]byte(orgID+" user 0"))), "the one that has not called for longest")
		require.True(t, ls.limits[0].callers.Contains(sha256.Sum256([]byte(orgID+" user 10"))))
	})
}

// limited returns the number of requests that each limit has refused.
func (b *bench) limited(t *testing.T) map[string]int64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, b.measured.Collect(t.Context(), &got))
	counts := map[string]int64{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != "paceline_api_rate_limited_total" {
				continue
			}
			for _, point := range sum.DataPoints {
				name, _ := point.Attributes.Value("limit")
				counts[name.AsString()] = point.Value
			}
		}
	}
	return counts
}
