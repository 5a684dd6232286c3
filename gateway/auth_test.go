package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// keys are an issuer's key pairs and the URL of its JWKS.
type keys struct {
	url   string
	rsa   *rsa.PrivateKey
	ecdsa *ecdsa.PrivateKey
}

func startIssuer(t *testing.T) keys {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	storage := jwkset.NewMemoryStorage()
	for id, key := range map[string]any{"rsa": &rsaKey.PublicKey, "ecdsa": &ecdsaKey.PublicKey, "shared": []byte(jwtSecret)} {
		jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{
			Metadata: jwkset.JWKMetadataOptions{KID: id}, Marshal: jwkset.JWKMarshalOptions{Private: true},
		})
		require.NoError(t, err)
		require.NoError(t, storage.KeyWrite(t.Context(), jwk))
	}
	set, err := storage.JSONPrivate(t.Context())
	require.NoError(t, err)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(set) }))
	t.Cleanup(web.Close)
	return keys{url: web.URL, rsa: rsaKey, ecdsa: ecdsaKey}
}

func withKeyID(t *testing.T, method jwt.SigningMethod, key any, id string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = id
	signed, err := token.SignedString(key)
	require.NoError(t, err)
	return signed
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	fetched, err := newJWKS(t.Context(), slog.New(slog.DiscardHandler), issuer.url)
	require.NoError(t, err)
	publicDER, err := x509.MarshalPKIXPublicKey(&issuer.rsa.PublicKey)
	require.NoError(t, err)

	good := func(changes ...any) jwt.MapClaims {
		claims := jwt.MapClaims{"sub": "ada", "org_id": orgID, "role": "operator", "exp": noon().Add(time.Hour).Unix(), "iss": "us", "aud": "api"}
		for i := 0; i < len(changes); i += 2 {
			name, _ := changes[i].(string)
			if claims[name] = changes[i+1]; changes[i+1] == nil {
				delete(claims, name)
			}
		}
		return claims
	}
	hs := func(changes ...any) string {
		return "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(jwtSecret), good(changes...))
	}
	secret, both, keysOnly := "secret", "both", "keys"
	ada := rpc.Principal{Subject: "ada", OrgID: orgID, Role: rpc.RoleOperator}

	for _, tc := range []struct {
		name, source, header string
		problem              string
		want                 rpc.Principal
	}{
		{name: "HS256WithTheSecret", source: secret, header: hs(), want: ada},
		{name: "SchemeIsCaseInsensitive", source: secret, header: strings.Replace(hs(), "Bearer", "bearer", 1), want: ada},
		{
			name: "UserIsTheirProfile", source: secret, header: hs("sub", ownProfile, "role", "user"),
			want: rpc.Principal{Subject: ownProfile, OrgID: orgID, Role: rpc.RoleUser},
		},
		{
			name: "AppIsItsOrganisation", source: secret, header: hs("sub", "shop", "role", "app"),
			want: rpc.Principal{Subject: "shop", OrgID: orgID, Role: rpc.RoleApp},
		},
		{name: "OrganisationIsMadeCanonical", source: secret, header: hs("org_id", strings.ToUpper(orgID)), want: ada},
		{name: "RS256WithTheKeys", source: keysOnly, header: "Bearer " + withKeyID(t, jwt.SigningMethodRS256, issuer.rsa, "rsa", good()), want: ada},
		{name: "ES256WithTheKeys", source: keysOnly, header: "Bearer " + withKeyID(t, jwt.SigningMethodES256, issuer.ecdsa, "ecdsa", good()), want: ada},
		{name: "KeyWithoutAnId", source: keysOnly, header: "Bearer " + sign(t, jwt.SigningMethodRS256, issuer.rsa, good()), want: ada},
		{name: "BothSourcesTakeHS256", source: both, header: hs(), want: ada},
		{name: "BothSourcesTakeES256", source: both, header: "Bearer " + withKeyID(t, jwt.SigningMethodES256, issuer.ecdsa, "ecdsa", good()), want: ada},
		{name: "ClockMayDifferALittle", source: secret, header: hs("exp", noon().Add(-3*time.Second).Unix()), want: ada},

		{
			name: "PlatformBelongsToNoOrganisation", source: both, header: hs("role", "platform", "org_id", nil),
			want: rpc.Principal{Subject: "ada", Role: rpc.RolePlatform},
		},
		{
			name: "PlatformWithAnOrganisation", source: secret, header: hs("role", "platform"),
			problem: "a token with the role platform must have no org_id: it belongs to no organisation",
		},
		{
			name: "PlatformByTheKeys", source: both,
			header:  "Bearer " + withKeyID(t, jwt.SigningMethodRS256, issuer.rsa, "rsa", good("role", "platform", "org_id", nil)),
			problem: "a token with the role platform must be signed with API_JWT_SECRET, unless API_JWKS_PLATFORM is on",
		},
		{
			name: "SubjectOfAKey", source: secret, header: hs("sub", "key:1"),
			problem: "the token's sub must not begin with key:, as those of API keys do",
		},

		{name: "NoHeader", source: secret, problem: "send the header Authorization: Bearer <API key or JWT>"},
		{name: "OtherScheme", source: secret, header: "Basic abc", problem: "the Authorization header must be Bearer <API key or JWT>"},
		{name: "NoToken", source: secret, header: "Bearer ", problem: "the Authorization header must be Bearer <API key or JWT>"},
		{name: "HugeToken", source: secret, header: "Bearer " + strings.Repeat("x", maxToken+1), problem: "the token is too long"},
		{name: "Malformed", source: secret, header: "Bearer hunter2", problem: "the token is malformed"},
		{
			name: "OtherSecret", source: secret, header: "Bearer " + sign(t, jwt.SigningMethodHS256, []byte("another"), good()),
			problem: "the token's signature or its method is not accepted",
		},
		{
			name: "EmptySecretOfAKeysOnlyGateway", source: keysOnly, header: "Bearer " + sign(t, jwt.SigningMethodHS256, []byte{}, good()),
			problem: "the token's signature or its method is not accepted",
		},
		{
			name: "HS512", source: secret, header: "Bearer " + sign(t, jwt.SigningMethodHS512, []byte(jwtSecret), good()),
			problem: "the token's signature or its method is not accepted",
		},
		{
			name: "None", source: both, header: "Bearer " + sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()),
			problem: "the token's signature or its method is not accepted",
		},
		{
			name: "RS256WithoutKeys", source: secret, header: "Bearer " + sign(t, jwt.SigningMethodRS256, issuer.rsa, good()),
			problem: "the token's signature or its method is not accepted",
		},
		{
			name: "PublicKeyAsAnHMACSecret", source: both, header: "Bearer " + withKeyID(t, jwt.SigningMethodHS256, publicDER, "rsa", good()),
			problem: "the token's signature or its method is not accepted",
		},
		{
			name: "SharedSecretInTheKeySet", source: keysOnly, header: "Bearer " + withKeyID(t, jwt.SigningMethodHS256, []byte(jwtSecret), "shared", good()),
			problem: "the token's signature or its method is not accepted",
		},
		{
			name: "KeyOfAnotherKind", source: keysOnly, header: "Bearer " + withKeyID(t, jwt.SigningMethodRS256, issuer.rsa, "ecdsa", good()),
			problem: "the token's signature or its method is not accepted",
		},
		{name: "NoExpiry", source: secret, header: hs("exp", nil), problem: "the token lacks exp, or a configured iss or aud"},
		{name: "Expired", source: secret, header: hs("exp", noon().Add(-time.Minute).Unix()), problem: "the token has expired"},
		{name: "R_21_ExpiryAsText", source: secret, header: hs("exp", strconv.FormatInt(noon().Add(time.Hour).Unix(), 10)), problem: "the token is not accepted: exp, iat and nbf must be numbers"},
		{name: "R_21_ALifeOfADecade", source: secret, header: hs("exp", noon().AddDate(10, 0, 0).Unix()), problem: "the token is not accepted: it lives longer than 744h0m0s"},
		{name: "NotYetValid", source: secret, header: hs("nbf", noon().Add(time.Minute).Unix()), problem: "the token is not valid yet"},
		{name: "OtherIssuer", source: secret, header: hs("iss", "them"), problem: "the token's iss is not accepted"},
		{name: "NoIssuer", source: secret, header: hs("iss", nil), problem: "the token lacks exp, or a configured iss or aud"},
		{name: "OtherAudience", source: secret, header: hs("aud", "web"), problem: "the token's aud is not accepted"},
		{name: "NoSubject", source: secret, header: hs("sub", nil), problem: "the token has no sub"},
		{name: "NoOrganisation", source: secret, header: hs("org_id", nil), problem: "the token's org_id must be a UUID"},
		{name: "NilOrganisation", source: secret, header: hs("org_id", "00000000-0000-0000-0000-000000000000"), problem: "the token's org_id must be a UUID"},
		{name: "NoRole", source: secret, header: hs("role", nil), problem: "the token's role must be operator, app, user or platform"},
		{name: "ServiceIsNoRoleOfTheAPI", source: secret, header: hs("role", "service"), problem: "the token's role must be operator, app, user or platform"},
		{name: "RoleOfTheWrongType", source: secret, header: hs("role", []string{"operator"}), problem: "the token is malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := authConfig{tenants: allActive(t), issuer: "us", audience: "api", now: noon}
			if tc.source != keysOnly {
				cfg.secret = config.NewSecret(jwtSecret)
			}
			if tc.source != secret {
				cfg.jwks = fetched
			}
			a, err := newAuthenticator(cfg)
			require.NoError(t, err)

			got, err := principalOf(t, a, tc.header)

			if tc.problem != "" {
				require.EqualError(t, err, tc.problem, "the words are our own and never the token's")
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestUnknownKeyID(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	fetched, err := newJWKS(t.Context(), slog.New(slog.DiscardHandler), issuer.url)
	require.NoError(t, err)
	a, err := newAuthenticator(authConfig{jwks: fetched, tenants: allActive(t), now: noon})
	require.NoError(t, err)
	claims := jwt.MapClaims{"sub": "ada", "org_id": orgID, "role": "operator", "exp": noon().Add(time.Hour).Unix()}
	_, err = principalOf(t, a, "Bearer "+withKeyID(t, jwt.SigningMethodRS256, issuer.rsa, "other", claims))
	require.EqualError(t, err, "the token's key is not known")
}

func TestJWKS(t *testing.T) {
	t.Parallel()

	t.Run("UnreachableIssuerRefusesTokensAndIsLogged", func(t *testing.T) {
		t.Parallel()
		web := httptest.NewServer(http.NotFoundHandler())
		web.Close()
		said := new(lines)
		fetched, err := newJWKS(t.Context(), slog.New(slog.NewTextHandler(said, nil)), web.URL)
		require.NoError(t, err, "the gateway starts without its issuer")
		require.Contains(t, said.String(), "gateway.jwks_unreachable")
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		a, err := newAuthenticator(authConfig{jwks: fetched, tenants: allActive(t), now: noon})
		require.NoError(t, err)
		_, err = principalOf(t, a, "Bearer "+sign(t, jwt.SigningMethodRS256, key, jwt.MapClaims{"exp": noon().Unix() + 60}))
		require.Error(t, err)
	})

	t.Run("NeitherSecretNorKeysIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := newAuthenticator(authConfig{now: noon})
		require.EqualError(t, err, "auth: neither a secret nor a JWKS is configured")
	})

	t.Run("ARequestWithAKeyOfTheIssuerPasses", func(t *testing.T) {
		t.Parallel()
		issuer := startIssuer(t)
		b := setup(t, "API_JWT_SECRET", "", "API_JWKS_URL", issuer.url)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/v1/sessions", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+withKeyID(t, jwt.SigningMethodES256, issuer.ecdsa, "ecdsa", jwt.MapClaims{
			"sub": "ada", "org_id": orgID, "role": "operator", "exp": noon().Add(time.Hour).Unix(),
		}))
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer func() { require.NoError(t, response.Body.Close()) }()
		var answer map[string]any
		require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
		require.Equal(t, http.StatusOK, response.StatusCode, "%v", answer)
	})
}

// principalOf returns the principal of a header.
func principalOf(t *testing.T, a *authenticator, header string) (rpc.Principal, error) {
	t.Helper()
	got, err := a.caller(t.Context(), header)
	return got.Principal, err
}

// active is onboarding's answer about every organisation.
type active struct {
	onboardingv1.OrganisationServiceClient

	status string
}

// GetOrganisationStatus implements onboardingv1.OrganisationServiceClient.
func (a *active) GetOrganisationStatus(
	context.Context, *onboardingv1.GetOrganisationStatusRequest, ...grpc.CallOption,
) (*onboardingv1.GetOrganisationStatusResponse, error) {
	return &onboardingv1.GetOrganisationStatusResponse{Status: a.status}, nil
}

func allActive(t *testing.T) *tenants {
	t.Helper()
	found, err := newTenants(&active{status: "active"}, noon)
	require.NoError(t, err)
	return found
}
