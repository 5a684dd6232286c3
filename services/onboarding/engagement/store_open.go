package engagement

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"paceline.internal/services/onboarding/people"
)

const sqlOpenOutreach = `
select o.id::text from engagement_outreach o
where o.org_id = $1 and o.subject = $2 and o.subject <> '' and o.status in ('pending', 'processing') order by o.id limit 1`

// OpenOf adds the outreach that waits for a person who is locked.
func OpenOf(ctx context.Context, tx pgx.Tx, p people.Profile, open *people.Open) error {
	err := tx.QueryRow(ctx, sqlOpenOutreach, p.OrgID, p.Phone).Scan(&open.OutreachID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read the open outreach of a person: %w", err)
	}
	return nil
}
