package rpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// layer is one ring of the server chain, the same around unary calls and around streams.
type layer func(ctx context.Context, method string, next func(context.Context) error) error

// around is the call within its layers, the first of them outermost.
func around(layers []layer, method string, call func(context.Context) error) func(context.Context) error {
	for _, l := range slices.Backward(layers) {
		next := call
		call = func(ctx context.Context) error { return l(ctx, method, next) }
	}
	return call
}

func unary(layers ...layer) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, call *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		var response any
		err := around(layers, call.FullMethod, func(ctx context.Context) (err error) {
			response, err = handler(ctx, request)
			return err
		})(ctx)
		if err != nil {
			return nil, err
		}
		return response, nil
	}
}

func stream(layers ...layer) grpc.StreamServerInterceptor {
	return func(service any, s grpc.ServerStream, call *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return around(layers, call.FullMethod, func(ctx context.Context) error {
			_, known := PrincipalFrom(ctx)
			return handler(service, &contextStream{ServerStream: s, ctx: ctx, known: known})
		})(s.Context())
	}
}

// contextStream is a stream whose handler sees the context that the layers made.
type contextStream struct {
	grpc.ServerStream

	ctx   context.Context //nolint:containedctx // a stream hands out its context, that is its interface
	known bool            // its caller is authenticated
	begun bool            // its first message came; only RecvMsg looks, which is never called twice at once
}

func (s *contextStream) Context() context.Context { return s.ctx }

// RecvMsg waits for a message. A known caller that has sent one may be silent from then on; whether it is still there the keepalive says.
func (s *contextStream) RecvMsg(message any) error {
	if s.known && s.begun {
		return s.ServerStream.RecvMsg(message)
	}
	s.begun = true
	return inTime(s.ctx, s.ServerStream.RecvMsg)(message)
}

// SendMsg ends the stream of a caller that does not read.
func (s *contextStream) SendMsg(message any) error {
	return inTime(s.ctx, s.ServerStream.SendMsg)(message)
}
