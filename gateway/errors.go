package gateway

import (
	"context"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"paceline.internal/platform/rpc"
)

// domain is what ErrorInfo says of the errors that the gateway makes itself; those of a service carry the service's.
const domain = "paceline.gateway"

// Reasons of the gateway's own errors. Those of the services are the enum values of their protos.
const (
	reasonInvalid          = "REASON_INVALID"
	reasonInternal         = "REASON_INTERNAL"
	reasonUnavailable      = "REASON_UNAVAILABLE"
	reasonUnauthenticated  = "REASON_UNAUTHENTICATED"
	reasonPermissionDenied = "REASON_PERMISSION_DENIED"
	reasonTooLarge         = "REASON_TOO_LARGE"
	reasonTooSlow          = "REASON_TOO_SLOW"
	reasonFull             = "REASON_TOO_MANY_CALLBACKS"
	reasonRateLimited      = "REASON_RATE_LIMITED"
	reasonMediaType        = "REASON_UNSUPPORTED_MEDIA_TYPE"
	reasonNoRoute          = "REASON_NO_SUCH_ROUTE"
	reasonMethod           = "REASON_METHOD_NOT_ALLOWED"
	reasonUpgrade          = "REASON_UPGRADE_REQUIRED"
)

// metaField is what the metadata of a refusal calls the field that it is about.
const metaField = "field"

// refuse makes an error of the gateway's own.
func refuse(code codes.Code, reason, message string) *rpc.Error {
	return &rpc.Error{Code: code, Reason: reason, Domain: domain, Message: message}
}

// public is what a caller may read of a failed call. An error that a service made on purpose names its reason and
// passes. Everything else (a transport's text with an address in it, an unexpected failure, our own credentials being
// refused) gets a fixed text, and the cause is in the log.
func public(err error) *rpc.Error {
	e, ok := rpc.ErrorFrom(err)
	if !ok {
		e = &rpc.Error{Code: codes.Unknown}
	}
	switch e.Code {
	case codes.OK, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated, codes.Unimplemented:
		return refuse(codes.Internal, reasonInternal, "something went wrong on our side; the X-Request-Id of this answer finds the cause")
	case codes.Unavailable, codes.DeadlineExceeded:
		if e.Reason == "" {
			return refuse(e.Code, reasonUnavailable, "a service cannot be reached right now; try again")
		}
	case codes.InvalidArgument:
		if e.Reason == "" { // grpc-gateway could not read the path, the query or the body; these are the caller's own words
			return unread(e.Message)
		}
	case codes.PermissionDenied:
		if e.Reason == "" { // made by the service's server chain
			return refuse(e.Code, reasonPermissionDenied, "this role may not do this")
		}
	default:
		if e.Reason == "" {
			return refuse(e.Code, reasonUnavailable, "the call was not answered: "+e.Code.String())
		}
	}
	return e
}

// transient reports whether the same call can succeed a little later.
func transient(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.ResourceExhausted || code == codes.Aborted
}

// withField adds to a service's refusal of a request the field that it is about. Such a message begins with the name of the field.
func withField(err error, request proto.Message) error {
	e, ok := rpc.ErrorFrom(err)
	if !ok || e.Code != codes.InvalidArgument || e.Reason == "" || e.Meta[metaField] != "" {
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
			about.Meta[metaField] = word
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

// violated adds the field that an error is about in the shape that clients of Google's APIs know.
func violated(e *rpc.Error) *status.Status {
	plain := status.Convert(e)
	if e.Code != codes.InvalidArgument || e.Meta[metaField] == "" {
		return plain
	}
	about := &errdetails.BadRequest_FieldViolation{Field: e.Meta[metaField], Description: e.Message}
	detailed, err := plain.WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{about}})
	if err != nil { // text that is not UTF-8
		return plain
	}
	return detailed
}

// writeError answers with the one error shape: {"code", "message", "details": [{"reason", ...}]}, where code is the
// number of the gRPC code.
func writeError(ctx context.Context, w http.ResponseWriter, httpStatus int, e *rpc.Error) {
	eventFrom(ctx).fail(e)
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", seconds(e.RetryAfter))
	}
	body, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(violated(e).Proto())
	if err != nil { // text that is not UTF-8
		body = []byte(`{"code":13,"message":"the error cannot be written","details":[{"reason":"` + reasonInternal + `"}]}`)
	}
	write(w, httpStatus, "application/json", body)
}

// write sends one whole answer. A failure to write means that the caller is gone, so there is nothing to report it to.
func write(w http.ResponseWriter, httpStatus int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body) //nolint:gosec // G705: JSON, YAML and XML of our own making, each with its type
}

// seconds is a Retry-After: whole seconds, rounded up, because a retry that is too early wastes an attempt.
func seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
