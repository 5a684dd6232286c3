package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbox"
)

// sqlKeepReminders keeps what was said last: what was said before, or at the very same time, changes nothing. While the person's own words
// have switched reminders off, an operator changes nothing either, neither on nor off. It runs under the phone's lock, so that it comes
// before a claim, which then sees it, or after it.
const sqlKeepReminders = `
insert into reminder_preferences as r (org_id, phone, off, said_at, source, message_id, keyword_pack, updated_at)
values (@org, @phone, @off, @said, @source, @message, @pack, @at)
on conflict (org_id, phone) do update set off = excluded.off, said_at = excluded.said_at, source = excluded.source,
	message_id = excluded.message_id, keyword_pack = excluded.keyword_pack, updated_at = excluded.updated_at
where r.said_at < excluded.said_at and not (r.off and r.source = 'person' and excluded.source = 'operator')`

const sqlReminders = `select off, said_at, source from reminder_preferences where org_id = @org and phone = @phone`

func keepReminders(ctx context.Context, tx pgx.Tx, r inbox.Reminders) error {
	return exec(ctx, tx, sqlKeepReminders, postgres.Args{
		"org": r.OrgID, "phone": r.Phone.String(), "off": r.Off, "said": r.SaidAt, "source": string(r.Source), "message": null(r.MessageID),
		"pack": r.KeywordPack, "at": r.At,
	})
}

// SetReminders keeps what is said about reminders, unless what is kept stands, and returns what is in force, once no claim is under way
// that has not seen it.
func (s *Store) SetReminders(ctx context.Context, r inbox.Reminders) (inForce inbox.Reminders, err error) {
	defer mark(&err)
	inForce = inbox.Reminders{OrgID: r.OrgID, Phone: r.Phone}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := postgres.Args{"org": r.OrgID, "phone": r.Phone.String()}
		if err := exec(ctx, tx, sqlLock, args); err != nil {
			return err
		}
		if err := keepReminders(ctx, tx, r); err != nil {
			return err
		}
		var said time.Time
		err := tx.QueryRow(ctx, sqlReminders, args).Scan(&inForce.Off, &said, &inForce.Source)
		inForce.SaidAt = said.UTC()
		return err
	})
	return inForce, err
}

// storedSwitch is null when nothing is asked.
func storedSwitch(s consent.Switch) *string {
	if s == consent.Unsaid {
		return nil
	}
	return new(s.String())
}
