package rpc_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// pair is a key as openssl writes it, each half in one line.
type pair struct{ private, public string }

// keyOf is the same key for the same name.
func keyOf(t *testing.T, name string) pair {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte((name + strings.Repeat(".", ed25519.SeedSize))[:ed25519.SeedSize]))
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return pair{base64.StdEncoding.EncodeToString(private), base64.StdEncoding.EncodeToString(public)}
}

// signing are the tokens of a process with a key, at noon.
func signing(t *testing.T, process, private string) *rpc.Tokens {
	t.Helper()
	return made(t, rpc.Keys{Process: process, Signing: config.NewSecret(private)})
}

// believing are the tokens of a process that is called, at noon.
func believing(t *testing.T, public ...string) *rpc.Tokens {
	t.Helper()
	return made(t, rpc.Keys{Public: config.NewSecret(strings.Join(public, ","))})
}

func made(t *testing.T, keys rpc.Keys) *rpc.Tokens {
	t.Helper()
	tokens, err := rpc.NewTokens(keys, noon)
	require.NoError(t, err)
	return tokens
}

func operator() rpc.Principal {
	return rpc.Principal{Subject: "ada", OrgID: org, Role: rpc.RoleOperator}
}

func TestEachKeySpeaksForItsProcess(t *testing.T) {
	t.Parallel()
	gateway, onboarding, person := keyOf(t, "gateway"), keyOf(t, "onboarding"), keyOf(t, "operator")
	messaging := believing(t, "gateway="+gateway.public, "onboarding="+onboarding.public, "operator="+person.public)
	itself := func(process string) rpc.Principal { return rpc.Principal{Subject: process, Role: rpc.RoleService} }
	app := rpc.Principal{Subject: "shop", OrgID: org, Role: rpc.RoleApp}
	for _, tc := range []struct {
		name, process string
		key           pair
		may           []rpc.Principal
	}{
		{name: "TheGatewayForItselfAndForPeople", process: rpc.Gateway, key: gateway, may: []rpc.Principal{itself("gateway"), operator(), user(), app}},
		{name: "OnboardingForItselfAlone", process: rpc.Onboarding, key: onboarding, may: []rpc.Principal{itself("onboarding")}},
		{name: "AnOperatorForNoProcess", process: rpc.Operator, key: person, may: []rpc.Principal{operator(), user(), app}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range []rpc.Principal{itself("gateway"), itself("onboarding"), itself("operator"), operator(), user(), app} {
				may := false
				for _, allowed := range tc.may {
					may = may || allowed == p
				}
				_, err := signing(t, tc.process, tc.key.private).Mint(p, time.Minute)
				require.Equal(t, may, err == nil, "%s mints for %+v: %v", tc.process, p, err)

				// And a thief, who has the key and not our code.
				_, err = messaging.Verify(forged(t, tc.process, tc.key, p))
				require.Equal(t, may, err == nil, "%s is believed for %+v: %v", tc.process, p, err)
			}
		})
	}

	t.Run("TheHolderOfTheGatewaysKeyIsNotOnboarding", func(t *testing.T) {
		t.Parallel()
		for _, kid := range []string{rpc.Gateway, rpc.Onboarding, rpc.Operator, "", "messaging"} {
			_, err := messaging.Verify(forged(t, kid, gateway, itself("onboarding")))
			require.ErrorIs(t, err, rpc.ErrInvalidToken, kid)
		}
	})

	t.Run("NorIsAHolderOfThePublicKeys", func(t *testing.T) {
		t.Parallel()
		der, err := base64.StdEncoding.DecodeString(onboarding.public)
		require.NoError(t, err)
		for _, secret := range [][]byte{der, der[len(der)-ed25519.PublicKeySize:], []byte(onboarding.public)} {
			token := jwt.NewWithClaims(jwt.SigningMethodHS256, claimsOf(itself("onboarding")))
			token.Header["kid"] = rpc.Onboarding
			signed, err := token.SignedString(secret)
			require.NoError(t, err)
			_, err = messaging.Verify(signed)
			require.ErrorIs(t, err, rpc.ErrInvalidToken)
		}
	})

	t.Run("TheSharedSecretIsBelievedOnlyWhereItIs", func(t *testing.T) {
		t.Parallel()
		before := made(t, rpc.Keys{Shared: config.NewSecret(secret)})
		token, err := before.Mint(itself("onboarding"), time.Minute)
		require.NoError(t, err)
		_, err = messaging.Verify(token)
		require.ErrorIs(t, err, rpc.ErrInvalidToken)
		both := made(t, rpc.Keys{Public: config.NewSecret("onboarding=" + onboarding.public), Shared: config.NewSecret(secret)})
		_, err = both.Verify(token)
		require.NoError(t, err)
		fresh, err := signing(t, rpc.Onboarding, onboarding.private).Mint(itself("onboarding"), time.Minute)
		require.NoError(t, err)
		_, err = both.Verify(fresh)
		require.NoError(t, err)
	})
}

func claimsOf(p rpc.Principal) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "paceline", "aud": "paceline.grpc", "sub": p.Subject, "org_id": p.OrgID, "role": string(p.Role), "exp": noon().Add(time.Minute).Unix(),
	}
}

// forged is a token that claims whatever its holder likes.
func forged(t *testing.T, kid string, key pair, p rpc.Principal) string {
	t.Helper()
	der, err := base64.StdEncoding.DecodeString(key.private)
	require.NoError(t, err)
	private, err := x509.ParsePKCS8PrivateKey(der)
	require.NoError(t, err)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claimsOf(p))
	token.Header["kid"] = kid
	signed, err := token.SignedString(private)
	require.NoError(t, err)
	return signed
}

