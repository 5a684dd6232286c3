package anchor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
)

// Store reads and marks the ledgers that anchors hold.
type Store struct {
	Pool       postgres.DB
	Pseudonyms consent.Pseudonyms // reads what is left of erased ledgers; may have no key
}

// sqlAnchorTurn is false while another replica anchors.
const sqlAnchorTurn = `select pg_try_advisory_xact_lock(hashtextextended('ledger anchors', 0))`

const sqlLastAnchor = `select number, hash from ledger_anchors order by number desc limit 1`

// sqlNameLedgers names ledgers that are older than names. It is committed before an anchor says the name, so that a crash does not lose it,
// and an erasure keeps it.
const sqlNameLedgers = `
update consents c set ledger_id = gen_random_uuid() from (
	select org_id, phone from consents where anchored < chain_length order by org_id, phone limit @limit
) due where c.org_id = due.org_id and c.phone = due.phone and c.ledger_id is null`

// sqlToAnchor locks nothing: a phone that changes meanwhile is due again. One that has no name yet gets it in the next round.
const sqlToAnchor = `
with due as materialized (
	select org_id, phone, ledger_id from consents where anchored < chain_length and ledger_id is not null order by org_id, phone limit @limit
)
` + sqlLines + ` from due d join consent_events e using (org_id, phone) order by d.ledger_id, e.id`

const sqlLines = `
select d.ledger_id, e.org_id::text, e.phone, e.at, e.state, e.source, e.words, e.sender, coalesce(e.message_id::text, '') as message_id,
	e.keyword_pack, e.rules_version, e.confirmed_by, e.confirmation, coalesce(e.actor::text, '') as actor`

const sqlAnchored = `
update consents c set anchored = greatest(c.anchored, u.lines)
from unnest(@ledger::uuid[], @lines::bigint[]) u (ledger, lines) where c.ledger_id = u.ledger`

const sqlKeepAnchor = `insert into ledger_anchors (number, at, ledgers, hash) values (@number, @at, @ledgers, @hash)`

// AnchorLedgers is the Due of a Writer. The file is written inside the transaction, which holds nothing then but the turn.
func (s *Store) AnchorLedgers(
	ctx context.Context, limit int, write func(last Last, due []Ledger) (*Statement, error),
) (anchored int, err error) {
	defer edge.Mark(&err)
	if _, err := s.Pool.Exec(ctx, sqlNameLedgers, postgres.Args{"limit": limit}); err != nil {
		return 0, err
	}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var ours bool
		if err := tx.QueryRow(ctx, sqlAnchorTurn).Scan(&ours); err != nil || !ours {
			return err
		}
		var last Last
		if err := tx.QueryRow(ctx, sqlLastAnchor).Scan(&last.Number, &last.Hash); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		due, err := ledgers(ctx, tx, sqlToAnchor, postgres.Args{"limit": limit})
		if err != nil || len(due) == 0 {
			return err
		}
		written, err := write(last, due)
		if err != nil {
			return err
		}
		var names []uuid.UUID
		var lines []int64
		for _, l := range due {
			names, lines = append(names, l.ID), append(lines, int64(len(l.Lines)))
		}
		anchored = len(due)
		return errors.Join(
			edge.Exec(ctx, tx, sqlAnchored, postgres.Args{"ledger": names, "lines": lines}),
			edge.Exec(ctx, tx, sqlKeepAnchor, postgres.Args{
				"number": written.Number, "at": written.At, "ledgers": len(due), "hash": written.Hash(),
			}),
		)
	})
	return anchored, err
}

// sqlUnanchoredSince looks at some of the ledgers that wait, by their index, and at the first line of each that no anchor holds. An anchor
// that was written since counts: a backlog is being worked off.
const sqlUnanchoredSince = `
select greatest(min(e.at), (select a.at from ledger_anchors a order by a.number desc limit 1)) from (
	select org_id, phone, anchored from consents where anchored < chain_length order by org_id, phone limit 500
) due cross join lateral (
	select at from consent_events l where l.org_id = due.org_id and l.phone = due.phone order by l.id offset due.anchored limit 1
) e having count(*) > 0`

