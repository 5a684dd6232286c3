package send

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// sqlSuspended is true where the organisation of an attempt u may not send. Our answers to STOP and HELP pass, our question does not.
const sqlSuspended = `not (u.despite_hold and not starts_with(u.key, '` + QuestionKeys + `'))
	and exists (select from organisations o where o.org_id = u.org and o.status <> 'active')`

// sqlSetOrganisation takes no version that is older than the one there is.
const sqlSetOrganisation = `
insert into organisations as o (org_id, status, version, updated_at) values (@org, @status, @version, @at)
on conflict (org_id) do update set status = excluded.status, version = excluded.version, updated_at = excluded.updated_at
where o.version < excluded.version`

// SetOrganisation keeps whether an organisation may send. A claim that begins afterwards heeds it.
func (s *Store) SetOrganisation(ctx context.Context, orgID uuid.UUID, status string, version int64, at time.Time) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(ctx, sqlSetOrganisation, postgres.Args{"org": orgID, "status": status, "version": version, "at": at})
	return err
}

const sqlIsSuspended = `select exists (select from organisations where org_id = @org and status <> 'active')`

// Suspended reports whether an organisation may not send.
func (s *Store) Suspended(ctx context.Context, orgID uuid.UUID) (suspended bool, err error) {
	defer edge.Mark(&err)
	err = s.pool.QueryRow(ctx, sqlIsSuspended, postgres.Args{"org": orgID}).Scan(&suspended)
	return suspended, err
}

// SetOrganisation takes whether an organisation may send.
func (s *RPC) SetOrganisation(
	ctx context.Context, r *messagingv1.SetOrganisationRequest,
) (*messagingv1.SetOrganisationResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"active", "suspended", "ended"}, r.GetStatus()) {
		return nil, fmt.Errorf("%w: status must be active, suspended or ended", sms.ErrInvalid)
	}
	if r.GetVersion() < 1 {
		return nil, fmt.Errorf("%w: version must be at least 1", sms.ErrInvalid)
	}
	return &messagingv1.SetOrganisationResponse{}, s.Store.SetOrganisation(ctx, orgID, r.GetStatus(), r.GetVersion(), s.Now())
}
