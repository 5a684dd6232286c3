package rpc_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

const secret = "0123456789abcdef0123456789abcdef"

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// tokensAt are tokens on a clock that stands still.
func tokensAt(t *testing.T, now time.Time) *rpc.Tokens {
	t.Helper()
	made, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret(secret)}, func() time.Time { return now })
	require.NoError(t, err)
	return made
}

func TestTokens(t *testing.T) {
	t.Parallel()
	now, at := noon(), func(now time.Time) *rpc.Tokens { return tokensAt(t, now) }

	t.Run("SpeakForThePrincipalTheyWereMintedFor", func(t *testing.T) {
		t.Parallel()
		for _, p := range []rpc.Principal{service(), user(), {Subject: "op", OrgID: org, Role: rpc.RoleOperator}} {
			token, err := at(now).Mint(p, 5*time.Minute)
			require.NoError(t, err)
			got, err := at(now.Add(4 * time.Minute)).Verify(token)
			require.NoError(t, err)
			require.Equal(t, p, got)
		}
	})

	t.Run("CarryTheDocumentedClaims", func(t *testing.T) {
		t.Parallel()
		token, err := at(now).Mint(user(), 5*time.Minute)
		require.NoError(t, err)
		got := jwt.MapClaims{}
		_, _, err = jwt.NewParser().ParseUnverified(token, got)
		require.NoError(t, err)
		require.Equal(t, jwt.MapClaims{
			"iss": "paceline", "aud": []any{"paceline.grpc"}, "sub": user().Subject, "org_id": org, "role": "user",
			"iat": float64(now.Unix()), "exp": float64(now.Add(5 * time.Minute).Unix()),
		}, got)
	})

	t.Run("AShortSecretIsRefused", func(t *testing.T) {
		t.Parallel()
		for _, short := range []string{strings.Repeat("x", 31), secret + "," + strings.Repeat("x", 31)} {
			_, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret(short)}, func() time.Time { return now })
			require.ErrorContains(t, err, "SERVICE_AUTH_SECRET must have at least 32 bytes (make one with: openssl rand -hex 32")
		}
		_, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret(secret + ",")}, func() time.Time { return now })
		require.ErrorContains(t, err, "SERVICE_AUTH_SECRET has an empty secret")
	})

	t.Run("ASecretIsChangedWithoutARefusedToken", func(t *testing.T) {
		t.Parallel()
		fresh := strings.Repeat("f", 32)
		with := func(secrets string) *rpc.Tokens {
			made, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret(secrets)}, func() time.Time { return now })
			require.NoError(t, err)
			return made
		}
		// Each pair may run at the same time: the one step of the runbook, and the next.
		steps := []*rpc.Tokens{with(secret), with(secret + "," + fresh), with(fresh + ", " + secret), with(fresh)}
		for i, from := range steps {
			token, err := from.Mint(service(), time.Minute)
			require.NoError(t, err)
			for j, to := range steps {
				_, err := to.Verify(token)
				if i-j <= 1 && j-i <= 1 {
					require.NoError(t, err, "%d calls %d", i, j)
				}
			}
		}
		token, err := with(secret).Mint(service(), time.Minute)
		require.NoError(t, err)
		_, err = with(fresh).Verify(token)
		require.ErrorIs(t, err, rpc.ErrInvalidToken)
	})

	t.Run("APrincipalThatMeansNothingGetsNone", func(t *testing.T) {
		t.Parallel()
		for _, p := range []rpc.Principal{
			{},
			{Subject: "x", OrgID: org},
			{Subject: "x", OrgID: org, Role: "root"},
			{OrgID: org, Role: rpc.RoleUser},
			{Subject: "x", Role: rpc.RoleUser},
			{Subject: "x", Role: rpc.RoleOperator},
			{Subject: "x", OrgID: "acme", Role: rpc.RoleService},
		} {
			_, err := at(now).Mint(p, time.Minute)
			require.Error(t, err, "%+v", p)
		}
		_, err := at(now).Mint(service(), 0)
		require.ErrorContains(t, err, "no lifetime")
	})
}

