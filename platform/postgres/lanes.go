package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sqlLane sets a connection of the lanes once as sqlByRow and sqlBrief set a transaction.
const sqlLane = `set plan_cache_mode = force_generic_plan; set enable_hashjoin = off; set enable_mergejoin = off;
	set lock_timeout = '200ms'`

// splitLanes takes from a pool that is not open yet the connections of a second one, for the lanes of combiners: at most laneConns, and at
// most half. Nil for a pool that is too small to be split.
func splitLanes(from *pgxpool.Config) *pgxpool.Config {
	lanes := from.Copy()
	lanes.MaxConns = min(laneConns, from.MaxConns/2)
	from.MaxConns -= lanes.MaxConns
	if lanes.MaxConns < combinerLanes {
		from.MaxConns += lanes.MaxConns
		return nil
	}
	prepare := from.AfterConnect
	lanes.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := prepare(ctx, conn); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, sqlLane)
		return err
	}
	return lanes
}

// openLanes opens a pool that connects when it is used first. Nil for no configuration.
func openLanes(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	if cfg == nil {
		return nil, nil //nolint:nilnil // a pool without lanes is no fault
	}
	lanes, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: open lanes: %w", err)
	}
	return lanes, nil
}
