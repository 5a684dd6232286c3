package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// replyMargin is the part of a caller's deadline that the handler does not get, so that its answer still arrives in time. A call
// that has less than this left is refused: its caller would not get the answer.
const replyMargin = 5 * time.Millisecond

// maxToken bounds the work, and the line in the log, that an unauthenticated caller can ask for.
const maxToken = 8 << 10

// recoverPanic turns a panic into an internal error; its text and its stack go to the log only.
func recoverPanic(ctx context.Context, _ string, next func(context.Context) error) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			Annotate(ctx, slog.String("panic", fmt.Sprint(panicked)), slog.String("stack", string(debug.Stack())))
			err = errInternal()
		}
	}()
	return next(ctx)
}

// deadline gives every call an end: the caller's, less the margin for the reply, or the default.
func deadline(byDefault time.Duration, now func() time.Time) layer {
	return func(ctx context.Context, _ string, next func(context.Context) error) error {
		end, ok := ctx.Deadline()
		if !ok {
			ctx, cancel := context.WithTimeout(ctx, byDefault)
			defer cancel()
			return next(ctx)
		}
		if end.Sub(now()) < replyMargin {
			return errDeadline()
		}
		ctx, cancel := context.WithDeadline(ctx, end.Add(-replyMargin))
		defer cancel()
		return next(ctx)
	}
}

// authenticate lets a call pass when its token is valid and the rule of the method allows the token's role, and of the product's processes
// this one, to make it. Why a token was refused goes to the log; the caller learns only that it was.
func authenticate(tokens *Tokens, rules map[string]Rule) layer {
	anonymous := new(anonymousStreams)
	return func(ctx context.Context, method string, next func(context.Context) error) error {
		caller, expiry, err := bearer(ctx, tokens)
		if public(method) {
			if err != nil {
				defer anonymous.enter(ctx)()
			}
			return next(ctx)
		}
		if err != nil {
			Annotate(ctx, slog.String("refused", err.Error()))
			return status.Error(codes.Unauthenticated, "a valid service token is required")
		}
		if caller.Client == "" && caller.Role != RoleService {
			caller.Client = peerAddress(ctx)
		}
		Annotate(ctx, caller.LogSubject(), slog.String("caller_role", string(caller.Role)), slog.String("org_id", caller.OrgID),
			slog.String("client", caller.Client))
		if !slices.Contains(rules[method].Callers, caller.Role) {
			return status.Error(codes.PermissionDenied, "this role may not call this method")
		}
		if caller.Role == RoleService && !slices.Contains(rules[method].Services, caller.Subject) {
			return status.Error(codes.PermissionDenied, "this process may not call this method")
		}
		return next(context.WithValue(context.WithValue(ctx, callerKey{}, caller), expiryKey{}, expiry))
	}
}

// peerAddress returns the address of a caller that did not come through the gateway; empty when the connection has no address.
func peerAddress(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok || from.Addr == nil {
		return ""
	}
	address, err := netip.ParseAddrPort(from.Addr.String())
	if err != nil {
		return ""
	}
	return address.Addr().WithZone("").Unmap().String()
}

// scoped gives the call the context that follows from its caller.
func scoped(scope func(context.Context, Principal) context.Context) layer {
	return func(ctx context.Context, _ string, next func(context.Context) error) error {
		if caller, known := PrincipalFrom(ctx); known && scope != nil {
			ctx = scope(ctx, caller)
		}
		return next(ctx)
	}
}

// expiryKey is the key of the time at which the token of a call ends.
type expiryKey struct{}

func bearer(ctx context.Context, tokens *Tokens) (caller Principal, expiry time.Time, err error) {
	given := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(given) != 1 {
		return caller, expiry, fmt.Errorf("%d authorization headers", len(given))
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return caller, expiry, errors.New("authorization is not a bearer token")
	}
	if len(token) > maxToken {
		return caller, expiry, errors.New("the token is too long")
	}
	return tokens.verify(token)
}

// seal lets only answers leave the handler. An error passes when it is itself an answer. One that merely wraps an answer
// does not, because another server said that to us, about a question that our caller did not ask; the cause of
// everything that does not pass is told to the log alone.
func seal(ctx context.Context, _ string, next func(context.Context) error) error {
	err := next(ctx)
	if err == nil {
		return nil
	}
	answer, ok := err.(interface{ GRPCStatus() *status.Status })
	if ok && answer.GRPCStatus().Code() != codes.OK {
		return err
	}
	Annotate(ctx, slog.String("error", err.Error()))
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errDeadline()
	case ctx.Err() != nil:
		return status.Error(codes.Canceled, "the call was cancelled")
	default:
		return errInternal()
	}
}

func errInternal() error { return status.Error(codes.Internal, "internal error") }

func errDeadline() error { return status.Error(codes.DeadlineExceeded, "the deadline is over") }