func TestAKeyIsChangedWithoutARefusedToken(t *testing.T) {
	t.Parallel()
	old, fresh := keyOf(t, "old"), keyOf(t, "fresh")
	type step struct{ from, to *rpc.Tokens }
	shared := config.NewSecret(secret)
	public := func(keys ...pair) config.Secret {
		var list []string
		for _, key := range keys {
			list = append(list, "onboarding="+key.public)
		}
		return config.NewSecret(strings.Join(list, ","))
	}
	signs := func(key pair, rest rpc.Keys) *rpc.Tokens {
		rest.Process, rest.Signing = rpc.Onboarding, config.NewSecret(key.private)
		return made(t, rest)
	}
	for name, steps := range map[string][]step{ // of docs/runbooks/key-rotation.md, in order
		"FromOneKeyToAnother": {
			{signs(old, rpc.Keys{}), made(t, rpc.Keys{Public: public(old)})},
			{signs(old, rpc.Keys{}), made(t, rpc.Keys{Public: public(old, fresh)})},
			{signs(fresh, rpc.Keys{}), made(t, rpc.Keys{Public: public(old, fresh)})},
			{signs(fresh, rpc.Keys{}), made(t, rpc.Keys{Public: public(fresh)})},
		},
		"FromTheSharedSecretToAKey": {
			{made(t, rpc.Keys{Shared: shared}), made(t, rpc.Keys{Shared: shared})},
			{made(t, rpc.Keys{Shared: shared}), made(t, rpc.Keys{Shared: shared, Public: public(fresh)})},
			{signs(fresh, rpc.Keys{Shared: shared}), made(t, rpc.Keys{Shared: shared, Public: public(fresh)})},
			{signs(fresh, rpc.Keys{}), made(t, rpc.Keys{Public: public(fresh)})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, one := range steps { // each pair of neighbours may run at the same time
				token, err := one.from.Mint(service(), time.Minute)
				require.NoError(t, err)
				for j, other := range steps {
					if _, err := other.to.Verify(token); i-j <= 1 && j-i <= 1 {
						require.NoError(t, err, "%d calls %d", i, j)
					}
				}
			}
			token, err := steps[0].from.Mint(service(), time.Minute)
			require.NoError(t, err)
			_, err = steps[3].to.Verify(token)
			require.ErrorIs(t, err, rpc.ErrInvalidToken, "the one before is over")
		})
	}
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	a, b := keyOf(t, "a"), keyOf(t, "b")
	for _, tc := range []struct {
		name, signing, public, shared string
		want                          string // of either check; empty for none
	}{
		{name: "OfTheirOwn", signing: a.private, public: "gateway=" + b.public},
		{name: "AsOpensslWritesThem", signing: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: decoded(t, a.private)})), public: "gateway=" + b.public},
		{name: "TheSharedSecretForBoth", shared: secret},
		{name: "ASharedSecretThatIsShort", shared: "short", want: "SERVICE_AUTH_SECRET must have at least 32 bytes"},
		{name: "NoSigningKey", public: "gateway=" + b.public, want: "ONBOARDING_SIGNING_KEY or SERVICE_AUTH_SECRET is missing"},
		{name: "NoPublicKeys", signing: a.private, want: "SERVICE_PUBLIC_KEYS or SERVICE_AUTH_SECRET is missing"},
		{name: "APublicKeyThatSigns", signing: a.public, public: "gateway=" + b.public, want: "ONBOARDING_SIGNING_KEY must be one private key of Ed25519"},
		{name: "APrivateKeyThatIsPublished", signing: a.private, public: "gateway=" + b.private, want: "SERVICE_PUBLIC_KEYS gateway: must be a public key of Ed25519"},
		{name: "NoBase64", signing: "!", public: "gateway=" + b.public, want: "ONBOARDING_SIGNING_KEY is neither PEM nor base64"},
		{name: "AProcessThatMakesNoCalls", signing: a.private, public: "messaging=" + b.public, want: "SERVICE_PUBLIC_KEYS must name each key's process"},
		{name: "AKeyWithoutAProcess", signing: a.private, public: b.public, want: "SERVICE_PUBLIC_KEYS must name each key's process"},
		{name: "OneKeyOfTwo", signing: a.private, public: "gateway=" + b.public + ",onboarding=" + b.public, want: "have the same key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			keys := rpc.Keys{
				Process: rpc.Onboarding, Signing: config.NewSecret(tc.signing), Public: config.NewSecret(tc.public), Shared: config.NewSecret(tc.shared),
			}
			err := keys.CheckSigning()
			if err == nil {
				err = keys.CheckPublic()
			}
			if tc.want == "" {
				require.NoError(t, err)
				_, err = rpc.NewTokens(keys, noon)
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			for _, given := range []string{tc.signing, tc.public} {
				require.True(t, len(given) < 2 || !strings.Contains(err.Error(), given), "it shows a key")
			}
		})
	}
	_, err := rpc.NewTokens(rpc.Keys{}, noon)
	require.ErrorContains(t, err, "no key")
	_, err = believing(t, "gateway="+a.public).Mint(service(), time.Minute)
	require.ErrorContains(t, err, "no signing key")
}

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	der, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return der
}

// The methods of the echo service are for onboarding and for users.
func TestAProcessMayCallWhatIsMeantForIt(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ context.Context, text string) (string, error) { return text, nil })
	for process, want := range map[string]codes.Code{rpc.Onboarding: codes.OK, rpc.Gateway: codes.PermissionDenied, "reminders": codes.PermissionDenied} {
		conn := b.dial(func(c *rpc.ClientConfig) { c.Caller = rpc.Principal{Subject: process, Role: rpc.RoleService} })
		_, err := call(t.Context(), conn, echo, "hello")
		require.Equal(t, want, status.Code(err), "%s: %v", process, err)
	}
}
