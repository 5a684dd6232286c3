package gateway

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

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

// writeError answers with the one error shape: {"code", "message", "details": [{"reason", ...}]}, where code is the
// number of the gRPC code.
func writeError(ctx context.Context, w http.ResponseWriter, httpStatus int, e *rpc.Error) {
	eventFrom(ctx).fail(e)
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", seconds(e.RetryAfter))
	}
	body, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(status.Convert(e).Proto())
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
