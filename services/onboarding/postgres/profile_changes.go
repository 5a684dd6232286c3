package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/conversation"
)

// sqlLockProfile keeps out whatever begins for the person: an activation locks them, and a row that names them waits for this by its
// foreign key.
const sqlLockProfile = sqlProfile + ` for update`

// sqlOpenOf is what is not at its end of a person who is locked.
const sqlOpenOf = `
select coalesce(s.id::text, ''), coalesce(s.status, ''), coalesce(s.next_step_id, ''),
       exists (select from webhook_jobs j where j.org_id = @org_id and j.subject = @phone and j.status in ('pending', 'processing'))
           or exists (select from webhook_jobs j
               where j.org_id = @org_id and j.subject = 'opening:' || s.id and j.status in ('pending', 'processing')),
       coalesce((select o.id::text from engagement_outreach o
           where o.org_id = @org_id and o.subject = @phone and o.subject <> '' and o.status in ('pending', 'processing')
           order by o.id limit 1), ''),
       coalesce((select g.id::text from goals g join devices d on d.id = g.device_id
           where g.profile_id = @id and g.status in ('scheduled', 'running') and d.kind = 'phone' order by g.id limit 1), '')
from (select) one left join lateral (
    select s.id, s.status, s.next_step_id from conversation_sessions s
    where s.profile_id = @id and s.status not in ('stopped', 'closed') order by s.status = 'active' desc, s.id desc limit 1) s on true`

// sqlChangeProfile also forgets since when it is known that a phone has opted out: of a new one that is not known. That they had opted out
// stays until they are activated anew: a no goes along, a yes does not.
const sqlChangeProfile = `
update profiles
set first_name = @first_name, locale = @locale, time_zone = @time_zone, time_zone_guessed = @guessed, phone = @phone, updated_at = @at,
    consent_changed_at = case when phone = @phone then consent_changed_at end
where org_id = @org_id and id = @id
returning ` + profileColumns

// ChangeProfile makes a person who is as they were into what they are to be, unless something of theirs is open that forbids it, of which
// messaging's part is given. Errors: conversation.ErrNoProfile, those of conversation.MayChange, conversation.ErrPhoneTaken,
// conversation.ErrConflict.
func (s *Store) ChangeProfile(
	ctx context.Context, was, is conversation.Profile, unfinished conversation.Unfinished, at time.Time,
) (conversation.Profile, error) {
	var changed conversation.Profile
	args := postgres.Args{"org_id": was.OrgID, "id": was.ID, "phone": was.Phone}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		now, err := collectProfile(tx.Query(ctx, sqlLockProfile, args))
		if err != nil {
			return err
		}
		if err := notBegun(ctx, tx, was.ID); err != nil { // of the number that the erasure knows
			return err
		}
		if now.Phone != was.Phone || now.FirstName != was.FirstName || now.Locale != was.Locale || now.TimeZone != was.TimeZone {
			return conversation.ErrConflict
		}
		open, err := openOf(ctx, tx, now, args)
		if err != nil {
			return err
		}
		open.Unfinished = unfinished
		if err := conversation.MayChange(now, is, open); err != nil {
			return err
		}
		changed, err = collectProfile(tx.Query(ctx, sqlChangeProfile, postgres.Args{
			"org_id": was.OrgID, "id": was.ID, "first_name": is.FirstName, "locale": is.Locale, "time_zone": is.TimeZone,
			"guessed": is.TimeZoneGuessed,
			"phone":   is.Phone, "at": at,
		}))
		return err
	})
	if postgres.IsUniqueViolation(err, "profiles_org_id_phone_key") {
		return conversation.Profile{}, conversation.ErrPhoneTaken
	}
	return changed, err
}

func openOf(ctx context.Context, tx pgx.Tx, p conversation.Profile, args postgres.Args) (conversation.Open, error) {
	open := conversation.Open{HoldUnforwarded: p.HoldForwarded != p.HoldVersion}
	err := tx.QueryRow(ctx, sqlOpenOf, args).Scan(
		&open.Session.ID, &open.Session.Status, &open.Session.NextStep, &open.Working, &open.OutreachID, &open.GoalID)
	if err == nil {
		err = tx.QueryRow(ctx, sqlAwaitsOperator, p.OrgID, p.Phone).Scan(&open.AwaitsOperator)
	}
	if err != nil {
		return open, fmt.Errorf("read what is open of a person: %w", err)
	}
	return open, nil
}
