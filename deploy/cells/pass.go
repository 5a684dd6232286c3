package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// pass makes the organisation's rows at the target what they are at the source, as of one snapshot, and returns how many rows it wrote
// or deleted. A table that the target has nothing of is copied in one transaction, for it may be large; all other changes are another
// one, so that a pass that is broken off leaves no row without the one that it belongs to. The tables that it found to be the same are
// added to found.
func pass(ctx context.Context, from, to *database, shifts map[string]shift, found map[string]Total) (changed int64, err error) {
	snapshot, err := from.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return 0, from.wrap("take a snapshot", err)
	}
	defer func() { _ = snapshot.Rollback(context.WithoutCancel(ctx)) }()
	var differ []shape
	for _, t := range from.tables {
		s := from.shape(t, shifts)
		there, here, err := totals(ctx, from, to, s)
		switch {
		case err != nil:
			return changed, err
		case here == there:
			found[t.Name] = here
		case here.Rows > 0:
			differ = append(differ, s)
		default:
			err := pgx.BeginFunc(ctx, to.Conn, func(pgx.Tx) error { return copyRows(ctx, from, to, s, nil) })
			if err != nil {
				return changed, err
			}
			changed += there.Rows
		}
	}
	if len(differ) == 0 {
		return changed, nil
	}
	err = pgx.BeginFunc(ctx, to.Conn, func(tx pgx.Tx) error {
		n, err := follow(ctx, tx, from, to, differ)
		changed += n
		return err
	})
	return changed, err
}

// follow deletes before it writes, in all tables: a new row may have what an old one had, such as the one open session of a person.
// Children are deleted first, for they are found by their parents.
func follow(ctx context.Context, tx pgx.Tx, from, to *database, differ []shape) (changed int64, err error) {
	found := make([]difference, len(differ))
	for i, s := range slices.Backward(differ) {
		if found[i], err = compare(ctx, from, to, s); err != nil {
			return 0, err
		}
		for old := range slices.Chunk(found[i].old, atOnce) {
			if _, err := tx.Exec(ctx, "delete"+s.of+" and "+s.key+" = any ($1)", old); err != nil {
				return 0, to.wrap("delete from "+s.table.Name, err)
			}
		}
	}
	for i, s := range differ {
		changed += int64(max(len(found[i].old), len(found[i].anew)))
		for anew := range slices.Chunk(found[i].anew, atOnce) {
			if err := copyRows(ctx, from, to, s, anew); err != nil {
				return 0, err
			}
		}
	}
	return changed, nil
}

// Counted is a table after a move.
type Counted struct {
	Database, Table string
	Total
}

// totals counts both sides at once.
func totals(ctx context.Context, from, to *database, s shape) (there, here Total, err error) {
	var both errgroup.Group
	both.Go(func() (err error) { there, err = from.total(ctx, s, s.source); return err })
	here, err = to.total(ctx, s, s.target)
	return there, here, errors.Join(err, both.Wait())
}

// same counts what the last pass, behind both fences, has changed, and fails where the sides differ. What that pass found to be the same
// is not counted again.
func same(ctx context.Context, from, to *database, shifts map[string]shift, found map[string]Total) (all []Counted, err error) {
	for _, t := range from.tables {
		if total, ok := found[t.Name]; ok {
			all = append(all, Counted{Database: from.service, Table: t.Name, Total: total})
			continue
		}
		there, here, err := totals(ctx, from, to, from.shape(t, shifts))
		if err != nil {
			return nil, err
		}
		if here != there {
			return nil, fmt.Errorf("table %s of %s: the source has %d rows (%s), the target %d (%s)", t.Name, from.service, there.Rows, there.Sum,
				here.Rows, here.Sum)
		}
		all = append(all, Counted{Database: from.service, Table: t.Name, Total: here})
	}
	return all, nil
}
