package rpc

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const (
	// messageTimeout is the time that a stream may go without the message that is waited for, or without taking the one that is sent.
	messageTimeout = 5 * time.Second
	// StreamLife bounds the life of a stream. The tokens that the client chain opens streams with live as long.
	StreamLife = time.Hour
	// heedGrace is the time that a handler gets to end its stream by itself.
	heedGrace = time.Second
	// maxAnonymous bounds the streams at once of callers without a token, which are those of health and reflection.
	// Times the largest message it bounds the memory that they can make us hold: gRPC has one limit of messages for a whole server.
	maxAnonymous = 8
)

// RegisterService implements grpc.ServiceRegistrar. gRPC reads the request of a unary call before its interceptor is asked. Here
// the chain comes first: nothing is read of a caller who may not call. Who may is in the proto of each method.
func (s *Server) RegisterService(service *grpc.ServiceDesc, implementation any) {
	if !public("/" + service.ServiceName + "/") {
		rules, err := Rules(service.ServiceName)
		maps.Copy(s.rules, rules)
		s.unruled = errors.Join(s.unruled, err)
	}
	guarded := *service
	guarded.Methods = slices.Clone(service.Methods)
	for i := range guarded.Methods {
		method := &guarded.Methods[i]
		method.Handler = chainFirst("/"+service.ServiceName+"/"+method.MethodName, method.Handler, s.kept.unary)
	}
	s.Server.RegisterService(&guarded, implementation)
}

func chainFirst(method string, handle grpc.MethodHandler, kept grpc.UnaryServerInterceptor) grpc.MethodHandler {
	return func(service any, ctx context.Context, read func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
		info := &grpc.UnaryServerInfo{Server: service, FullMethod: method}
		return chain(ctx, nil, info, func(ctx context.Context, _ any) (any, error) {
			return handle(service, ctx, inTime(ctx, read), kept)
		})
	}
}

// endable gives every stream what ends it from outside, also while it waits for its caller in the middle of a message.
func endable(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, end := context.WithCancel(ctx)
	return context.WithValue(ctx, endKey{}, end), nil
}

type endKey struct{}

// ender ends the stream that ctx belongs to.
func ender(ctx context.Context) func() {
	if end, ok := ctx.Value(endKey{}).(context.CancelFunc); ok {
		return end
	}
	return func() {}
}

// inTime ends the stream if the message that is read does not come, or the one that is sent is not taken.
func inTime(ctx context.Context, move func(any) error) func(any) error {
	return func(message any) error {
		timer := time.AfterFunc(messageTimeout, ender(ctx))
		err := move(message)
		if !timer.Stop() && err != nil {
			return status.Error(codes.DeadlineExceeded, "the message did not come, or was not taken, in time")
		}
		return err
	}
}

// mortal ends a stream when its token ends, which is only looked at when it is opened, and at the latest after StreamLife: a connection
// that is asked to end waits for its streams. The handler finds that end in the deadline of its context; one that does not heed it is cut
// off.
func mortal(now func() time.Time) layer {
	return func(ctx context.Context, _ string, next func(context.Context) error) error {
		expiry, known := ctx.Value(expiryKey{}).(time.Time)
		if !known { // health and reflection
			return next(ctx)
		}
		life := max(0, min(expiry.Sub(now()), StreamLife))
		ctx, cancel := context.WithTimeout(ctx, life)
		defer cancel()
		defer time.AfterFunc(life+heedGrace, ender(ctx)).Stop()
		err := next(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return status.Error(codes.Unauthenticated, "the token of the stream has expired; open another")
		}
		return err
	}
}

// anonymousStreams are the streams of callers without a token. One too many ends the oldest: a probe, which takes no time, always has a
// place, and one that is only held is lost.
type anonymousStreams struct {
	mu   sync.Mutex
	ends list.List // of func(), the oldest in front
}

// enter counts the stream that ctx belongs to until leave.
func (g *anonymousStreams) enter(ctx context.Context) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ends.Len() == maxAnonymous {
		if end, ok := g.ends.Remove(g.ends.Front()).(func()); ok {
			end()
		}
	}
	place := g.ends.PushBack(ender(ctx))
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ends.Remove(place) // nothing, if it was ended for another
	}
}
