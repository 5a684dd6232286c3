package gateway

import (
	"maps"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
)

// withField adds to a service's refusal of a request the fields that it is about. Such a message has a piece for each, which begins with
// the name of the field; "; " stands between them.
func withField(err error, request proto.Message) error {
	e, ok := rpc.ErrorFrom(err)
	if !ok || e.Code != codes.InvalidArgument || e.Reason == "" || e.Meta[route.MetaField] != "" {
		return err
	}
	var found []rpc.Violation
	for piece := range strings.SplitSeq(e.Message, "; ") {
		if field := fieldOf(piece, request.ProtoReflect().Descriptor()); field != "" {
			found = append(found, rpc.Violation{Field: field, Description: piece})
		} else if last := len(found) - 1; last >= 0 {
			found[last].Description += "; " + piece
		}
	}
	if len(found) == 0 {
		return err
	}
	about := *e
	about.Meta = maps.Clone(e.Meta)
	if about.Meta == nil {
		about.Meta = map[string]string{}
	}
	about.Meta[route.MetaField] = found[0].Field
	if len(e.Fields) == 0 { // else the service has named them
		about.Fields = found
	}
	return &about
}

// fieldOf returns the field of a message that a text begins with, at once or after what was refused: "invalid request: to must be E.164".
func fieldOf(text string, d protoreflect.MessageDescriptor) string {
	_, after, _ := strings.Cut(text, ": ")
	for _, text := range []string{after, text} {
		word, _, _ := strings.Cut(text, " ")
		if word = strings.TrimRight(word, ":,"); hasField(d, word) {
			return word
		}
	}
	return ""
}

// hasField reports whether a message has a field, named as consent.source.
func hasField(d protoreflect.MessageDescriptor, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	field := d.Fields().ByTextName(name)
	return field != nil && (!deeper || field.Message() != nil && !field.IsMap() && hasField(field.Message(), rest))
}
