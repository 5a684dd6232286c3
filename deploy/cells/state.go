package cells

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// States of an organisation that moves, as its row in either database of either cell has them. No row means that it is nowhere but where
// it is active.
const (
	leaving  = "leaving"  // at the source: its callers are turned away, later it is suspended, until the target has all
	left     = "left"     // at the source: the target may act; nothing is copied any more
	released = "released" // at the source: its rows may be erased
	arriving = "arriving" // at the target: behind the fence, until it opens
)

// move is the column of that name in the table organisations.
type move struct {
	State string `json:"state"`
	// Was is the status that the organisation had, and has again after a move that was given up: active or suspended.
	Was string `json:"was,omitempty"`
	// Opens is the status that it gets at the target, once it has left.
	Opens string    `json:"opens,omitempty"`
	At    time.Time `json:"at"`
	// To is the target's database of onboarding, so that no second target is opened.
	To string `json:"to,omitempty"`
	// Shifts are the target's: see shift.
	Shifts map[string]shift `json:"shifts,omitempty"`
	// Senders are messaging's, with which it recognises the callbacks of an organisation that it does not see.
	Senders []Sender `json:"senders,omitempty"`
}

// Sender names what an organisation sends from at Twilio: a number, a messaging service or both.
type Sender struct {
	Account string `json:"account"`
	Number  string `json:"number"`
	Service string `json:"service"`
}

// organisation is its row in one database. The zero value means that there is none.
type organisation struct {
	Name, Status string
	Version      int64
	CreatedAt    time.Time
	Move         *move
}

func (d *database) organisation(ctx context.Context) (organisation, error) {
	return d.organisationIn(ctx, d.Conn, "")
}

// rower is a session or a transaction.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// organisationIn reads the row; lock is empty, or " for update".
func (d *database) organisationIn(ctx context.Context, in rower, lock string) (o organisation, err error) {
	sql := `select '', status, version, updated_at, move from organisations where org_id = $1`
	if d.service == "onboarding" {
		sql = `select name, wanted, version, created_at, move from organisations where org_id = $1`
	}
	var kept []byte
	err = in.QueryRow(ctx, sql+lock, d.org).Scan(&o.Name, &o.Status, &o.Version, &o.CreatedAt, &kept)
	if errors.Is(err, pgx.ErrNoRows) {
		return organisation{}, nil
	}
	if err == nil && kept != nil {
		o.Move = new(move)
		err = json.Unmarshal(kept, o.Move)
	}
	return o, d.wrap("read the organisation", err)
}

func (o organisation) state() string {
	if o.Move == nil {
		return ""
	}
	return o.Move.State
}

const (
	sqlWriteOnboarding = `
insert into organisations as o (org_id, name, status, wanted, version, reason, changed_at, created_at, move)
values ($1, $2, $3, $3, $4, $5, $6, $7, $8)
on conflict (org_id) do update set name = $2, status = $3, wanted = $3, version = $4, reason = $5, changed_at = $6, move = $8,
    erase_after = null, erased_at = null, next_try_at = null, waits_for = '', tries = 0`
	sqlWriteMessaging = `
insert into organisations as o (org_id, status, version, updated_at, move) values ($1, $2, $3, $4, $5)
on conflict (org_id) do update set status = $2, version = $3, updated_at = $4, move = $5`
)

// write keeps the row of an organisation.
func (d *database) write(ctx context.Context, tx pgx.Tx, o organisation, reason string, now time.Time) error {
	var kept any
	if o.Move != nil {
		text, err := json.Marshal(o.Move)
		if err != nil {
			return err
		}
		kept = string(text)
	}
	var err error
	if d.service == "onboarding" {
		_, err = tx.Exec(ctx, sqlWriteOnboarding, d.org, o.Name, o.Status, o.Version, reason, now, o.CreatedAt, kept)
	} else {
		_, err = tx.Exec(ctx, sqlWriteMessaging, d.org, o.Status, max(o.Version, 1), now, kept)
	}
	return d.wrap("write the organisation", err)
}

