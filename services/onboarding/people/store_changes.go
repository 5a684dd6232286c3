package people

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/erasure"
)

// sqlLockProfile keeps out whatever begins for the person: an activation locks them, and a row that names them waits for this by its
// foreign key.
const sqlLockProfile = sqlProfile + ` for update`

// sqlChangeProfile also forgets since when it is known that a phone has opted out: of a new one that is not known. That they had opted out
// stays until they are activated anew: a no goes along, a yes does not.
const sqlChangeProfile = `
update profiles
set first_name = @first_name, locale = @locale, time_zone = @time_zone, time_zone_guessed = @guessed, phone = @phone, updated_at = @at,
    consent_changed_at = case when phone = @phone then consent_changed_at end
where org_id = @org_id and id = @id
returning ` + profileColumns

// ChangeProfile makes a person who is as they were into what they are to be, unless their open work forbids it, of which
// messaging's part is given. Errors: ErrNoProfile, those of MayChange, ErrPhoneTaken,
// ErrConflict.
func (s *Store) ChangeProfile(
	ctx context.Context, was, is Profile, fieldChange FieldChange, unfinished Unfinished, at time.Time,
) (Profile, error) {
	var changed Profile
	args := postgres.Args{"org_id": was.OrgID, "id": was.ID, "phone": was.Phone}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		now, err := collectProfile(tx.Query(ctx, sqlLockProfile, args))
		if err != nil {
			return err
		}
		if err := erasure.NotBegun(ctx, tx, was.ID); err != nil { // of the number that the erasure knows
			return err
		}
		if now.Phone != was.Phone || now.FirstName != was.FirstName || now.Locale != was.Locale || now.TimeZone != was.TimeZone {
			return ErrConflict
		}
		open := Open{Unfinished: unfinished, HoldUnforwarded: now.HoldForwarded != now.HoldVersion}
		for _, ask := range s.Opens {
			if err := ask(ctx, tx, now, &open); err != nil {
				return err
			}
		}
		kept, err := fields(ctx, tx, was.OrgID, was.ID)
		if err != nil {
			return err
		}
		differs, err := fieldChange.changes(kept)
		if err != nil {
			return err
		}
		if err := MayChange(now, is, differs, open); err != nil {
			return err
		}
		if err := SetFields(ctx, tx, was.OrgID, was.ID, fieldChange, at); err != nil {
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
		return Profile{}, ErrPhoneTaken
	}
	return changed, err
}
