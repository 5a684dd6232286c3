package people

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"paceline.internal/services/onboarding/engagement/rules"
)

// SQLEngagement has the rules of engagement that the organisation of a person, p, has decided, as they are stored; null for none.
const SQLEngagement = `(select o.engagement from organisation_settings o where o.org_id = p.org_id)`

// SQLEngagementTexts has the texts of engagement that the organisation of a person, p, has decided, as they are stored; null for none.
const SQLEngagementTexts = `(select o.engagement_texts from organisation_settings o where o.org_id = p.org_id)`

const sqlEngagement = `select engagement from organisation_settings where org_id = $1 and engagement is not null`

// EngagementRules returns the rules of engagement that an organisation has decided; nil of none. Rules that this release cannot read
// are ErrLaterRules, so that nothing is sent by rules that the organisation has replaced.
func (s *Store) EngagementRules(ctx context.Context, orgID string) (*rules.Config, error) {
	var stored []byte
	err := s.pool.QueryRow(ctx, sqlEngagement, orgID).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // the deployment's hold
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules of an organisation: %w", err)
	}
	return ReadEngagement(stored)
}

// ReadEngagement reads stored rules of engagement; nil of none. ErrLaterRules.
func ReadEngagement(stored []byte) (*rules.Config, error) {
	if stored == nil {
		return nil, nil //nolint:nilnil // the deployment's hold
	}
	decided, err := rules.ParseConfig(stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLaterRules, err)
	}
	return &decided, nil
}

const sqlCalendars = `
select org_id::text, jsonb_build_object('daily_at', engagement -> 'daily_at', 'weekly_on', engagement -> 'weekly_on',
    'weekly_at', engagement -> 'weekly_at')
from organisation_settings where engagement is not null`

// EngagementCalendars returns when the runs of the organisations begin that have decided their rules of engagement, of those that ctx may
// see. It reads no more of the rules, because every collection of metrics asks for it, and leaves out what it cannot read.
func (s *Store) EngagementCalendars(ctx context.Context) (map[string]rules.Calendar, error) {
	rows, err := s.pool.Query(ctx, sqlCalendars)
	if err != nil {
		return nil, fmt.Errorf("read the calendars of organisations: %w", err)
	}
	own := map[string]rules.Calendar{}
	var org string
	var stored []byte
	if _, err = pgx.ForEachRow(rows, []any{&org, &stored}, func() error {
		if calendar, err := rules.ParseCalendar(stored); err == nil {
			own[org] = calendar
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the calendars of organisations: %w", err)
	}
	return own, nil
}
