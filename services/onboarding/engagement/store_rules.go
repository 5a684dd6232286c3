package engagement

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"paceline.internal/services/onboarding/engagement/rules"
)

const sqlDecided = `select engagement from organisation_settings where org_id = $1 and engagement is not null`

// Decided returns the rules that an organisation has decided; nil of none. Rules that this release cannot read are an error, so that no run
// sends by rules that the organisation has replaced.
func (s *Store) Decided(ctx context.Context, orgID string) (*rules.Config, error) {
	var stored []byte
	err := s.pool.QueryRow(ctx, sqlDecided, orgID).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // the deployment's hold
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules of an organisation: %w", err)
	}
	decided, err := rules.ParseConfig(stored)
	if err != nil {
		return nil, fmt.Errorf("the rules of an organisation: %w", err)
	}
	return &decided, nil
}

// readDecided reads the rules of a person's organisation; nil of none. A text is answered also where a later release has written them.
func readDecided(stored []byte) *rules.Config {
	if stored == nil {
		return nil
	}
	decided, err := rules.ParseConfig(stored)
	if err != nil {
		return nil
	}
	return &decided
}

// OwnRules returns the rules of the organisations that have decided any, of those that ctx may see. It leaves out what it cannot read.
func (s *Store) OwnRules(ctx context.Context) (map[string]rules.Config, error) {
	rows, err := s.pool.Query(ctx, `select org_id::text, engagement from organisation_settings where engagement is not null`)
	if err != nil {
		return nil, fmt.Errorf("read the rules of organisations: %w", err)
	}
	own := map[string]rules.Config{}
	var org string
	var stored []byte
	if _, err = pgx.ForEachRow(rows, []any{&org, &stored}, func() error {
		if decided := readDecided(stored); decided != nil {
			own[org] = *decided
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the rules of organisations: %w", err)
	}
	return own, nil
}
