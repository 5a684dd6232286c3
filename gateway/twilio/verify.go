package twilio

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/route"
)

// accountParameter names the account that signs a callback.
const accountParameter = "AccountSid"

// verify returns the parameters once they are known to be signed by the account that they name. A form must be read before its signature
// can be checked, so one that cannot be read is a 400; of JSON, which is signed by its hash, only the account is looked at before.
func (c *Callbacks) verify(r *http.Request, body []byte) (parameters, *route.Answer) {
	signature := r.Header.Get(headerSignature)
	if signature == "" {
		return parameters{}, forged(r.Context(), "the signature is missing")
	}
	json := isJSON(r.Header.Get("Content-Type"))
	if !json && bytes.Count(body, []byte("&")) >= maxParameters { // before it is parsed: that and the signature cost by the parameter
		return parameters{}, forged(r.Context(), "it has more parameters than Twilio sends")
	}
	var form url.Values
	var unread error
	if json {
		form, unread = decodeJSON(body)
	} else if form, unread = decodeForm(r.Header.Get("Content-Type"), body); unread != nil {
		return parameters{}, new(route.Malformed(errors.New("the body is no urlencoded form")))
	}
	signed := func(s signatures) bool {
		if json {
			return s.validJSON(route.PublicURL(c.origin, r), r.URL.Query(), body, signature)
		}
		return s.valid(route.PublicURL(c.origin, r), form, signature)
	}
	byEnvironment := signed(c.signatures)
	of, refused := c.signer(r.Context(), form[accountParameter], byEnvironment, signed)
	switch {
	case refused != nil:
		return parameters{}, refused
	case unread != nil:
		return parameters{}, new(route.Malformed(unread))
	}
	return parameters{query: r.URL.RawQuery, form: form, of: of, byEnvironment: byEnvironment, signed: signed}, nil
}

// signer returns the account that signed, which is the one that is named. What the environment's token signed is the environment's if it
// names none, or one that nobody has stored, and while messaging cannot be asked, unless several organisations are known to share it.
func (c *Callbacks) signer(
	ctx context.Context, named []string, byEnvironment bool, signed func(signatures) bool,
) (account, *route.Answer) {
	environment := account{environment: true}
	switch {
	case len(named) > 1:
		return account{}, forged(ctx, "it names more than one account")
	case len(named) == 0 || !accountSID.MatchString(named[0]): // organisations cannot store it
		if byEnvironment {
			return environment, nil
		}
		return account{}, forged(ctx, errForged.Error())
	}
	for _, age := range []time.Duration{kept, again} {
		of, err := c.accounts.of(ctx, named[0], age)
		switch {
		case err != nil && byEnvironment && !of.shared():
			return environment, nil
		case err != nil:
			route.EventFrom(ctx).Cause(err)
			return account{}, new(route.Failed(err))
		case !of.known && byEnvironment:
			return environment, nil
		case !of.known:
			return account{}, unknownAccount(ctx)
		case len(of.signers(byEnvironment, signed)) > 0:
			return of, nil
		}
	}
	return account{}, forged(ctx, errForged.Error())
}

func forged(ctx context.Context, cause string) *route.Answer {
	route.EventFrom(ctx).Add(slog.String("cause", cause))
	return &route.Answer{Status: http.StatusForbidden, Err: route.Refuse(codes.PermissionDenied, route.ReasonPermissionDenied,
		"this is not signed by Twilio with our auth token, for this URL and these parameters")}
}

// unknownAccount refuses what names an account that no organisation has stored. The SID is a stranger's word and is not logged.
func unknownAccount(ctx context.Context) *route.Answer {
	route.EventFrom(ctx).Add(slog.String("cause", "the account is unknown"))
	return &route.Answer{Status: http.StatusUnauthorized, Err: route.Refuse(codes.Unauthenticated, route.ReasonUnauthenticated,
		"no organisation has stored this Twilio account: POST /v1/senders")}
}
