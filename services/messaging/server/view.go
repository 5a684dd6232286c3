package server

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/send"
)

// view is the part of the archive that a caller sees: their organisation, and of it one profile if they are a user.
type view struct {
	orgID     uuid.UUID
	profileID uuid.UUID // uuid.Nil for every profile
}

// view of the caller. A service that names no organisation sees that of the configured sender.
func (s *Server) view(ctx context.Context) (view, error) { return viewOf(ctx, s.Sender) }

func viewOf(ctx context.Context, sender send.Sender) (view, error) {
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
	case rpc.RoleService, rpc.RoleOperator, rpc.RoleApp:
		return v, nil
	case rpc.RoleUser:
		if v.profileID, err = uuid.Parse(p.Subject); err == nil && v.profileID != uuid.Nil {
			return v, nil
		}
	}
	return view{}, errDenied
}

func (v view) includes(m send.Message) bool {
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
		return uuid.Nil, fmt.Errorf("%w: profile_id is another person's", errDenied)
	}
}