// keep is write in one transaction.
func (d *database) keep(ctx context.Context, o organisation, reason string, now time.Time) error {
	return pgx.BeginFunc(ctx, d.Conn, func(tx pgx.Tx) error { return d.write(ctx, tx, o, reason, now) })
}

// shift moves the numbers of a counter that the target counts by itself: a moved row gets its number and By. Until bounds what it may
// become; the counter of the target goes on behind it, so that what comes later also has the higher number.
type shift struct {
	By    int64 `json:"by"`
	Until int64 `json:"until"`
}

// reserved are the numbers that a move takes from a counter. The source counts on meanwhile, for all its organisations.
const reserved = 1 << 32

// slack is more than others take from a sequence between two statements.
const slack = 1 << 20

// span has two numbers of a counter of the source: the lowest number of the organisation's rows, or of the first one that it gets, and
// the last number of all.
type span struct{ lowest, last int64 }

// spans reads the counters of the source.
func (d *database) spans(ctx context.Context) (map[string]span, error) {
	all := map[string]span{}
	for _, t := range d.tables {
		for column, counter := range t.Shift {
			var s span
			sql := "select coalesce((select min(" + column + ")" + d.shape(t, nil).of + "), last_seq + 1), last_seq from event_feed"
			if counter != feed {
				var sequence string
				err := d.one(ctx, "find the counter of "+t.Name, "select pg_get_serial_sequence('public."+t.Name+"', $1)", []any{column}, &sequence)
				if err != nil {
					return nil, err
				}
				sql = "select coalesce((select min(" + column + ")" + d.shape(t, nil).of + "), last_value), last_value from " + sequence
			} else if t.Name != "events" {
				continue // they name events
			}
			if err := d.one(ctx, "read the counter of "+t.Name, sql, nil, &s.lowest, &s.last); err != nil {
				return nil, err
			}
			all[counter] = s
		}
	}
	return all, nil
}

// enough reports whether shifts have room for what the source may count yet.
func enough(shifts map[string]shift, source map[string]span) bool {
	for counter, s := range source {
		if s.last+shifts[counter].By > shifts[counter].Until-reserved/2 {
			return false
		}
	}
	return true
}

// reserve takes numbers at the target.
func reserve(ctx context.Context, tx pgx.Tx, to *database, source map[string]span) (map[string]shift, error) {
	all := map[string]shift{}
	for counter, s := range source {
		next, set := `select last_seq + 1 from event_feed for update`, `update event_feed set last_seq = $1`
		if table, column, isSequence := strings.Cut(counter, "."); isSequence {
			sequence := fmt.Sprintf("pg_get_serial_sequence('public.%s', '%s')", table, column)
			next, set = fmt.Sprintf("select nextval(%s) + %d", sequence, slack), "select setval("+sequence+", $1)"
		}
		var first int64
		if err := tx.QueryRow(ctx, next).Scan(&first); err != nil {
			return nil, to.wrap("reserve numbers of "+counter, err)
		}
		by := max(0, first-s.lowest)
		all[counter] = shift{By: by, Until: s.last + by + reserved}
		if _, err := tx.Exec(ctx, set, all[counter].Until); err != nil {
			return nil, to.wrap("reserve numbers of "+counter, err)
		}
	}
	return all, nil
}

// withinReserved fails if the source has counted further than was reserved.
func withinReserved(ctx context.Context, to *database, shifts map[string]shift) error {
	for _, t := range to.tables {
		for column, counter := range t.Shift {
			if strings.HasPrefix(t.Name, "event_") && counter == feed {
				continue // they name events
			}
			var highest int64
			of := to.shape(t, nil).of
			if err := to.one(ctx, "find the highest number of "+t.Name, "select coalesce(max("+column+"), 0)"+of, nil, &highest); err != nil {
				return err
			}
			if highest > shifts[counter].Until {
				return fmt.Errorf("table %s: the source has counted beyond the %d numbers that were reserved", t.Name, int64(reserved))
			}
		}
	}
	return nil
}
