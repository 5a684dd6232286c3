package cells

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/services/messaging/senders"
)

const sqlLeave = `update organisations set move = $2, reason = 'it moves to another cell', changed_at = $3 where org_id = $1`

// leave has the source turn callers away. It goes on sending, and takes what Twilio posts, so that a STOP waits for nothing. The
// organisation may have been suspended or ended since it was read first, and messaging may still have to be told: both stay.
func (m *Mover) leave(ctx context.Context) (there organisation, err error) {
	d := m.from.onboarding
	err = pgx.BeginFunc(ctx, d.Conn, func(tx pgx.Tx) error {
		if there, err = d.organisationIn(ctx, tx, " for update"); err != nil {
			return err
		}
		if there.state() == leaving {
			return nil
		}
		if err := m.movable(there); err != nil {
			return err
		}
		there.Move = &move{State: leaving, Was: there.Status, At: m.Now(), To: m.place}
		text, err := json.Marshal(there.Move)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlLeave, m.Org, string(text), m.Now())
		return d.wrap("write the organisation", err)
	})
	if err == nil {
		m.Say("the source turns its callers away")
	}
	return there, err
}

// suspend has nothing more be claimed at the source. Messaging is told first.
func (m *Mover) suspend(ctx context.Context, there organisation) (organisation, error) {
	if there.Status != "suspended" {
		there.Status, there.Version = "suspended", there.Version+1
	}
	of, err := m.senders(ctx)
	if err != nil {
		return there, err
	}
	told, knows := there, *there.Move
	knows.Senders, told.Move = of, &knows
	err = m.from.messaging.keep(ctx, told, "", m.Now())
	if err == nil {
		err = m.from.onboarding.keep(ctx, there, "it moves to another cell", m.Now())
	}
	m.Say("it is suspended at the source: the pause begins")
	return there, err
}

// close ends all work of the source, and makes the target the same.
func (m *Mover) close(ctx context.Context, moved moving, there organisation) (_ organisation, _ []Counted, err error) {
	standing := "the source turns the organisation's callers away"
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s: repeat the command to go on, or give it up with --cancel", err, standing)
		}
	}()
	turned := m.Machine()
	if _, err := m.pass(ctx, &moved); err != nil { // meanwhile gateways learn of it
		return there, nil, err
	}
	if err := pause(ctx, m.Settle-m.Machine().Sub(turned)); err != nil {
		return there, nil, err
	}
	if there, err = m.suspend(ctx, there); err != nil {
		return there, nil, err
	}
	standing = "the organisation is suspended at the source"
	began := m.Machine()
	if err := m.awaitSends(ctx); err != nil {
		return there, nil, err
	}
	err = m.from.each(func(d *database) error {
		if err := d.behind(ctx, func(tx pgx.Tx) error { return d.raise(ctx, tx, true) }); err != nil {
			return err
		}
		return d.checkFenced(ctx)
	})
	if err != nil {
		return there, nil, err
	}
	changed, err := m.pass(ctx, &moved)
	if err != nil {
		return there, nil, err
	}
	m.Say(fmt.Sprintf("the source is fenced; the last pass wrote %d rows", changed))
	counted, err := m.seal(ctx, moved)
	if err == nil {
		m.Say(fmt.Sprintf("both sides are the same, %s into the pause", m.Machine().Sub(began).Round(100*time.Millisecond)))
	}
	return there, counted, err
}

// seal makes what the source has usable at the target, and counts both.
func (m *Mover) seal(ctx context.Context, moved moving) ([]Counted, error) {
	if err := m.reseal(ctx); err != nil {
		return nil, err
	}
	counted, err := same(ctx, m.from.messaging, m.to.messaging, moved.messaging, moved.same[0])
	if err != nil {
		return nil, err
	}
	more, err := same(ctx, m.from.onboarding, m.to.onboarding, moved.onboarding, moved.same[1])
	if err != nil {
		return nil, err
	}
	return append(counted, more...), errors.Join(withinReserved(ctx, m.to.messaging, moved.messaging),
		withinReserved(ctx, m.to.onboarding, moved.onboarding))
}

const sqlUnderWay = `select count(*) from sms_messages where org_id = $1 and status = 'sending' and lease_until > $2`

// awaitSends waits until no send is under way. What is under way after that is copied as it is, and settled by evidence.
func (m *Mover) awaitSends(ctx context.Context) error {
	for since := m.Machine(); ; {
		var n int
		if err := m.from.messaging.one(ctx, "count sends under way", sqlUnderWay, []any{m.Org, m.Now()}, &n); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if m.Machine().Sub(since) >= underWay {
			m.Say(fmt.Sprintf("%d sends are still under way: they are settled at the target", n))
			return nil
		}
		if err := pause(ctx, poll); err != nil {
			return err
		}
	}
}

// reseal seals the credentials of the senders with the keyset of the target.
func (m *Mover) reseal(ctx context.Context) error {
	rows, err := m.from.messaging.Query(ctx, `select id, api_key_secret, auth_token, next_auth_token from senders where org_id = $1`, m.Org)
	if err != nil {
		return m.from.messaging.wrap("read senders", err)
	}
	type stored struct {
		ID                       uuid.UUID
		APIKeySecret, Token, New []byte
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	if err != nil || len(all) == 0 {
		return m.from.messaging.wrap("read senders", err)
	}
	from, err := senders.ParseKeyset(m.Source["SENDER_KEYSET"])
	if err != nil {
		return fmt.Errorf("SENDER_KEYSET of the source %w", err)
	}
	to, err := senders.ParseKeyset(m.Target["SENDER_KEYSET"])
	if err != nil {
		return fmt.Errorf("SENDER_KEYSET of the target %w", err)
	}
	for _, s := range all {
		sealed, err := senders.Reseal(from, to, m.Org, s.ID,
			map[string][]byte{"api_key_secret": s.APIKeySecret, "auth_token": s.Token, "next_auth_token": s.New})
		if err != nil {
			return err
		}
		_, err = m.to.messaging.Exec(ctx, `
update senders set api_key_secret = $3, auth_token = $4, next_auth_token = $5 where org_id = $1 and id = $2`,
			m.Org, s.ID, sealed["api_key_secret"], sealed["auth_token"], sealed["next_auth_token"])
		if err != nil {
			return m.to.messaging.wrap("seal credentials", err)
		}
	}
	m.Say(fmt.Sprintf("the credentials of %d senders are sealed with the target's keyset", len(all)))
	return nil
}
