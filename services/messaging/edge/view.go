package edge

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"paceline.internal/platform/rpc"
)

// ErrDenied refuses a caller who may call the method, but not about this.
var ErrDenied = errors.New("not allowed")

// View is the part of the archive that a caller sees: their organisation, and of it one profile if they are a user.
type View struct {
	OrgID     uuid.UUID
	profileID uuid.UUID // uuid.Nil for every profile
}

// ViewOf returns the view of the caller. A service that names no organisation sees that of the configured sender.
func ViewOf(ctx context.Context, senderOrg uuid.UUID) (View, error) {
	p, ok := rpc.PrincipalFrom(ctx)
	if !ok {
		return View{}, ErrDenied
	}
	v := View{OrgID: senderOrg}
	var err error
	if p.OrgID != "" {
		if v.OrgID, err = uuid.Parse(p.OrgID); err != nil {
			return View{}, ErrDenied
		}
	}
	switch p.Role {
	case rpc.RoleService, rpc.RoleOperator, rpc.RoleApp:
		return v, nil
	case rpc.RolePlatform: // belongs to no organisation
	case rpc.RoleUser:
		if v.profileID, err = uuid.Parse(p.Subject); err == nil && v.profileID != uuid.Nil {
			return v, nil
		}
	}
	return View{}, ErrDenied
}

// Includes reports whether the caller sees what belongs to a profile.
func (v View) Includes(profileID uuid.UUID) bool {
	return v.profileID == uuid.Nil || profileID == v.profileID
}

// Narrow returns the profile that a list is about: the one asked for, which a user may only ask of themselves.
func (v View) Narrow(asked uuid.UUID) (uuid.UUID, error) {
	switch {
	case v.Includes(asked):
		return asked, nil
	case asked == uuid.Nil:
		return v.profileID, nil
	default:
		return uuid.Nil, fmt.Errorf("%w: profile_id is another person's", ErrDenied)
	}
}
