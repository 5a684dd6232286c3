package senders

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
)

// sqlForget deletes the senders of an organisation that has ended and what it has decided, and reports whether it has.
const sqlForget = `
with ended as (select from organisations where org_id = @org and status = 'ended'),
forgotten as (
	update senders set status = 'disabled', api_key_secret = null, auth_token = null, next_auth_token = null, version = version + 1,
		updated_at = @at, deleted_at = @at
	where org_id = @org and deleted_at is null and exists (select from ended)
), decided as (
	delete from organisation_settings where org_id = @org and exists (select from ended)
)
select exists (select from ended)`

// Forget deletes all senders of an organisation that has ended, also those that messages name: nobody hears a STOP to them any more, and
// nothing is sent either. sms.ErrInvalid.
func (d *Directory) Forget(ctx context.Context, orgID uuid.UUID) (err error) {
	defer edge.Mark(&err)
	var ended bool
	if err := d.Store.pool.QueryRow(ctx, sqlForget, postgres.Args{"org": orgID, "at": d.Now()}).Scan(&ended); err != nil {
		return fmt.Errorf("forget the senders of an organisation: %w", err)
	}
	if !ended {
		return edge.Invalid("org_id", "must be that of an organisation that has ended")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.known)
	clear(d.clients)
	return nil
}

// ForgetOrganisation deletes the senders of an organisation that is being erased, and what is kept of numbers without a profile, some in
// each call.
func (s *RPC) ForgetOrganisation(
	ctx context.Context, r *messagingv1.ForgetOrganisationRequest,
) (*messagingv1.ForgetOrganisationResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	if err := s.Directory.Forget(ctx, orgID); err != nil {
		return nil, err
	}
	more, err := s.Ledgers.EraseStrangers(ctx, orgID, s.Directory.Now())
	if err != nil {
		return nil, err
	}
	return &messagingv1.ForgetOrganisationResponse{More: more}, nil
}
