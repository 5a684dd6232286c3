package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const sqlRecordedTexts = `select twilio_sid from sms_messages where twilio_sid = any(@sids) and direction = 'inbound'`

// RecordedTexts are those of the SIDs whose texts RecordInbound has stored.
func (s *Store) RecordedTexts(ctx context.Context, sids []string) (recorded []string, err error) {
	if len(sids) == 0 {
		return nil, nil
	}
	defer mark(&err)
	rows, err := s.pool.Query(ctx, sqlRecordedTexts, pgx.NamedArgs{"sids": sids})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
