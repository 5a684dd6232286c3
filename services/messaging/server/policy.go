package server

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/delivery"
)

// Policy says which roles may call which method. Services act for whichever organisation a request names; operators and
// users come by way of the gateway and see what is theirs.
func Policy() map[string][]rpc.Role {
	services := []rpc.Role{rpc.RoleService}
	operators := []rpc.Role{rpc.RoleService, rpc.RoleOperator}
	everybody := []rpc.Role{rpc.RoleService, rpc.RoleOperator, rpc.RoleUser}
	return map[string][]rpc.Role{
		messagingv1.MessagingService_Send_FullMethodName:           services,
		messagingv1.MessagingService_RecordStatus_FullMethodName:   services,
		messagingv1.MessagingService_RecordInbound_FullMethodName:  services,
		messagingv1.MessagingService_ListInbound_FullMethodName:    services,
		messagingv1.MessagingService_CheckSender_FullMethodName:    services,
		messagingv1.MessagingService_SetHold_FullMethodName:        services,
		messagingv1.MessagingService_GetMessage_FullMethodName:     everybody,
		messagingv1.MessagingService_ListMessages_FullMethodName:   everybody,
		messagingv1.MessagingService_GetEvidence_FullMethodName:    {rpc.RoleOperator},
		messagingv1.MessagingService_ResolveMessage_FullMethodName: {rpc.RoleOperator},
		// No service has a part in the queue: onboarding's texts go through Send, one at a time.
		messagingv1.OutboundService_EnqueueText_FullMethodName:      {rpc.RoleOperator},
		messagingv1.OutboundService_GetQueuedText_FullMethodName:    {rpc.RoleOperator},
		messagingv1.OutboundService_ListQueuedTexts_FullMethodName:  {rpc.RoleOperator},
		messagingv1.OutboundService_CancelQueuedText_FullMethodName: {rpc.RoleOperator},
		messagingv1.MessagingService_GetConsent_FullMethodName:      operators,
		messagingv1.MessagingService_SetConsent_FullMethodName:      operators,
	}
}

// view is the part of the archive that a caller sees: their organisation, and of it one profile if they are a user.
type view struct {
	orgID     uuid.UUID
	profileID uuid.UUID // uuid.Nil for every profile
}

// view of the caller. A service that names no organisation sees that of the configured sender.
func (s *Server) view(ctx context.Context) (view, error) { return viewOf(ctx, s.Sender) }

func viewOf(ctx context.Context, sender delivery.Sender) (view, error) {
	p, ok := rpc.PrincipalFrom(ctx)
	if !ok {
		return view{}, errDenied
	}
	v := view{orgID: sender.OrgID}
	var err error
	if p.OrgID != "" {
		if v.orgID, err = uuid.Parse(p.OrgID); err != nil {
			return view{}, errDenied
		}
	}
	switch p.Role {
	case rpc.RoleService, rpc.RoleOperator:
		return v, nil
	case rpc.RoleUser:
		if v.profileID, err = uuid.Parse(p.Subject); err == nil && v.profileID != uuid.Nil {
			return v, nil
		}
	}
	return view{}, errDenied
}

func (v view) includes(m delivery.Message) bool {
	return m.OrgID == v.orgID && (v.profileID == uuid.Nil || m.ProfileID == v.profileID)
}

// narrow is the profile that a list is about: the one asked for, which a user may only ask of themselves.
func (v view) narrow(asked uuid.UUID) (uuid.UUID, error) {
	switch {
	case v.profileID == uuid.Nil || asked == v.profileID:
		return asked, nil
	case asked == uuid.Nil:
		return v.profileID, nil
	default:
		return uuid.Nil, fmt.Errorf("%w: profile_id is somebody else's", errDenied)
	}
}
