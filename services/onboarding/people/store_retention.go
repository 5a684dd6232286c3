package people

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Names, in the settings of an organisation, of what it may keep for a time that it chooses.
const (
	KeepsTimeline   = "timeline"
	KeepsAlarms     = "alarms"
	KeepsEngagement = "engagement"
	KeepsAudit      = "audit"
)

const sqlOwnRetention = `
select o.org_id::text, k.key, k.value::integer
from organisation_settings o cross join jsonb_each_text(o.retention) k where o.retention <> '{}'`

// OwnRetention returns how long organisations have decided to keep something, by organisation and by its name.
func (s *Store) OwnRetention(ctx context.Context) (map[string]map[string]time.Duration, error) {
	rows, err := s.pool.Query(ctx, sqlOwnRetention)
	if err != nil {
		return nil, err
	}
	own := map[string]map[string]time.Duration{}
	var org, kind string
	var days int
	_, err = pgx.ForEachRow(rows, []any{&org, &kind, &days}, func() error {
		if own[org] == nil {
			own[org] = map[string]time.Duration{}
		}
		own[org][kind] = time.Duration(days) * 24 * time.Hour
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the retention of organisations: %w", err)
	}
	return own, nil
}
