package route

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/platform/rpc"
)

// domain marks, in ErrorInfo, the errors that the gateway makes itself; those of a service carry the service's.
const domain = "paceline.gateway"

// Reasons of the gateway's own errors. Those of the services are the enum values of their protos.
const (
	ReasonInvalid          = "REASON_INVALID"
	ReasonInternal         = "REASON_INTERNAL"
	ReasonUnavailable      = "REASON_UNAVAILABLE"
	ReasonUnauthenticated  = "REASON_UNAUTHENTICATED"
	ReasonPermissionDenied = "REASON_PERMISSION_DENIED"
	ReasonTooLarge         = "REASON_TOO_LARGE"
	ReasonTooSlow          = "REASON_TOO_SLOW"
	ReasonFull             = "REASON_TOO_MANY_CALLBACKS"
	ReasonRateLimited      = "REASON_RATE_LIMITED"
	ReasonMediaType        = "REASON_UNSUPPORTED_MEDIA_TYPE"
	ReasonNoRoute          = "REASON_NO_SUCH_ROUTE"
	ReasonMethod           = "REASON_METHOD_NOT_ALLOWED"
	ReasonUpgrade          = "REASON_UPGRADE_REQUIRED"
)

// MetaField is the key, in the metadata of a refusal, of the field that it is about.
const MetaField = "field"

// Refuse makes an error of the gateway.
func Refuse(code codes.Code, reason, message string) *rpc.Error {
	return &rpc.Error{Code: code, Reason: reason, Domain: domain, Message: message}
}

// Public returns the error that a caller may read of a failed call. An error that a service made on purpose names its reason and
// passes. Everything else (a transport's text with an address in it, an unexpected failure, our own credentials being
// refused) gets a fixed text, and the cause is in the log.
func Public(err error) *rpc.Error {
	e, ok := rpc.ErrorFrom(err)
	if !ok {
		e = &rpc.Error{Code: codes.Unknown}
	}
	switch e.Code {
	case codes.OK, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated, codes.Unimplemented:
		return Refuse(codes.Internal, ReasonInternal, "something went wrong on our side; the X-Request-Id of this answer finds the cause")
	case codes.Unavailable, codes.DeadlineExceeded:
		if e.Reason == "" {
			return Refuse(e.Code, ReasonUnavailable, "a service cannot be reached right now; try again")
		}
	case codes.InvalidArgument:
		if e.Reason == "" { // grpc-gateway could not read the path, the query or the body; these are the caller's own words
			return unread(e.Message)
		}
	case codes.PermissionDenied:
		if e.Reason == "" { // made by the service's server chain
			return Refuse(e.Code, ReasonPermissionDenied, "this role may not do this")
		}
	default:
		if e.Reason == "" {
			return Refuse(e.Code, ReasonUnavailable, "the call was not answered: "+e.Code.String())
		}
	}
	return e
}

// Transient reports whether the same call can succeed a little later.
func Transient(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.ResourceExhausted || code == codes.Aborted
}

// violated adds the field that an error is about in the shape that clients of Google's APIs know.
func violated(e *rpc.Error) *status.Status {
	Plain := status.Convert(e)
	if e.Code != codes.InvalidArgument || e.Meta[MetaField] == "" || len(e.Fields) > 0 { // a service has named the fields
		return Plain
	}
	about := &errdetails.BadRequest_FieldViolation{Field: e.Meta[MetaField], Description: e.Message}
	detailed, err := Plain.WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{about}})
	if err != nil { // text that is not UTF-8
		return Plain
	}
	return detailed
}

// WriteError answers with the one error shape: {"code", "message", "details": [{"reason", ...}]}, where code is the
// number of the gRPC code.
func WriteError(ctx context.Context, w http.ResponseWriter, httpStatus int, e *rpc.Error) {
	EventFrom(ctx).Fail(e)
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", Seconds(e.RetryAfter))
	}
	body, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(violated(e).Proto())
	if err != nil { // text that is not UTF-8
		body = []byte(`{"code":13,"message":"the error cannot be written","details":[{"reason":"` + ReasonInternal + `"}]}`)
	}
	Write(w, httpStatus, "application/json", body)
}

// Write sends one whole answer. A failure to write means that the caller is gone, so there is nothing to report it to.
func Write(w http.ResponseWriter, httpStatus int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body)
}

// Seconds formats a Retry-After: whole seconds, rounded up, because a retry that is too early wastes an attempt.
func Seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
