package engagement

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Each of these changes one preference, tells of it if that changed anything, and withdraws what it forbids.
const (
	sqlPreferBegin = `
with was as (
    select id, reengagement_opt_out, reengagement_changed_at, onboarding_tips_enabled, tips_changed_at, preferred_destination,
        destination_chosen_at
    from profiles where org_id = @org and id = @profile for update
), changed as (
    update profiles p set updated_at = @at, `
	sqlPreferEnd = `
    returning 1
), withdrawn as (
    update engagement_outreach o
    set status = 'cancelled', outcome = 'reminders_off', processed_at = @at, next_retry_at = null, updated_at = @at
    where @name = 'reminders' and @value = 'off' and exists (select from changed) and o.org_id = @org and o.profile_id = @profile
      and o.event_type in ('goodbye', 'reminder', 'weekly_review') and o.status = 'pending' and o.body is null
)
insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
select @event, @org, @type, @profile, @said, @cause, @data from changed, was where `

	sqlPreferReminders = sqlPreferBegin + `reengagement_opt_out = @value = 'off', reengagement_changed_at = @said
    from was where p.id = was.id and (was.reengagement_changed_at is null or was.reengagement_changed_at < @said)` + sqlPreferEnd +
		`was.reengagement_opt_out is distinct from (@value = 'off')`
	sqlPreferTips = sqlPreferBegin + `onboarding_tips_enabled = @value = 'on', tips_changed_at = @said
    from was where p.id = was.id and (was.tips_changed_at is null or was.tips_changed_at < @said)` + sqlPreferEnd +
		`was.onboarding_tips_enabled is distinct from (@value = 'on')`
	sqlPreferDestination = sqlPreferBegin + `preferred_destination = @value, destination_chosen_at = @said
    from was where p.id = was.id and (was.destination_chosen_at is null or was.destination_chosen_at < @said)` + sqlPreferEnd +
		`was.preferred_destination is distinct from @value`
)

// Prefer writes one preference, with its event if it differs from what was preferred. Each has the time of its change, so that a message
// that is worked late does not undo a later one; repeating it changes nothing.
func (s *Store) Prefer(ctx context.Context, p Preference) error {
	data, err := json.Marshal(map[string]any{"preference": p.Name, "value": p.Value, "source": p.Source})
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	sql := map[PreferenceName]string{
		Reminders: sqlPreferReminders, Tips: sqlPreferTips, Destination: sqlPreferDestination,
	}[p.Name]
	if _, err := s.pool.Exec(ctx, sql, postgres.Args{
		"org": p.OrgID, "profile": p.ProfileID, "name": string(p.Name), "value": p.Value, "said": p.Said, "at": p.Now,
		"event": newID(),
		"type":  EventPreferenceChanged, "cause": p.Cause, "data": data,
	}); err != nil {
		return fmt.Errorf("write a preference: %w", err)
	}
	return nil
}

const sqlNoteConsent = `
update profiles set opted_out_at = case when @out then @said::timestamptz end, consent_changed_at = @said, updated_at = @at
where org_id = @org and id = @profile and (consent_changed_at is null or consent_changed_at < @said)`

// NoteConsent copies a change of consent, unless a later one is known.
func (s *Store) NoteConsent(ctx context.Context, orgID, profileID string, optedOut bool, said, now time.Time) error {
	_, err := s.pool.Exec(ctx, sqlNoteConsent, postgres.Args{"org": orgID, "profile": profileID, "out": optedOut, "said": said, "at": now})
	if err != nil {
		return fmt.Errorf("copy a change of consent: %w", err)
	}
	return nil
}

// maxHousehold bounds the members of a household: each message to a group is one send for each.
const maxHousehold = 20

// The household is locked by its members, so that two who join at once are counted one after the other.
const sqlJoinHousehold = `
with person as (
    select id, org_id from profiles where org_id = @org and id = @profile
), members as (
    select m.profile_id from household_members m
    where m.org_id = @org and m.household_id = @household and m.profile_id <> @profile for update
)
insert into household_members as h (profile_id, org_id, household_id, created_at)
select id, org_id, @household, @at from person where (select count(*) from members) < @most
on conflict (profile_id) do update set household_id = excluded.household_id, created_at = excluded.created_at
returning 1`

const sqlLeaveHousehold = `delete from household_members where org_id = $1 and profile_id = $2`

const sqlProfileExists = `select exists (select from profiles where org_id = $1 and id = $2)`

// JoinHousehold puts a person into a household, or takes them out of it if it is empty; ErrNoPerson,
// ErrHouseholdFull.
func (s *Store) JoinHousehold(ctx context.Context, orgID, profileID, householdID string, now time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var known bool
		if err := tx.QueryRow(ctx, sqlProfileExists, orgID, profileID).Scan(&known); err != nil {
			return fmt.Errorf("read a profile: %w", err)
		}
		if !known {
			return ErrNoPerson
		}
		sql, args := sqlLeaveHousehold, []any{orgID, profileID}
		if householdID != "" {
			sql, args = sqlJoinHousehold, []any{postgres.Args{
				"org": orgID, "profile": profileID, "household": householdID, "at": now, "most": maxHousehold,
			}}
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return fmt.Errorf("change a household: %w", err)
		}
		if householdID != "" && tag.RowsAffected() == 0 {
			return ErrHouseholdFull
		}
		return nil
	})
}