func TestVerify(t *testing.T) {
	t.Parallel()
	now := noon()
	valid := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := jwt.MapClaims{
			"iss": "paceline", "aud": "paceline.grpc", "sub": "op", "org_id": org, "role": "operator",
			"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		}
		change(c)
		return c
	}
	for _, tc := range []struct {
		name   string
		method jwt.SigningMethod
		key    any
		claims jwt.MapClaims
		want   bool
	}{
		{name: "Complete", want: true, claims: valid(func(jwt.MapClaims) {})},
		{name: "ExpiredWithinTheLeeway", want: true, claims: valid(func(c jwt.MapClaims) { c["exp"] = now.Add(-4 * time.Second).Unix() })},
		{name: "Expired", claims: valid(func(c jwt.MapClaims) { c["exp"] = now.Add(-6 * time.Second).Unix() })},
		{name: "WithoutExpiry", claims: valid(func(c jwt.MapClaims) { delete(c, "exp") })},
		{name: "R_21_ExpiryAsText", claims: valid(func(c jwt.MapClaims) { c["exp"] = strconv.FormatInt(now.Add(time.Minute).Unix(), 10) })},
		{name: "R_21_ALifeOfAWeek", claims: valid(func(c jwt.MapClaims) { c["exp"] = now.Add(7 * 24 * time.Hour).Unix() })},
		{name: "R_21_ALongLifeThatIsNearlyOver", claims: valid(func(c jwt.MapClaims) { c["iat"] = now.Add(-7 * 24 * time.Hour).Unix() })},
		{name: "R_21_ForAnotherAudience", claims: valid(func(c jwt.MapClaims) { c["aud"] = "api" })},
		{name: "WithoutAudience", claims: valid(func(c jwt.MapClaims) { delete(c, "aud") })},
		{name: "IssuedInTheFuture", claims: valid(func(c jwt.MapClaims) { c["iat"] = now.Add(time.Minute).Unix() })},
		{name: "OfAnotherIssuer", claims: valid(func(c jwt.MapClaims) { c["iss"] = "qstash" })},
		{name: "WithoutIssuer", claims: valid(func(c jwt.MapClaims) { delete(c, "iss") })},
		{name: "WithoutSubject", claims: valid(func(c jwt.MapClaims) { delete(c, "sub") })},
		{name: "WithoutOrganisation", claims: valid(func(c jwt.MapClaims) { delete(c, "org_id") })},
		{name: "WithAnOrganisationThatIsNoUUID", claims: valid(func(c jwt.MapClaims) { c["org_id"] = "acme" })},
		{name: "WithoutRole", claims: valid(func(c jwt.MapClaims) { delete(c, "role") })},
		{name: "WithAnUnknownRole", claims: valid(func(c jwt.MapClaims) { c["role"] = "root" })},
		{name: "SignedWithAnotherKey", key: []byte(strings.Repeat("x", 32)), claims: valid(func(jwt.MapClaims) {})},
		{name: "SignedWithTheEmptyKey", key: []byte{}, claims: valid(func(jwt.MapClaims) {})},
		{name: "SignedWithHS512", method: jwt.SigningMethodHS512, claims: valid(func(jwt.MapClaims) {})},
		{name: "Unsigned", method: jwt.SigningMethodNone, key: jwt.UnsafeAllowNoneSignatureType, claims: valid(func(jwt.MapClaims) {})},
	} {
		t.Run("Verify/"+tc.name, func(t *testing.T) {
			t.Parallel()
			var method jwt.SigningMethod = jwt.SigningMethodHS256
			if tc.method != nil {
				method = tc.method
			}
			var key any = []byte(secret)
			if tc.key != nil {
				key = tc.key
			}
			token, err := jwt.NewWithClaims(method, tc.claims).SignedString(key)
			require.NoError(t, err)

			_, err = tokensAt(t, now).Verify(token)

			if tc.want {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, rpc.ErrInvalidToken)
			require.NotContains(t, err.Error(), token)
		})
	}
}
