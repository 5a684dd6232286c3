package qstash_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
)

const (
	currentKey = "sig_current"
	nextKey    = "sig_next"
	hookURL    = "https://paceline.example/api/onboarding/step?x=1"
)

var (
	at   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	body = []byte(`{"step_id":"onboarding_message_1"}`)
)

func newVerifier(tb testing.TB) *qstash.Verifier {
	tb.Helper()
	v, err := qstash.NewVerifier(qstash.VerifierConfig{
		CurrentKey: currentKey, NextKey: nextKey, Now: func() time.Time { return at },
	})
	require.NoError(tb, err)
	return v
}

// goodClaims returns the claims of a genuine token, made without the code under test.
func goodClaims() map[string]any {
	sum := sha256.Sum256(body)
	return map[string]any{
		"iss": "Upstash", "sub": hookURL, "iat": at.Unix(), "nbf": at.Unix(), "exp": at.Unix() + 300, "jti": "jwt_1",
		"body": base64.URLEncoding.EncodeToString(sum[:]),
	}
}

// signed signs by hand, so that tests can make what no library would.
func signed(tb testing.TB, alg, key string, claims map[string]any) string {
	tb.Helper()
	part := func(v any) string {
		raw, err := json.Marshal(v)
		require.NoError(tb, err)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	text := part(map[string]string{"alg": alg, "typ": "JWT"}) + "." + part(claims)
	newHash := map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New}[alg]
	if newHash == nil {
		return text + "."
	}
	mac := hmac.New(newHash, []byte(key))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func with(name string, value any) map[string]any {
	claims := goodClaims()
	claims[name] = value
	return claims
}

func without(name string) map[string]any {
	claims := maps.Clone(goodClaims())
	delete(claims, name)
	return claims
}

func TestNewVerifier(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return at }
	for name, cfg := range map[string]qstash.VerifierConfig{
		"S1_19_NoCurrentKey": {NextKey: nextKey, Now: now},
		"S1_19_NoNextKey":    {CurrentKey: currentKey, Now: now},
		"BlankKey":           {CurrentKey: currentKey, NextKey: " ", Now: now},
		"NoClock":            {CurrentKey: currentKey, NextKey: nextKey},
		"NegativeLeeway":     {CurrentKey: currentKey, NextKey: nextKey, Now: now, Leeway: -1},
		"NothingWhatever":    {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := qstash.NewVerifier(cfg)
			require.Error(t, err)
		})
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()

	accepted := map[string]string{
		"CurrentKey":         signed(t, "HS256", currentKey, goodClaims()),
		"NotBeforeZero":      signed(t, "HS256", currentKey, with("nbf", 0)),
		"NotBeforeAbsent":    signed(t, "HS256", currentKey, without("nbf")),
		"BodyHashUnpadded":   signed(t, "HS256", currentKey, with("body", strings.TrimRight(goodClaims()["body"].(string), "="))),
		"ExpiredInLeeway":    signed(t, "HS256", currentKey, with("exp", at.Unix()-4)),
		"NotBeforeInLeeway":  signed(t, "HS256", currentKey, with("nbf", at.Unix()+4)),
		"UnknownClaimIsFine": signed(t, "HS256", currentKey, with("new", "x")),
	}
	for name, signature := range accepted {
		t.Run("Accepts"+name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, newVerifier(t).Verify(signature, body, hookURL))
		})
	}

	good := accepted["CurrentKey"]
	parts := strings.Split(good, ".")
	foreign := strings.Split(signed(t, "HS256", currentKey, with("sub", "https://else.example/")), ".")
	refused := []struct{ name, signature, body, url string }{
		{name: "S1_18_TamperedBody", signature: good, body: string(body) + " "},
		{name: "EmptyBody", signature: good, body: "-"},
		{name: "OtherURL", signature: good, url: "https://paceline.example/api/onboarding/step"},
		{name: "OtherSchemeOfURL", signature: good, url: "http" + strings.TrimPrefix(hookURL, "https")},
		{name: "EmptyURLAndSubject", signature: signed(t, "HS256", currentKey, with("sub", "")), url: "-"},
		{name: "AlgorithmNone", signature: signed(t, "none", "", goodClaims())},
		{name: "AlgorithmNoneWithSignature", signature: signed(t, "none", "", goodClaims()) + parts[2]},
		{name: "AlgorithmHS384", signature: signed(t, "HS384", currentKey, goodClaims())},
		{name: "AlgorithmHS512", signature: signed(t, "HS512", currentKey, goodClaims())},
		{name: "S1_18_EmptyKey", signature: signed(t, "HS256", "", goodClaims())},
		{name: "S1_18_ForeignKey", signature: signed(t, "HS256", "sig_old", goodClaims())},
		{name: "S0_02_SwappedClaims", signature: parts[0] + "." + foreign[1] + "." + parts[2]},
		{name: "S0_02_CutSignature", signature: good[:len(good)-2]},
		{name: "WrongIssuer", signature: signed(t, "HS256", currentKey, with("iss", "upstash"))},
		{name: "NoIssuer", signature: signed(t, "HS256", currentKey, without("iss"))},
		{name: "NoSubject", signature: signed(t, "HS256", currentKey, without("sub"))},
		{name: "NoBodyHash", signature: signed(t, "HS256", currentKey, without("body"))},
		{name: "Expired", signature: signed(t, "HS256", currentKey, with("exp", at.Unix()-6))},
		{name: "ExpiredWithNextKey", signature: signed(t, "HS256", nextKey, with("exp", at.Unix()-6))},
		{name: "NoExpiry", signature: signed(t, "HS256", currentKey, without("exp"))},
		{name: "ExpiryAsText", signature: signed(t, "HS256", currentKey, with("exp", "never"))},
		{name: "NotYetValid", signature: signed(t, "HS256", currentKey, with("nbf", at.Unix()+6))},
		{name: "NoToken", signature: "x"},
		{name: "FourParts", signature: good + ".x"},
		{name: "TooLong", signature: good + strings.Repeat("x", 9000)},
	}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pick := func(given, otherwise string) string {
				return map[string]string{"": otherwise, "-": ""}[given] + strings.TrimPrefix(given, "-")
			}
			err := newVerifier(t).Verify(c.signature, []byte(pick(c.body, string(body))), pick(c.url, hookURL))
			require.ErrorIs(t, err, qstash.ErrSignatureInvalid)
			require.NotContains(t, err.Error(), currentKey)
			require.NotContains(t, err.Error(), nextKey)
			require.NotContains(t, err.Error(), "step_id")
		})
	}

	t.Run("S0_02_AnyCharacterOfAGenuineSignatureThatIsAnother", func(t *testing.T) {
		t.Parallel()
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		v, mac := newVerifier(t), strings.LastIndex(good, ".")+1
		for i := range good {
			another := letters
			if i < mac { // of what is signed one is enough: it is the signature that notices
				another = map[bool]string{true: "B", false: "A"}[good[i] == 'A']
			}
			for _, letter := range []byte(another) {
				if letter == good[i] {
					continue
				}
				flipped := good[:i] + string(letter) + good[i+1:]
				require.ErrorIs(t, v.Verify(flipped, body, hookURL), qstash.ErrSignatureInvalid, "%c at %d: %s", letter, i, flipped)
			}
		}
	})

	t.Run("S0_04_S1_19_EitherKeyIsAcceptedWhileTheyAreRotated", func(t *testing.T) {
		t.Parallel()
		for _, key := range []string{currentKey, nextKey} {
			require.NoError(t, newVerifier(t).Verify(signed(t, "HS256", key, goodClaims()), body, hookURL))
		}
		require.ErrorIs(t, newVerifier(t).Verify(signed(t, "HS256", "sig_before", goodClaims()), body, hookURL), qstash.ErrSignatureInvalid)
	})

	t.Run("S0_03_S1_18_MissingSignature", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, newVerifier(t).Verify("", body, hookURL), qstash.ErrSignatureMissing)
	})

	t.Run("EmptyBodyHasAHashToo", func(t *testing.T) {
		t.Parallel()
		// The documented hash of nothing.
		signature := signed(t, "HS256", currentKey, with("body", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"))
		require.NoError(t, newVerifier(t).Verify(signature, nil, hookURL))
	})
}

func TestSign(t *testing.T) {
	t.Parallel()
	sign := func() string {
		signature, err := qstash.Sign(nextKey, hookURL, body, at)
		require.NoError(t, err)
		return signature
	}
	first, second := sign(), sign()
	require.NoError(t, newVerifier(t).Verify(first, body, hookURL))
	require.NotEqual(t, first, second, "every token has an id of its own")
}

// FuzzVerify asserts that whatever is accepted was signed, by the standard library's account, with one of the keys,
// for this URL and this body, and with an expiry.
func FuzzVerify(f *testing.F) {
	v := newVerifier(f)
	f.Fuzz(func(t *testing.T, signature string, body []byte, url string) {
		if err := v.Verify(signature, body, url); err != nil {
			require.True(t, signature == "" || strings.HasPrefix(err.Error(), qstash.ErrSignatureInvalid.Error()))
			return
		}
		text, mac, _ := cutLast(signature, ".")
		ours := map[string]bool{}
		for _, key := range []string{currentKey, nextKey} {
			h := hmac.New(sha256.New, []byte(key))
			h.Write([]byte(text))
			ours[string(h.Sum(nil))] = true
		}
		raw, err := base64.RawURLEncoding.DecodeString(mac)
		require.NoError(t, err)
		require.True(t, ours[string(raw)], "accepted without a key")

		_, encoded, _ := strings.Cut(text, ".")
		raw, err = base64.RawURLEncoding.DecodeString(encoded)
		require.NoError(t, err)
		var claims struct {
			Sub, Body string
			Exp       float64
		}
		require.NoError(t, json.Unmarshal(raw, &claims))
		sum := sha256.Sum256(body)
		require.Equal(t, url, claims.Sub)
		require.Equal(t, base64.RawURLEncoding.EncodeToString(sum[:]), strings.TrimRight(claims.Body, "="))
		require.Greater(t, claims.Exp, float64(at.Unix()-6))
	})
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
