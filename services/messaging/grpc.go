package messaging

import (
	"google.golang.org/grpc"

	"paceline.internal/platform/audit"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
)

type rooms struct {
	stores   stores
	sending  *send.Service
	received *inbound.Service
	intake   *outbound.Intake
	sent     func(segments int) // counts what conversations send; may be nil
	calls    *audit.Log
}

// service is both services of the proto: the RPCs of the rooms, and the audit log of their calls.
type service struct {
	unimplemented
	sendRPC
	ledgerRPC
	inboundRPC
	*outbound.RPC

	calls *audit.Log
}

// Each room's type is called RPC; embedded types need names that differ.
type (
	sendRPC    struct{ *send.RPC }
	ledgerRPC  struct{ *ledger.RPC }
	inboundRPC struct{ *inbound.RPC }
)

// unimplemented is embedded one level deeper than the rooms, so that their methods hide its own.
type unimplemented struct{ deeper }

type deeper struct {
	messagingv1.UnimplementedMessagingServiceServer
}

func newService(r rooms) *service {
	queue := &outbound.RPC{Intake: r.intake}
	return &service{
		sendRPC: sendRPC{&send.RPC{
			Service: r.sending, Store: r.stores.send, Ledger: r.stores.ledger, Sent: r.sent, Queue: queue.QueueGauges,
		}},
		ledgerRPC: ledgerRPC{&ledger.RPC{
			Service: &ledger.Service{Store: r.stores.ledger, InFlight: r.sending}, SenderOf: r.sending.Sender.Of, OrgID: r.sending.Sender.OrgID,
			Now: r.sending.Now,
		}},
		inboundRPC: inboundRPC{&inbound.RPC{Service: r.received, Ledger: r.stores.ledger}},
		RPC:        queue, calls: r.calls,
	}
}

func register(server grpc.ServiceRegistrar, s *service) {
	messagingv1.RegisterMessagingServiceServer(refusing{server}, s)
	messagingv1.RegisterOutboundServiceServer(refusing{server}, s)
}
