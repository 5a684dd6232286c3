package messaging

import (
	"context"
	"log/slog"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"paceline.internal/platform/audit"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
)

type rooms struct {
	stores   stores
	sending  *send.Service
	received *inbound.Service
	intake   *outbound.Intake
	sent     func(orgID, sender uuid.UUID, segments int) // counts what conversations send; may be nil
	calls    *audit.Log
	log      *slog.Logger
}

// senderOf returns what an organisation sends from.
func senderOf(all *senders.Directory) func(ctx context.Context, orgID uuid.UUID) (string, error) {
	return func(ctx context.Context, orgID uuid.UUID) (string, error) {
		from, err := all.For(ctx, orgID, "", "")
		return from.From(), err
	}
}

// service is the services of the proto: the RPCs of the rooms, and the audit log of their calls.
type service struct {
	unimplemented
	sendRPC
	ledgerRPC
	inboundRPC
	*outbound.RPC

	senders *senders.RPC
	calls   *audit.Log
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
			Service: &ledger.Service{Store: r.stores.ledger, InFlight: r.sending}, SenderOf: senderOf(r.sending.Senders),
			OrgID: r.sending.Senders.Environment.OrgID,
			Now:   r.sending.Now,
		}},
		inboundRPC: inboundRPC{&inbound.RPC{Service: r.received, Ledger: r.stores.ledger}},
		RPC:        queue, senders: &senders.RPC{Directory: r.sending.Senders, Ledgers: r.stores.ledger, Log: r.log}, calls: r.calls,
	}
}

func register(server grpc.ServiceRegistrar, s *service) {
	messagingv1.RegisterMessagingServiceServer(refusing{server}, s)
	messagingv1.RegisterOutboundServiceServer(refusing{server}, s)
	messagingv1.RegisterSenderServiceServer(refusing{server}, s.senders)
}
