package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"paceline.internal/platform/rpc"
)

const mustBeATime = "must be a time in RFC 3339, such as 2026-11-20T12:00:00Z"

// mark begins the texts of fault. The generated code passes on an error's text alone, and the library's texts speak of Go.
const mark = "\x00"

// fault makes the error of one field of a request, or of the whole body when field is empty.
func fault(field, must string) error { return errors.New(mark + field + mark + must) }

// libraryFault finds the field in grpc-gateway's errors about a query or a path.
var libraryFault = regexp.MustCompile(`^(?:parsing (?:field|list) "|` +
	`too many values for field "|type mismatch, parameter: |missing parameter )(\w+)`)

// goWords match the texts that a library wrote for Go programmers.
var goWords = regexp.MustCompile(`strconv|proto:|syntax error|unexpected EOF|` +
	`^(parsing|invalid path|field already|duplicate|no value|unsupported|failed to)|\bu?int(32|64)\b`)

// unread returns the error of a request that the generated code could not read: the field, and what it must be.
func unread(text string) *rpc.Error {
	field, must := "", text // by a service
	if goWords.MatchString(text) {
		must = "the query or the path cannot be read; see /openapi.yaml"
	}
	if parts := strings.SplitN(text, mark, 3); len(parts) == 3 && parts[0] == "" {
		field, must = parts[1], parts[2]
	} else if found := libraryFault.FindStringSubmatch(text); found != nil {
		field, must = found[1], mustOf(text)
	}
	e := Refuse(codes.InvalidArgument, ReasonInvalid, must)
	switch unknown, ok := strings.CutPrefix(must, mark); {
	case ok:
		e.Message, e.Meta = unknown, map[string]string{MetaField: field}
	case field != "":
		e.Message, e.Meta = field+" "+must, map[string]string{MetaField: field}
	}
	return e
}

func mustOf(text string) string {
	switch {
	case strings.HasPrefix(text, "too many values"):
		return "must be given once"
	case strings.HasPrefix(text, "missing parameter"):
		return "is missing"
	case strings.Contains(text, "parsing time"):
		return mustBeATime
	case strings.Contains(text, "ParseBool"):
		return "must be true or false"
	case strings.Contains(text, "ParseInt"), strings.Contains(text, "ParseUint"):
		return "must be a whole number in the range of the field"
	case strings.Contains(text, "ParseFloat"):
		return "must be a number"
	}
	return "must be a value that /openapi.yaml allows"
}

// Plain returns the text of a fault, for a reader who gets no fields.
func Plain(err error) string {
	if err == nil {
		return "the body cannot be read"
	}
	return unread(err.Error()).Message
}

// DecodeBody reads a body into a message. It takes one JSON object in UTF-8 with the proto's field names.
func DecodeBody(body []byte, message proto.Message) error {
	switch body = bytes.TrimPrefix(body, []byte("\ufeff")); {
	case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
		return fault("", "the body is compressed; send it as plain JSON")
	case !utf8.Valid(body):
		return fault("", "the body must be JSON in UTF-8")
	case !json.Valid(body):
		return fault("", "the body must be one whole JSON object")
	}
	if err := checkObject(body, message.ProtoReflect(), ""); err != nil {
		return err
	}
	if protojson.Unmarshal(body, message) != nil {
		return fault("", "the body cannot be read; see /openapi.yaml")
	}
	return nil
}

// checkObject finds the first field of an object that the message does not take. The decoder says only where in the body it is, and takes
// names in camel case too.
func checkObject(body []byte, message protoreflect.Message, at string) error {
	in := json.NewDecoder(bytes.NewReader(body))
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		if at == "" {
			return fault("", "the body must be a JSON object")
		}
		return fault(strings.TrimSuffix(at, "."), "must be an object")
	}
	seen := map[string]bool{}
	for in.More() {
		token, err := in.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || in.Decode(&value) != nil {
			return fault("", "the body must be one whole JSON object")
		}
		field := message.Descriptor().Fields().ByTextName(name)
		switch {
		case field == nil:
			return unknownField(message.Descriptor(), at, name)
		case seen[name]:
			return fault(at+name, "is given twice")
		}
		seen[name] = true
		if err := checkValue(value, message, field, at+name); err != nil {
			return err
		}
	}
	return nil
}

func unknownField(d protoreflect.MessageDescriptor, at, name string) error {
	meant := ""
	if field := d.Fields().ByJSONName(name); field != nil {
		meant = "; did you mean " + field.TextName() + "?"
	}
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "")
	}
	name = at + strings.ReplaceAll(name, mark, "")
	return fault(name, mark+fmt.Sprintf("unknown field %q%s", name, meant)) // the text has the name already
}

// checkValue descends into messages of our protos, and asks the decoder about every other value alone.
func checkValue(value []byte, in protoreflect.Message, field protoreflect.FieldDescriptor, at string) error {
	ours := field.Message() != nil && !field.IsMap() && field.Message().FullName().Parent() != "google.protobuf" && string(value) != "null"
	if ours && !field.IsList() {
		return checkObject(value, in.NewField(field).Message(), at+".")
	}
	var items []json.RawMessage
	if ours && json.Unmarshal(value, &items) == nil {
		for i, item := range items {
			if err := checkObject(item, in.NewField(field).List().NewElement().Message(), fmt.Sprintf("%s[%d].", at, i)); err != nil {
				return err
			}
		}
	}
	alone := fmt.Appendf(nil, "{%q:%s}", field.TextName(), value)
	if protojson.Unmarshal(alone, in.New().Interface()) != nil {
		return fault(at, "must be "+kindOf(field))
	}
	return nil
}

// kindOf names, in JSON's words, the values that a field takes.
func kindOf(field protoreflect.FieldDescriptor) string {
	if field.IsList() {
		return "a list of values that /openapi.yaml allows"
	}
	switch field.Kind() { //nolint:exhaustive // the rest are whole numbers
	case protoreflect.StringKind:
		return "a string of whole Unicode characters"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	case protoreflect.BytesKind:
		return "a string in base64"
	case protoreflect.EnumKind:
		return "one of the values in /openapi.yaml"
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if field.Message().FullName() == "google.protobuf.Timestamp" {
			return strings.TrimPrefix(mustBeATime, "must be ")
		}
		return "a value that /openapi.yaml allows"
	}
	return "a whole number in the range of the field"
}
