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

// openLanes opens a second pool for the lanes of combiners, and takes its connections from a pool that is not open yet: at most laneConns,
// and at most half. It connects when it is used first. Nil for a pool that is too small to be split.
func openLanes(ctx context.Context, from *pgxpool.Config) (*pgxpool.Pool, error) {
	cfg := from.Copy()
	cfg.MaxConns = min(laneConns, from.MaxConns/2)
	if cfg.MaxConns < combinerLanes {
		return nil, nil //nolint:nilnil // a pool without lanes is no fault
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := from.AfterConnect(ctx, conn); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, sqlLane)
		return err
	}
	lanes, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: open lanes: %w", err)
	}
	from.MaxConns -= cfg.MaxConns
	return lanes, nil
}
