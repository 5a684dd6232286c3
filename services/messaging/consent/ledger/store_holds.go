package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// sqlSetHold takes no version that is older than the one there is.
const sqlSetHold = `
insert into holds as h (org_id, phone, held, version, updated_at) values (@org, @phone, @held, @version, @at)
on conflict (org_id, phone) do update set held = excluded.held, version = excluded.version, updated_at = excluded.updated_at
where h.version < excluded.version`

// SetHold keeps a hold, or that it is lifted, once no claim is under way that has not seen it.
func (s *Store) SetHold(ctx context.Context, h Hold) (err error) {
	defer edge.Mark(&err)
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := postgres.Args{"org": h.OrgID, "phone": h.Phone.String(), "held": h.Held, "version": h.Version, "at": h.At}
		if err := edge.Exec(ctx, tx, sqlLock, args); err != nil {
			return err
		}
		return edge.Exec(ctx, tx, sqlSetHold, args)
	})
}

const sqlHolds = `select org_id, phone, held, version from holds where version > 0 order by org_id, phone`

// KnownHold is an operator's last word about a hold that this database has.
type KnownHold struct {
	OrgID   uuid.UUID
	Phone   string
	Held    bool
	Version int64
}

// Holds lists all that operators have said of holds.
func (s *Store) Holds(ctx context.Context) (all []KnownHold, err error) {
	defer edge.Mark(&err)
	return edge.Collect(ctx, s.pool, sqlHolds, postgres.Args{}, pgx.RowToStructByPos[KnownHold])
}

// sqlHoldByWords holds a person by their message, and leaves a hold of an operator, and its version, as they are. A hold that goes
// on keeps its question.
const sqlHoldByWords = `
insert into holds as h (org_id, phone, held, version, updated_at, unjudged_id, unjudged_at, asked_id)
values (@org, @phone, false, 0, @at, @id, @at, @asked)
on conflict (org_id, phone) do update set unjudged_id = excluded.unjudged_id, unjudged_at = excluded.unjudged_at,
	asked_id = case when h.unjudged_id is null then excluded.asked_id else h.asked_id end`

// sqlJudgeWords ends such a hold, and none of an operator, and takes back a question that was not sent yet.
const sqlJudgeWords = `
with judged as (
	update holds h set unjudged_id = null, unjudged_at = null, asked_id = null from holds was
	where h.org_id = @org and h.phone = @phone and h.unjudged_id is not null and was.org_id = h.org_id and was.phone = h.phone
	returning was.asked_id
)
update consent_replies r set due_at = null, outcome = 'judged' from judged j where r.message_id = j.asked_id and r.due_at is not null`

// HoldByWords holds a person in the transaction that records their words.
func HoldByWords(ctx context.Context, tx pgx.Tx, args postgres.Args) error {
	return edge.Exec(ctx, tx, sqlHoldByWords, args)
}

// JudgeWordsIn ends the hold by words in the transaction that records the words which end it.
func JudgeWordsIn(ctx context.Context, tx pgx.Tx, args postgres.Args) error {
	return edge.Exec(ctx, tx, sqlJudgeWords, args)
}

// JudgeWords ends the hold by words of the person that may be an opt-out.
func (s *Store) JudgeWords(ctx context.Context, orgID uuid.UUID, phone sms.Phone) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(ctx, sqlJudgeWords, postgres.Args{"org": orgID, "phone": phone.String()})
	return err
}

const sqlUnjudged = `select unjudged_id from holds where org_id = @org and phone = @phone and unjudged_id is not null`

// Unjudged is the last message of a person that may be an opt-out and that no operator has judged; uuid.Nil when there is none.
func (s *Store) Unjudged(ctx context.Context, orgID uuid.UUID, phone string) (messageID uuid.UUID, err error) {
	defer edge.Mark(&err)
	err = s.pool.QueryRow(ctx, sqlUnjudged, postgres.Args{"org": orgID, "phone": phone}).Scan(&messageID)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil
	}
	return messageID, err
}

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

// KeepReminders stores whether a person wants reminders.
func KeepReminders(ctx context.Context, tx pgx.Tx, r Reminders) error {
	return edge.Exec(ctx, tx, sqlKeepReminders, postgres.Args{
		"org": r.OrgID, "phone": r.Phone.String(), "off": r.Off, "said": r.SaidAt, "source": string(r.Source), "message": edge.Null(r.MessageID),
		"pack": r.KeywordPack, "at": r.At,
	})
}

// SetReminders keeps what is said about reminders, unless what is kept stands, and returns what is in force, once no claim is under way
// that has not seen it.
func (s *Store) SetReminders(ctx context.Context, r Reminders) (inForce Reminders, err error) {
	defer edge.Mark(&err)
	inForce = Reminders{OrgID: r.OrgID, Phone: r.Phone}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := postgres.Args{"org": r.OrgID, "phone": r.Phone.String()}
		if err := edge.Exec(ctx, tx, sqlLock, args); err != nil {
			return err
		}
		if err := KeepReminders(ctx, tx, r); err != nil {
			return err
		}
		var said time.Time
		err := tx.QueryRow(ctx, sqlReminders, args).Scan(&inForce.Off, &said, &inForce.Source)
		inForce.SaidAt = said.UTC()
		return err
	})
	return inForce, err
}
