package messaging

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// inProcess calls registered services without a wire, so that the caller is the principal of the context.
type inProcess map[string]func(ctx context.Context, decode func(any) error) (any, error)

// RegisterService implements grpc.ServiceRegistrar.
func (p inProcess) RegisterService(service *grpc.ServiceDesc, implementation any) {
	for _, m := range service.Methods {
		p["/"+service.ServiceName+"/"+m.MethodName] = func(ctx context.Context, decode func(any) error) (any, error) {
			return m.Handler(implementation, ctx, decode, nil)
		}
	}
}

// Invoke implements grpc.ClientConnInterface.
func (p inProcess) Invoke(ctx context.Context, method string, request, answer any, _ ...grpc.CallOption) error {
	answered, err := p[method](ctx, func(into any) error {
		proto.Merge(into.(proto.Message), request.(proto.Message))
		return nil
	})
	if err == nil {
		proto.Merge(answer.(proto.Message), answered.(proto.Message))
	}
	return err
}

// NewStream implements grpc.ClientConnInterface; there are no streams.
func (inProcess) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	panic("unreachable")
}

// clients calls the services over some rooms.
type clients struct {
	messagingv1.MessagingServiceClient
	messagingv1.OutboundServiceClient
}

func serve(t *testing.T, r rooms) clients {
	t.Helper()
	served := inProcess{}
	register(served, newService(r))
	return clients{messagingv1.NewMessagingServiceClient(served), messagingv1.NewOutboundServiceClient(served)}
}
