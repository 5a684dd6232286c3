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

func stream(kept *keeper, layers ...layer) grpc.StreamServerInterceptor {
	return func(service any, s grpc.ServerStream, call *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return around(layers, call.FullMethod, func(ctx context.Context) error {
			_, known := PrincipalFrom(ctx)
			seen := &contextStream{ServerStream: s, ctx: ctx, known: known, kept: kept, method: call.FullMethod}
			err := seal(ctx, call.FullMethod, func(context.Context) error {
				return kept.answered(func() error { return handler(service, seen) })
			})
			if seen.ended != nil {
				seen.ended(nil, err)
			}
			return err
		})(s.Context())
	}
}

// contextStream gives its handler the context that the layers made.
type contextStream struct {
	grpc.ServerStream

	ctx   context.Context //nolint:containedctx // a stream hands out its context, that is its interface
	known bool            // its caller is authenticated
	begun bool            // its first message came; only RecvMsg looks, which is never called twice at once

	kept   *keeper // of the call, once its first message has come
	method string
	ended  func(response any, err error)
}

func (s *contextStream) Context() context.Context { return s.ctx }

// RecvMsg waits for a message. A known caller that has sent one may be silent from then on; whether it is still there the keepalive says.
func (s *contextStream) RecvMsg(message any) error {
	if s.known && s.begun {
		return s.ServerStream.RecvMsg(message)
	}
	first := !s.begun
	s.begun = true
	if err := inTime(s.ctx, s.ServerStream.RecvMsg)(message); err != nil || !first {
		return err
	}
	ended, err := s.kept.begin(s.ctx, s.method, message)
	s.ended = ended
	return err
}

// SendMsg ends the stream of a caller that does not read.
func (s *contextStream) SendMsg(message any) error {
	return inTime(s.ctx, s.ServerStream.SendMsg)(message)
}
