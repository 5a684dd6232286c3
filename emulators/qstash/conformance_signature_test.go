package qstash_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func item20SignatureClaims(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.dest.answersStatus(500, 200)
	m := r.message("a")
	m.Retries, m.RetryDelay, m.Delay = 1, "2000", time.Second
	r.publish(m)
	r.run(time.Minute)

	got := r.dest.received()
	require.Len(t, got, 2)
	ids := map[any]bool{}
	for i, at := range []time.Duration{time.Second, 3 * time.Second} {
		header, claims := decodeToken(t, got[i].header.Get(qstash.HeaderSignature), emulator.DevCurrentKey)
		require.Equal(t, map[string]any{"alg": "HS256", "typ": "JWT"}, header)
		hash := sha256.Sum256(m.Body)
		issued := start.Add(at).Unix()
		ids[claims["jti"]] = true
		require.Regexp(t, "^jwt_.+", claims["jti"])
		delete(claims, "jti")
		require.Equal(t, map[string]any{
			"iss": "Upstash", "sub": m.Destination, "body": base64.URLEncoding.EncodeToString(hash[:]),
			"iat": float64(issued), "nbf": float64(issued), "exp": float64(issued + 300),
		}, claims)
	}
	require.Len(t, ids, 2, "an id of its own for every attempt")
}

// decodeToken checks the HMAC with the standard library alone, so that it is no mirror of the code under test.
func decodeToken(t *testing.T, token, key string) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	require.Equal(t, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), parts[2])
	for i, into := range []*map[string]any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, into))
	}
	return header, claims
}

func (r *rig) verifier(keys qstash.Keys) *qstash.Verifier {
	r.t.Helper()
	v, err := qstash.NewVerifier(qstash.VerifierConfig{CurrentKey: keys.Current, NextKey: keys.Next, Now: r.clock.Now})
	require.NoError(r.t, err)
	return v
}

func item21VerifierAcceptsDeliveries(t *testing.T) {
	t.Parallel()
	r := setup(t)
	v := r.verifier(qstash.Keys{Current: emulator.DevCurrentKey, Next: emulator.DevNextKey})
	m := r.message("a")
	m.Destination = r.dest.url + "/hook?x=1&y=%20"
	r.publish(m)
	r.idle()
	got := r.dest.only(t)
	signature := got.header.Get(qstash.HeaderSignature)

	require.NoError(t, v.Verify(signature, got.body, m.Destination))
	require.ErrorIs(t, v.Verify(signature, append(got.body, ' '), m.Destination), qstash.ErrSignatureInvalid)
	require.ErrorIs(t, v.Verify(signature, got.body, m.Destination+"&z=1"), qstash.ErrSignatureInvalid)
	r.clock.Advance(306 * time.Second)
	require.ErrorIs(t, v.Verify(signature, got.body, m.Destination), qstash.ErrSignatureInvalid)
}

func item22KeyRotation(t *testing.T) {
	t.Parallel()
	r := setup(t)
	before, err := r.client.Keys(t.Context())
	require.NoError(t, err)
	rotate := func() qstash.Keys {
		status, answer := r.raw(http.MethodPost, "/v2/keys/rotate", nil, "")
		require.Equal(t, 200, status)
		return qstash.Keys{Current: fmt.Sprint(answer["current"]), Next: fmt.Sprint(answer["next"])}
	}
	deliver := func(id string) (signature string) {
		r.publish(r.message(id))
		r.idle()
		all := r.dest.received()
		return all[len(all)-1].header.Get(qstash.HeaderSignature)
	}
	m := r.message("")

	once := rotate()
	require.Equal(t, before.Next, once.Current)
	require.NotContains(t, []string{before.Current, before.Next}, once.Next)
	require.NoError(t, r.verifier(before).Verify(deliver("once"), m.Body, m.Destination), "signed at once with what was next")

	rotate()
	require.ErrorIs(t, r.verifier(before).Verify(deliver("twice"), m.Body, m.Destination), qstash.ErrSignatureInvalid,
		"two rotations leave an old deployment behind")
	require.NoError(t, r.verifier(once).Verify(deliver("redeployed"), m.Body, m.Destination))
}