// UnanchoredSince returns since when lines have waited for an anchor and none was written; nil when no line waits.
func (s *Store) UnanchoredSince(ctx context.Context) (since *time.Time, err error) {
	defer edge.Mark(&err)
	err = s.Pool.QueryRow(ctx, sqlUnanchoredSince).Scan(&since)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none
	}
	return since, err
}

const sqlNamedLedgers = `
with due as materialized (select org_id, phone, ledger_id from consents where ledger_id = any(@names::uuid[]))
` + sqlLines + ` from due d join consent_events e using (org_id, phone) order by d.ledger_id, e.id`

const (
	sqlNamedErased = `select ` + ledger.ErasedColumns + ` from erased_ledgers where id = any(@names::uuid[])`

	sqlNamedForgotten = `
select ledger_id, org_id, forgotten_at, array(select encode(w, 'hex') from unnest(witnesses) with ordinality u (w, n) order by n)
from forgotten_ledgers where ledger_id = any(@names::uuid[])`
)

// NamedLedgers is Find. It looks for what is left of a ledger after the ledger, which may go meanwhile, and where both are believes
// the ledger.
func (s *Store) NamedLedgers(ctx context.Context, names []uuid.UUID) (map[uuid.UUID]Ledger, error) {
	args := postgres.Args{"names": names}
	there, err := ledgers(ctx, s.Pool, sqlNamedLedgers, args)
	if err != nil {
		return nil, err
	}
	erased, err := edge.Collect(ctx, s.Pool, sqlNamedErased, args, s.readNamedErased)
	if err != nil {
		return nil, err
	}
	forgotten, err := edge.Collect(ctx, s.Pool, sqlNamedForgotten, args, func(row pgx.CollectableRow) (Ledger, error) {
		l := Ledger{Left: &Left{How: "taken by retention"}}
		return l, row.Scan(&l.ID, &l.OrgID, &l.Left.At, &l.Left.Witnesses)
	})
	named := map[uuid.UUID]Ledger{}
	for _, l := range slices.Concat(forgotten, erased, there) {
		named[l.ID] = l
	}
	return named, err
}

func (s *Store) readNamedErased(row pgx.CollectableRow) (l Ledger, err error) {
	e, err := ledger.ReadErased(row)
	if err != nil {
		return l, err
	}
	l.Left = &Left{How: "erased", At: e.ErasedAt, Sealed: !s.Pseudonyms.Known()}
	if !l.Left.Sealed {
		lines, problem := s.Pseudonyms.Left(e)
		traces := make([]consent.Trace, len(lines))
		for i, line := range lines {
			traces[i] = consent.Trace{Digest: line.Digest, Actor: line.Actor}
		}
		l.Left.Witnesses, l.Left.Problem = consent.Witnesses(traces), problem
	}
	l.ID, err = uuid.Parse(e.ID)
	if err == nil {
		l.OrgID, err = uuid.Parse(e.OrgID)
	}
	return l, err
}

const (
	sqlAnchors    = `select number, hash from ledger_anchors`
	sqlUnanchored = `select count(*) from consents where anchored < chain_length`
)

// ClaimedLedgers is Check.Claimed. A row that says more than the anchors do would keep new lines out of them.
func (s *Store) ClaimedLedgers(ctx context.Context, each func(name uuid.UUID, lines int)) error {
	rows, err := s.Pool.Query(ctx,
		`select coalesce(ledger_id, '00000000-0000-0000-0000-000000000000'), anchored from consents where anchored > 0`)
	if err != nil {
		return err
	}
	var name uuid.UUID
	var lines int
	_, err = pgx.ForEachRow(rows, []any{&name, &lines}, func() error { each(name, lines); return nil })
	return err
}

