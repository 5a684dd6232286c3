package overview

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// sqlCompleted counts up to a limit in each period.
const sqlCompleted = `
select (select count(*) from (
    select from conversation_sessions s
    where s.org_id = @org and s.completed_at >= u.begins and s.completed_at < u.ends limit @most) n)::int
from unnest(@begins::timestamptz[], @ends::timestamptz[]) with ordinality u (begins, ends, place) order by u.place`

// Completed counts the sessions that were completed between each edge and the next, each up to a limit.
func (s *Store) Completed(ctx context.Context, orgID string, edges []time.Time, most int) ([]int, error) {
	last := len(edges) - 1
	found, err := postgres.AllInOrder(ctx, s.pool, sqlCompleted, postgres.Args{
		"org": orgID, "begins": edges[:last], "ends": edges[1:], "most": most,
	}, pgx.RowTo[int])
	if err != nil {
		return nil, fmt.Errorf("count completed sessions: %w", err)
	}
	return found, nil
}
