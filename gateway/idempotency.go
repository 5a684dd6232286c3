package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
)

// headerIdempotencyKey names a request, so that a repeat of it is known:
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/.
const headerIdempotencyKey = "Idempotency-Key"

// maxIdempotencyKey bounds the length of a key; a service may take less.
const maxIdempotencyKey = 255

// idempotencyKey holds the key of a POST until the call, where the request's fields are known. A repeat of any other method changes
// nothing.
type idempotencyKey struct{}

// withIdempotencyKey reads the header, which is a string in quotes by the draft, and mostly sent without.
func withIdempotencyKey(ctx context.Context, r *http.Request) (context.Context, *rpc.Error) {
	given := r.Header.Values(headerIdempotencyKey)
	if len(given) == 0 {
		return ctx, nil
	}
	key := given[0]
	if inner, opened := strings.CutPrefix(key, `"`); opened {
		if unquoted, closed := strings.CutSuffix(inner, `"`); closed {
			key = unquoted
		}
	}
	foreign := strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
	if len(given) > 1 || key == "" || len(key) > maxIdempotencyKey || foreign {
		return ctx, route.Refuse(codes.InvalidArgument, route.ReasonInvalid, fmt.Sprintf(
			"the header %s must come once, with 1 to %d visible ASCII characters, and no quote or backslash within",
			headerIdempotencyKey, maxIdempotencyKey))
	}
	if r.Method != http.MethodPost {
		return ctx, nil
	}
	return context.WithValue(ctx, idempotencyKey{}, key), nil
}

// takeIdempotencyKey makes the header the row's own unique key, idempotency_key of the body. A request that has none either changes nothing
// when it is repeated, and needs none, or acts again: then the header is refused, because nothing would heed it.
func takeIdempotencyKey(ctx context.Context, rule rpc.Rule, request proto.Message) error {
	key, given := ctx.Value(idempotencyKey{}).(string)
	if !given {
		return nil
	}
	message := request.ProtoReflect()
	field := message.Descriptor().Fields().ByName("idempotency_key")
	switch {
	case field == nil && rule.ActsAgain:
		return route.Refuse(codes.InvalidArgument, route.ReasonInvalid,
			"this request keeps no keys: leave out the header "+headerIdempotencyKey+", and see what there is before you repeat it")
	case field == nil:
	case message.Get(field).String() == "":
		message.Set(field, protoreflect.ValueOfString(key))
	case message.Get(field).String() != key:
		return route.Refuse(codes.InvalidArgument, route.ReasonInvalid,
			"the header "+headerIdempotencyKey+" and idempotency_key of the body differ: send one of them")
	}
	return nil
}
