package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/apikey"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// subjectOfKeys begins the subject of a caller with an API key; its id follows. No JWT may have such a sub.
const subjectOfKeys = "key:"

// lookupRate bounds the look-ups of keys that are not known to be accepted, and of accounts of Twilio that are not known, for one network:
// anybody can make up some that are well formed.
var lookupRate = Rate{perSecond: 200, burst: 1000}

// refusedLookup tells a refusal of lookupRate from one of onboarding.
type refusedLookup struct{ cause *rpc.Error }

func (r *refusedLookup) Error() string { return r.cause.Error() }

var errKey = errors.New("the API key is not accepted: it is unknown, was revoked or has expired")

// caller is the principal of a bearer token, and the end of the token.
type caller struct {
	rpc.Principal

	expires time.Time
}

// keyring finds the holders of API keys.
type keyring struct {
	client   onboardingv1.APIKeyServiceClient
	known    *lookups[caller]
	attempts *limits
	now      func() time.Time
}

func newKeyring(client onboardingv1.APIKeyServiceClient, attempts *limits, machine, now func() time.Time) (*keyring, error) {
	known, err := newLookups[caller](machine)
	return &keyring{client: client, known: known, attempts: attempts, now: now}, err
}

// caller finds the holder of a key. A key that is malformed is refused without a look-up.
func (k *keyring) caller(ctx context.Context, key string) (caller, error) {
	hash, err := apikey.Parse(key)
	if err != nil {
		return caller{}, err
	}
	return k.find(ctx, "hash:"+hex.EncodeToString(hash[:]), &onboardingv1.AuthenticateKeyRequest{Sha256: hash[:]})
}

// still reports whether the key of a caller is accepted; nil of a caller without one.
func (k *keyring) still(ctx context.Context, p rpc.Principal) error {
	id, ok := strings.CutPrefix(p.Subject, subjectOfKeys)
	if !ok {
		return nil
	}
	_, err := k.find(ctx, "id:"+id, &onboardingv1.AuthenticateKeyRequest{ApiKeyId: id})
	return err
}

func (k *keyring) find(ctx context.Context, name string, in *onboardingv1.AuthenticateKeyRequest) (caller, error) {
	found, err := k.known.find(ctx, name, func(ctx context.Context) (caller, error) {
		if !k.known.accepted(name) { // a stranger of the same network does not lock out a key that is in use
			if tooMany := k.attempts.take(ctx, http.Header{}, rpc.Principal{Client: route.ClientFrom(ctx)}); tooMany != nil {
				return caller{}, &refusedLookup{tooMany}
			}
		}
		out, err := k.client.AuthenticateKey(ctx, in)
		if err != nil {
			return caller{}, err
		}
		who := caller{Principal: rpc.Principal{
			Subject: subjectOfKeys + out.GetApiKeyId(), OrgID: out.GetOrgId(), Role: rpc.Role(out.GetRole()),
		}, expires: k.now().Add(longestLife)}
		if at := out.GetExpiresAt(); at != nil && at.AsTime().Before(who.expires) {
			who.expires = at.AsTime()
		}
		return who, nil
	}, func(err error) bool { return status.Code(err) == codes.NotFound })
	tooMany, ok := errors.AsType[*refusedLookup](err)
	switch {
	case ok:
		return caller{}, tooMany.cause
	case status.Code(err) == codes.NotFound:
		return caller{}, errKey
	case err != nil:
		route.EventFrom(ctx).Cause(err)
		return caller{}, unchecked()
	case !k.now().Before(found.expires):
		return caller{}, errKey
	}
	return found, nil
}

// unchecked refuses a caller about whom onboarding could not be asked.
func unchecked() error {
	e := route.Refuse(codes.Unavailable, route.ReasonUnavailable, "the caller cannot be checked right now; try again")
	e.RetryAfter = time.Second
	return e
}
