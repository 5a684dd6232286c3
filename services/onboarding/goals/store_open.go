package goals

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"paceline.internal/services/onboarding/people"
)

const sqlOpenByPhone = `
select g.id::text from goals g join devices d on d.id = g.device_id
where g.profile_id = $1 and g.status in ('scheduled', 'running') and d.kind = 'phone' order by g.id limit 1`

// OpenOf adds the goal that is to be texted to a person who is locked.
func OpenOf(ctx context.Context, tx pgx.Tx, p people.Profile, open *people.Open) error {
	err := tx.QueryRow(ctx, sqlOpenByPhone, p.ID).Scan(&open.GoalID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read the open goal of a person: %w", err)
	}
	return nil
}
