package rpc

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
)

// ErrPageToken is a page token that does not lead on in this list; its text is for the caller.
var ErrPageToken = errors.New("page_token")

// List is a request for one page of a list. Its other fields are the filters.
type List interface {
	proto.Message
	GetPageToken() string
}

// NextPage is the token that leads on behind a place in a list, such as an id. It is bound to the list and its filters, and else opaque:
// the place may come to be something else.
func NextPage(request List, place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(place)) + "." + listed(request)
}

// PageFrom is the place that a request's token leads on from; empty without a token. A token of the release before has no list: it is taken
// for one of any, for as long as both releases answer. ErrPageToken.
func PageFrom(request List) (place string, err error) {
	encoded, of, bound := strings.Cut(request.GetPageToken(), ".")
	if bound && of != listed(request) {
		return "", fmt.Errorf("%w is of another list or other filters; leave it out to begin again", ErrPageToken)
	}
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || bound && len(decoded) == 0 {
		return "", ForeignPage()
	}
	return string(decoded), nil
}

// ForeignPage refuses a token with a place that is not in the list.
func ForeignPage() error {
	return fmt.Errorf("%w is not one of ours; leave it out to begin again", ErrPageToken)
}

// listed is short for a list and its filters. It protects nothing: it keeps a client that changed a filter from getting the end of another
// list.
func listed(request List) string {
	filters := proto.Clone(request).ProtoReflect()
	fields := filters.Descriptor().Fields()
	filters.Clear(fields.ByName("page_token"))
	if size := fields.ByName("page_size"); size != nil {
		filters.Clear(size)
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(filters.Interface())
	if err != nil { // text that is not UTF-8, which no request that came over the wire has
		encoded = nil
	}
	sum := sha256.Sum256(append([]byte(filters.Descriptor().FullName()), encoded...))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}
