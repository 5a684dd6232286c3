package send

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/platform/postgres"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

const sqlSending = `select sending from organisation_settings where org_id = @org`

// Sending reads what an organisation has decided; nothing of one that has decided nothing.
func (s *Store) Sending(ctx context.Context, orgID uuid.UUID) (decided *messagingv1.Sending, err error) {
	defer edge.Mark(&err)
	var stored []byte
	err = s.pool.QueryRow(ctx, sqlSending, postgres.Args{"org": orgID}).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return &messagingv1.Sending{}, nil
	}
	if err != nil {
		return nil, err
	}
	decided = &messagingv1.Sending{}
	later := protojson.UnmarshalOptions{DiscardUnknown: true} // a later release may have written it
	if err := later.Unmarshal(stored, decided); err != nil {
		return nil, fmt.Errorf("%w: the stored settings: %w", sms.ErrUnavailable, err)
	}
	return decided, nil
}

// sqlSetSending takes no version that is older than the one there is, and nothing of an organisation that has ended: it may be forgotten.
// The same version counts again: a database that went back may have counted to it a second time.
const sqlSetSending = `
insert into organisation_settings as o (org_id, sending, retention, version, updated_at)
select @org, @sending::jsonb, coalesce(@retention::jsonb, '{}'), @version::bigint, @at::timestamptz
where not exists (select from organisations g where g.org_id = @org and g.status = 'ended')
on conflict (org_id) do update set version = greatest(o.version, excluded.version),
    sending = case when o.version <= excluded.version then excluded.sending else o.sending end,
    retention = case when o.version <= excluded.version then coalesce(@retention::jsonb, o.retention) else o.retention end,
    updated_at = case when o.version <= excluded.version then excluded.updated_at else o.updated_at end
returning o.version`

// SetSending keeps what an organisation has decided, with the days for which it keeps what; nil leaves those as they are. It returns the
// version that is kept; 0 of one that has ended.
func (s *Store) SetSending(
	ctx context.Context, orgID uuid.UUID, decided *messagingv1.Sending, days map[string]int32, version int64, at time.Time,
) (kept int64, err error) {
	defer edge.Mark(&err)
	written, err := protojson.Marshal(decided)
	if err != nil {
		return 0, err
	}
	args := postgres.Args{"org": orgID, "sending": written, "retention": days, "version": version, "at": at}
	err = s.pool.QueryRow(ctx, sqlSetSending, args).Scan(&kept)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return kept, err
}
