package operations

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	keysShown = 50
	// longestKey bounds the days until a key expires: a typo makes none that outlives its owner.
	longestKey = 3660
)

// keysPage is the data of pages/keys.html.
type keysPage struct {
	Keys []apiKey
	Next string // the address of the next page; empty on the last
}

// apiKey is a key with its state.
type apiKey struct {
	*onboardingv1.APIKey

	State string // active, revoked or expired
}

// keys lists the API keys of the organisation.
func (p *Pages) keys(r *http.Request) (Page, error) {
	out, err := p.Keys.ListKeys(r.Context(), &onboardingv1.ListKeysRequest{PageSize: keysShown, PageToken: r.Form.Get("page")})
	if err != nil {
		return Page{}, err
	}
	shown := keysPage{}
	for _, k := range out.GetApiKeys() {
		state := "active"
		switch {
		case k.GetRevokedAt() != nil:
			state = "revoked"
		case k.GetExpiresAt() != nil && !k.GetExpiresAt().AsTime().After(p.Now()):
			state = "expired"
		}
		shown.Keys = append(shown.Keys, apiKey{k, state})
	}
	if token := out.GetNextPageToken(); token != "" {
		shown.Next = p.Root + "/keys?" + url.Values{"page": {token}}.Encode()
	}
	return Page{"keys", "keys.title", shown}, nil
}

// makeKey makes a key, and has it shown once.
func (p *Pages) makeKey(r *http.Request) (Notice, error) {
	kept := Notice{Typed: typed(r, "name", "role", "days")}
	in := &onboardingv1.CreateKeyRequest{Name: strings.TrimSpace(r.Form.Get("name")), Role: r.Form.Get("role")}
	if text := strings.TrimSpace(r.Form.Get("days")); text != "" {
		days, err := strconv.Atoi(text)
		if err != nil || days < 1 || days > longestKey {
			return kept, errNumber
		}
		in.ExpiresAt = timestamppb.New(p.Now().Add(time.Duration(days) * 24 * time.Hour))
	}
	made, err := p.Keys.CreateKey(r.Context(), in)
	if err != nil {
		return kept, err
	}
	n := said("keys.made")
	n.Secret = made.GetKey()
	return n, nil
}

// revokeKey has a key refused.
func (p *Pages) revokeKey(r *http.Request) (Notice, error) {
	_, err := p.Keys.RevokeKey(r.Context(), &onboardingv1.RevokeKeyRequest{ApiKeyId: r.PathValue("key")})
	return said("keys.revoked"), err
}
