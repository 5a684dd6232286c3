package rpc

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"paceline.internal/platform/phone"
)

// Audit is the kind of a method that decides which of its calls are kept.
type Audit string

// What methods do. The zero Audit is a method that services alone call.
const (
	AuditChange Audit = "change" // it changes something
	AuditRead   Audit = "read"   // it reads what is about a person
	AuditNone   Audit = "none"   // it reads nothing about any person
)

// Kept reports whether a call by a role is kept: every change by others than services, and what operators read of people.
func (r Rule) Kept(by Role) bool {
	return r.Audit == AuditChange && by != RoleService || r.Audit == AuditRead && by == RoleOperator
}

// Call is a call that is kept: who makes it, and what it is about.
type Call struct {
	Method string // "package.Service/Method"
	Caller Principal
	About  About
}

// About returns the id that a field of a request or its answer has of its subject.
type About struct {
	ProfileID string // the field profile_id
	TargetID  string // the first other field that ends in _id and holds a UUID
	Phone     string // the field phone, or to; of a request only
	OrgID     string // the field org_id, of calls of the platform; they are about an organisation
}

// Keep stores a call before it is made, and returns what notes how it ended. Its error refuses the call.
type Keep func(ctx context.Context, call Call) (ended func(ctx context.Context, outcome codes.Code, about About) error, err error)

// endedTimeout bounds how long the answer of a call waits for its outcome to be noted.
const endedTimeout = 2 * time.Second

// keeper keeps the calls that the rules of their methods name.
type keeper struct {
	rules  map[string]Rule
	keep   Keep
	answer func(err error) error // of the server's config, which meets every handler here
}

// answered calls a handler, and answers its error.
func (k *keeper) answered(handle func() error) error {
	err := handle()
	if err != nil && k.answer != nil {
		return k.answer(err)
	}
	return err
}

// begin keeps a call after its request has been read, and returns the function that notes its end.
func (k *keeper) begin(ctx context.Context, method string, request any) (ended func(response any, err error), err error) {
	caller, _ := PrincipalFrom(ctx)
	if !k.rules[method].Kept(caller.Role) {
		return func(any, error) {}, nil
	}
	about := aboutOf(request)
	if caller.Role != RolePlatform { // it is the caller's own
		about.OrgID = ""
	}
	note, err := k.keep(ctx, Call{Method: strings.TrimPrefix(method, "/"), Caller: caller, About: about})
	if err != nil {
		Annotate(ctx, slog.String("error", err.Error()))
		return nil, status.Error(codes.Unavailable, "the call cannot be recorded now; nothing has happened")
	}
	return func(response any, err error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endedTimeout)
		defer cancel()
		about := aboutOf(response)
		about.Phone = ""
		if err := note(ctx, status.Code(err), about); err != nil { // without an outcome the row says that the call may have happened
			Annotate(ctx, slog.String("audit_error", err.Error()))
		}
	}, nil
}

// unary keeps a call between its request, which gRPC has read by now, and its handler.
func (k *keeper) unary(
	ctx context.Context, request any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (response any, err error) {
	ended, err := k.begin(ctx, call.FullMethod, request)
	if err != nil {
		return nil, err
	}
	err = errInternal() // of a panic
	defer func() { ended(response, err) }()
	answered := seal(ctx, call.FullMethod, func(ctx context.Context) error {
		return k.answered(func() (failed error) {
			response, failed = handle(ctx, request)
			return failed
		})
	})
	err = answered
	return response, err
}

// aboutOf reads the fields of a message and of the messages in it, but not those of lists.
func aboutOf(message any) (about About) {
	m, ok := message.(proto.Message)
	if !ok || m == nil {
		return about
	}
	outer := m.ProtoReflect()
	about.read(outer)
	for i := range outer.Descriptor().Fields().Len() {
		field := outer.Descriptor().Fields().Get(i)
		if field.Message() != nil && field.Cardinality() != protoreflect.Repeated && outer.Has(field) {
			about.read(outer.Get(field).Message())
		}
	}
	return about
}

// read takes what is not known yet. Only a UUID and a phone number are taken: what else a caller writes into a field is not kept.
func (a *About) read(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Kind() != protoreflect.StringKind || field.Cardinality() == protoreflect.Repeated {
			continue
		}
		name, value := string(field.Name()), m.Get(field).String()
		id, err := uuid.Parse(value) // in every spelling that a service takes
		isID := strings.HasSuffix(name, "_id") && name != "org_id" && err == nil
		switch {
		case isID && name == "profile_id" && a.ProfileID == "":
			a.ProfileID = id.String()
		case isID && name != "profile_id" && a.TargetID == "":
			a.TargetID = id.String()
		case name == "org_id" && err == nil && a.OrgID == "":
			a.OrgID = id.String()
		case (name == "phone" || name == "to") && a.Phone == "":
			a.Phone = phoneIn(value)
		}
	}
}

// phoneIn is a phone number in E.164, however it is spelled; empty for what is none, or has no country. So an erasure finds it: what is
// kept is the number that a profile has, or nothing. A space before it is the + of a query that was not escaped.
func phoneIn(text string) string {
	if !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, " ") {
		return ""
	}
	e164, err := phone.Parse("+" + strings.TrimLeft(text, "+ "))
	if err != nil {
		return ""
	}
	return e164
}

// looksLikePhone is the shape of E.164.
func looksLikePhone(text string) bool {
	digits, plus := strings.CutPrefix(text, "+")
	return plus && len(digits) >= 7 && len(digits) <= 15 && strings.Trim(digits, "0123456789") == ""
}
