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

// withField adds to a service's refusal of a request the field that it is about. Such a message begins with the name of the field.
func withField(err error, request proto.Message) error {
	e, ok := rpc.ErrorFrom(err)
	if !ok || e.Code != codes.InvalidArgument || e.Reason == "" || e.Meta[route.MetaField] != "" {
		return err
	}
	_, after, _ := strings.Cut(e.Message, ": ") // of messaging
	for _, text := range []string{e.Message, after} {
		word, _, _ := strings.Cut(text, " ")
		if word = strings.TrimRight(word, ":,"); hasField(request.ProtoReflect().Descriptor(), word) {
			about := *e
			about.Meta = maps.Clone(e.Meta)
			if about.Meta == nil {
				about.Meta = map[string]string{}
			}
			about.Meta[route.MetaField] = word
			return &about
		}
	}
	return err
}

// hasField reports whether a message has a field, named as consent.source.
func hasField(d protoreflect.MessageDescriptor, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	field := d.Fields().ByTextName(name)
	return field != nil && (!deeper || field.Message() != nil && !field.IsMap() && hasField(field.Message(), rest))
}
