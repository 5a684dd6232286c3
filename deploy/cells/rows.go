package cells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// atOnce bounds the rows that one statement copies by their keys.
const atOnce = 10_000

// shape has the statements of a table.
type shape struct {
	table            Table
	columns          string // those that are written, in order
	of               string // the from and the where of the organisation's rows
	source, target   string // the organisation's rows on either side, in the columns of the target
	key, hash, whole string // over such rows: the primary key as a text, and what is compared as a text, also as a number
}

// shape makes the statements of a table, with ids moved by shifts.
func (d *database) shape(t Table, shifts map[string]shift) shape {
	var columns, key, compared, values []string
	for _, c := range d.columns[t.Name] {
		name := pgx.Identifier{c.Name}.Sanitize()
		value := name
		reset, isReset := t.Reset[c.Name]
		switch counter, isShifted := t.Shift[c.Name]; {
		case isReset:
			value = fmt.Sprintf("(%s)::%s as %s", reset, c.Type, name)
		case isShifted:
			value = fmt.Sprintf("%s + (%d) as %s", name, shifts[counter].By, name)
		}
		columns, values = append(columns, name), append(values, value)
		if c.Key {
			key = append(key, name)
		}
		if !isReset && !slices.Contains(t.Sealed, c.Name) {
			compared = append(compared, name)
		}
	}
	of := t.Of
	if of == "" {
		of = "org_id = ORG"
	}
	of = " from " + t.Name + " where " + strings.ReplaceAll(of, "ORG", "'"+d.org.String()+"'")
	row := "row(" + strings.Join(compared, ", ") + ")::text"
	return shape{
		table: t, columns: strings.Join(columns, ", "), of: of,
		source: "select " + strings.Join(values, ", ") + of, target: "select " + strings.Join(columns, ", ") + of,
		key: "row(" + strings.Join(key, ", ") + ")::text", hash: "md5(" + row + ")",
		whole: "coalesce(sum(hashtextextended(" + row + ", 0)::numeric), 0)::text",
	}
}

// Total is the number of an organisation's rows in a table, and a checksum of all values that must be the same on both sides.
type Total struct {
	Rows int64
	Sum  string
}

func (d *database) total(ctx context.Context, s shape, of string) (t Total, err error) {
	err = d.one(ctx, "count "+s.table.Name, "select count(*), "+s.whole+" from ("+of+") r", nil, &t.Rows, &t.Sum)
	return t, err
}

// copyRows writes rows of the source to the target: all of the organisation, or those with the keys.
func copyRows(ctx context.Context, from, to *database, s shape, keys []string) error {
	name := s.table.Name
	sql := "select " + s.columns + " from (" + s.source + ") r"
	if keys != nil {
		literals := make([]string, len(keys))
		for i, key := range keys {
			literals[i] = "'" + strings.ReplaceAll(key, "'", "''") + "'"
		}
		sql += " where " + s.key + " = any (array[" + strings.Join(literals, ",") + "])"
	}
	// COPY itself does not write to a table with row security.
	staging := "moving_" + name
	if _, err := to.Exec(ctx, "create temporary table if not exists "+staging+" (like "+name+")"); err != nil {
		return to.wrap("stage "+name, err)
	}
	reader, writer := io.Pipe()
	var both errgroup.Group
	both.Go(func() error {
		_, err := from.PgConn().CopyTo(ctx, writer, "copy ("+sql+") to stdout")
		return errors.Join(from.wrap("read "+name, err), writer.CloseWithError(err))
	})
	_, err := to.PgConn().CopyFrom(ctx, reader, "copy "+staging+" ("+s.columns+") from stdin")
	err = errors.Join(to.wrap("stage "+name, err), reader.CloseWithError(err), both.Wait())
	if err != nil {
		return err
	}
	if _, err = to.Exec(ctx, "insert into "+name+" ("+s.columns+") overriding system value select "+s.columns+" from "+staging); err != nil {
		return to.wrap("write "+name, err)
	}
	_, err = to.Exec(ctx, "truncate "+staging)
	return to.wrap("write "+name, err)
}

// difference has the keys of rows that are to be deleted at the target, and of those that are to be copied; a changed row is in both.
type difference struct{ old, anew []string }

// compare walks both sides in the order of their keys.
func compare(ctx context.Context, from, to *database, s shape) (difference, error) {
	list := func(d *database, of string) (*side, error) {
		rows, err := d.Query(ctx, "select "+s.key+" collate \"C\", "+s.hash+" from ("+of+") r order by 1")
		if err != nil {
			return nil, d.wrap("list "+s.table.Name, err)
		}
		return &side{rows: rows}, nil
	}
	source, err := list(from, s.source)
	if err != nil {
		return difference{}, err
	}
	defer source.rows.Close()
	target, err := list(to, s.target)
	if err != nil {
		return difference{}, err
	}
	defer target.rows.Close()
	var found difference
	for source.next(); target.next() || source.more; {
		for source.more && (!target.more || source.key < target.key) {
			found.anew = append(found.anew, source.key)
			source.next()
		}
		switch {
		case !target.more:
		case !source.more || source.key > target.key:
			found.old = append(found.old, target.key)
		default:
			if source.hash != target.hash {
				found.old, found.anew = append(found.old, target.key), append(found.anew, source.key)
			}
			source.next()
		}
	}
	return found, errors.Join(source.err, target.err, source.rows.Err(), target.rows.Err())
}

// side is one side of a comparison.
type side struct {
	rows      pgx.Rows
	key, hash string
	more      bool
	err       error
}

func (s *side) next() bool {
	if s.more = s.err == nil && s.rows.Next(); s.more {
		s.err = s.rows.Scan(&s.key, &s.hash)
		s.more = s.err == nil
	}
	return s.more
}
