package signin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

const (
	org  = "0190b2a4-0000-7000-8000-000000000001"
	key  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	next = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestCookies(t *testing.T) {
	t.Parallel()
	b, err := newBox(config.NewSecret(key))
	require.NoError(t, err)
	for _, tc := range []struct{ name, purpose, want string }{
		{name: "https", purpose: purposeSession, want: "__Host-paceline=X; Path=/; Max-Age=28800; HttpOnly; Secure; SameSite=Lax"},
		{name: "http", purpose: purposeSession, want: "paceline=X; Path=/console; Max-Age=28800; HttpOnly; SameSite=Lax"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := Cookies{box: b, Secure: tc.name == "https", Now: func() time.Time { return noon }}
			answer := httptest.NewRecorder()
			require.NoError(t, c.enter(answer, rpc.Principal{Subject: "ada", OrgID: org, Role: rpc.RoleOperator}, noon.Add(24*time.Hour)))
			set := answer.Result().Cookies()[0]
			require.ErrorIs(t, c.Set(answer, PurposeNotice, strings.Repeat("a", 3000), noon), ErrTooLong, "a browser takes 4096 bytes")
			sealed := set.Value
			set.Value = "X"
			require.Equal(t, tc.want, set.String(), "eight hours at the most")
			require.NotContains(t, sealed, "ada")
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Root, http.NoBody)
			r.AddCookie(&http.Cookie{Name: set.Name, Value: sealed})
			who, ok := c.session(r)
			require.True(t, ok)
			require.Equal(t, "ada", who.Subject)
			other := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Root, http.NoBody)
			other.AddCookie(&http.Cookie{Name: c.Cookie(purposeFlow, "", 0).Name, Value: sealed})
			require.ErrorIs(t, c.Get(other, purposeFlow, &flow{}), errSealed, "one cookie is not another")
		})
	}
}

func TestBox(t *testing.T) {
	t.Parallel()
	sealedBy := func(keys string) *box {
		b, err := newBox(config.NewSecret(keys))
		require.NoError(t, err)
		return b
	}
	old, rotated, other := sealedBy(key), sealedBy(next+","+key), sealedBy(next)
	text, err := old.seal("session", "ada")
	require.NoError(t, err)
	var got string
	require.NoError(t, rotated.open("session", text, &got))
	require.Equal(t, "ada", got)
	require.ErrorIs(t, other.open("session", text, &got), errSealed, "its key does not count any more")
	require.ErrorIs(t, old.open("link", text, &got), errSealed, "it was sealed for another purpose")
	for i := range text {
		changed := []byte(text)
		changed[i] ^= 4
		require.ErrorIs(t, old.open("session", string(changed), &got), errSealed)
	}
	for _, bad := range []string{"", "short", key + "00", "zz" + key[2:]} {
		require.Error(t, CheckKey(config.NewSecret(bad)), bad)
	}
}

func TestSignInLeadsOnlyIntoTheConsole(t *testing.T) {
	t.Parallel()
	for _, to := range []string{
		"", "https://evil.example/console", "//evil.example/console", "/v1/profiles", "/consoles", `/console\..\..`, "/console/../v1", "javascript:alert(1)",
		"/console/sign-in", "/console/sign-out", "/console/\r\nX: y",
	} {
		require.Equal(t, Root, Back(to), to)
	}
	require.Equal(t, "/console/people?q=ana", Back("/console/people?q=ana"))
}
