package rpc

import (
	"errors"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Error is an answer of a server that its caller can act on. A handler returns it, and every field reaches the caller,
// so none may hold a secret, a phone number or the text of a cause. On the caller's side ErrorFrom restores it.
type Error struct {
	Code       codes.Code
	Reason     string            // an enum value of the service's proto, sent as google.rpc.ErrorInfo
	Domain     string            // the proto package that the reason belongs to
	Message    string            // for people
	Meta       map[string]string // what a program needs to know beyond the reason
	Fields     []Violation       // sent as google.rpc.BadRequest
	RetryAfter time.Duration     // sent as google.rpc.RetryInfo when above zero
}

// Violation is one thing that is wrong with a request, where an answer names several.
type Violation struct{ Field, Description string }

// Error is the message for people.
func (e *Error) Error() string { return e.Message }

// GRPCStatus is the error as it crosses the wire.
func (e *Error) GRPCStatus() *status.Status {
	var details []protoadapt.MessageV1
	if e.Reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: e.Reason, Domain: e.Domain, Metadata: e.Meta})
	}
	if len(e.Fields) > 0 {
		bad := &errdetails.BadRequest{}
		for _, f := range e.Fields {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: f.Field, Description: f.Description})
		}
		details = append(details, bad)
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	plain := status.New(e.Code, e.Message)
	detailed, err := plain.WithDetails(details...)
	if err != nil { // an OK status, or text that is not UTF-8: the code still says what matters
		return plain
	}
	return detailed
}

// LogValue shows the code and the reason next to the message.
func (e *Error) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("code", e.Code.String()), slog.String("reason", e.Reason), slog.String("message", e.Message))
}

// ErrorFrom restores the Error that a server answered with, also when it has been wrapped since. It reports false when
// err is nil or did not come from a server at all.
func ErrorFrom(err error) (*Error, bool) {
	var carrier interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &carrier) {
		return nil, false
	}
	if own, ok := carrier.(*Error); ok {
		return own, true
	}
	s := carrier.GRPCStatus()
	e := &Error{Code: s.Code(), Message: s.Message()}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Domain, e.Meta = d.GetReason(), d.GetDomain(), d.GetMetadata()
		case *errdetails.BadRequest:
			for _, f := range d.GetFieldViolations() {
				e.Fields = append(e.Fields, Violation{f.GetField(), f.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return e, true
}

// Reason is the machine-readable reason of a server's answer and what came with it, "" when it has none.
func Reason(err error) (reason string, meta map[string]string) {
	if e, ok := ErrorFrom(err); ok {
		return e.Reason, e.Meta
	}
	return "", nil
}

// RetryAfter returns the time that the server asks to wait before the call is tried again, 0 when it does not say.
func RetryAfter(err error) time.Duration {
	if e, ok := ErrorFrom(err); ok {
		return e.RetryAfter
	}
	return 0
}