// sqlContradicted looks at the length, too: one that is too small keeps lines out of the anchors.
const sqlContradicted = `
select coalesce(c.ledger_id, '00000000-0000-0000-0000-000000000000'), c.org_id, c.state || ' after line ' || c.chain_length,
	coalesce(e.state || ' and is line ' || e.seq, 'nothing')
from consents c left join lateral (
	select e.state, e.seq from consent_events e where e.org_id = c.org_id and e.phone = c.phone order by e.id desc limit 1) e on true
where c.state is distinct from e.state or c.chain_length < e.seq`

// ContradictedLedgers is Check.Contradicted.
func (s *Store) ContradictedLedgers(ctx context.Context, each func(name, orgID uuid.UUID, state, said string)) error {
	rows, err := s.Pool.Query(ctx, sqlContradicted)
	if err != nil {
		return err
	}
	var name, orgID uuid.UUID
	var state, said string
	_, err = pgx.ForEachRow(rows, []any{&name, &orgID, &state, &said}, func() error { each(name, orgID, state, said); return nil })
	return err
}

const sqlGone = `
select id, org_id, erased_at, 'erased' from erased_ledgers
union all
select ledger_id, org_id, forgotten_at, 'taken by retention' from forgotten_ledgers`

// GoneLedgers is Check.Gone. What is left of them it does not read.
func (s *Store) GoneLedgers(ctx context.Context, each func(Ledger)) error {
	rows, err := s.Pool.Query(ctx, sqlGone)
	if err != nil {
		return err
	}
	var l Ledger
	var left Left
	_, err = pgx.ForEachRow(rows, []any{&l.ID, &l.OrgID, &left.At, &left.How}, func() error {
		was := left
		each(Ledger{ID: l.ID, OrgID: l.OrgID, Left: &was})
		return nil
	})
	return err
}

// Anchors are the statements that were written, by their numbers, and how many ledgers have lines that none of them holds.
func (s *Store) Anchors(ctx context.Context) (known map[int64]string, unanchored int, err error) {
	defer edge.Mark(&err)
	known = map[int64]string{}
	_, err = edge.Collect(ctx, s.Pool, sqlAnchors, nil, func(row pgx.CollectableRow) (struct{}, error) {
		var number int64
		var hash string
		err := row.Scan(&number, &hash)
		known[number] = hash
		return struct{}{}, err
	})
	if err != nil {
		return nil, 0, err
	}
	return known, unanchored, s.Pool.QueryRow(ctx, sqlUnanchored).Scan(&unanchored)
}

// ledgers runs a query of sqlLines, which gives the lines of one ledger after the other.
func ledgers(ctx context.Context, c edge.Conn, sql string, args postgres.Args) ([]Ledger, error) {
	var all []Ledger
	_, err := edge.Collect(ctx, c, sql, args, func(row pgx.CollectableRow) (struct{}, error) {
		var name uuid.UUID
		var l consent.Line
		var actor string
		err := row.Scan(&name, &l.OrgID, &l.Phone, &l.At, &l.State, &l.Source, &l.Words, &l.Sender, &l.MessageID, &l.KeywordPack, &l.Rules,
			&l.ConfirmedBy, &l.Confirmation, &actor)
		if err != nil {
			return struct{}{}, err
		}
		if l.Actor, err = consent.ReadActor(actor); err != nil {
			return struct{}{}, fmt.Errorf("ledger %s: %w", name, err)
		}
		if len(all) == 0 || all[len(all)-1].ID != name {
			org, err := uuid.Parse(l.OrgID)
			if err != nil {
				return struct{}{}, err
			}
			all = append(all, Ledger{ID: name, OrgID: org})
		}
		of := &all[len(all)-1]
		l.Seq = int64(len(of.Lines) + 1)
		of.Lines = append(of.Lines, l)
		return struct{}{}, nil
	})
	return all, err
}
