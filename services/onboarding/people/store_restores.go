package people

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/platform/postgres"
)

const sqlForgetForwarded = `update profiles set hold_told = 0 where hold_version > 0 and hold_told > 0`

// ForgetForwarded has all holds forwarded again: messaging may have lost them.
func (s *Store) ForgetForwarded(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, sqlForgetForwarded); err != nil {
		return fmt.Errorf("have holds forwarded again: %w", err)
	}
	return nil
}

// HoldsToForward counts the holds, and the ends of holds, that messaging does not know.
func (s *Store) HoldsToForward(ctx context.Context) (n int, err error) {
	if err := s.pool.QueryRow(ctx, `select count(*) from profiles where hold_told <> hold_version`).Scan(&n); err != nil {
		return 0, fmt.Errorf("look for holds to forward: %w", err)
	}
	return n, nil
}

// ProfileByPhone reads a profile; ErrNoProfile when nobody of the organisation has the number.
func (s *Store) ProfileByPhone(ctx context.Context, orgID, phone string) (Profile, error) {
	return collectProfile(s.pool.Query(ctx, sqlProfileByPhone, postgres.Args{"org_id": orgID, "phone": phone}))
}

// sqlNewerHold gives a hold a version that is later than what messaging has.
const sqlNewerHold = `
update profiles set hold_version = greatest(hold_version + 1, (extract(epoch from @at::timestamptz) * 1000000)::bigint), updated_at = @at
where org_id = @org_id and id = @id and hold`

// HoldAnew holds a person with a reason, also at messaging when that has heard something later. Whoever is held already keeps their reason.
func (s *Store) HoldAnew(ctx context.Context, p Profile, reason string, at time.Time) error {
	held, err := s.SetHold(ctx, p.OrgID, p.ID, reason, at)
	if err != nil || held.HoldVersion != p.HoldVersion {
		return err
	}
	if _, err := s.pool.Exec(ctx, sqlNewerHold, postgres.Args{"org_id": p.OrgID, "id": p.ID, "at": at}); err != nil {
		return fmt.Errorf("forward a hold again: %w", err)
	}
	return nil
}

// HeldFor counts the people who are held for reasons that begin with a text.
func (s *Store) HeldFor(ctx context.Context, reason string) (n int, err error) {
	if err := s.pool.QueryRow(ctx, `select count(*) from profiles where hold and starts_with(hold_reason, $1)`, reason).Scan(&n); err != nil {
		return 0, fmt.Errorf("count who is held: %w", err)
	}
	return n, nil
}
