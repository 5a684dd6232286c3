package people

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

const (
	// shortestName and shortestNumber are the lengths of the pieces that the index has (0048). A shorter part is looked for among the
	// newest people alone.
	shortestName, shortestNumber = 3, 4
	// national is the length from which digits are a whole number, which may begin with the zeros that are dialled before it.
	national = 7

	// sqlPart holds a person to the part that is searched for. One of the two is empty.
	sqlPart = ` and (@digits <> '' or strpos(p.name_key, key_of_name(@part)) > 0) and strpos(p.phone, @digits) > 0`

	// sqlNewestWithPart looks among the newest people: a part that many have is found there soon.
	sqlNewestWithPart = `select p.id from (select p.id, p.name_key, p.phone from profiles p
    where p.org_id = @org_id and (@before = '' or p.id < nullif(@before, '')::uuid) order by p.id desc limit @reach) p where true` + sqlPart

	// sqlAllWithPart looks along the index of pieces, for a part that few have.
	sqlAllWithPart = `select f.id::text from (` + sqlListed + `
    and search_pieces(p.org_id, p.name_key, p.phone) @> search_pieces(@org_id::uuid, key_of_name(@part), @digits)` + sqlPart + ` offset 0) f
order by f.id desc limit @reach`
)

// split returns the filter with the part of a name or the digits of a number that are searched for. What has no letter is a
// number, in any spelling.
func (f ProfileFilter) split(part string) ProfileFilter {
	if strings.Trim(part, "+-0123456789 ()./\u00a0") != "" {
		f.Part = part
		return f
	}
	f.Digits = strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, strings.ReplaceAll(part, "(0)", ""))
	if len(f.Digits) >= national {
		f.Digits = strings.TrimLeft(f.Digits, "0")
	}
	return f
}

// indexed reports whether the part is as long as the pieces of the index.
func (f ProfileFilter) indexed() bool {
	return len(f.Digits) >= shortestNumber || utf8.RuneCountInString(f.Part) >= shortestName
}

// sqlAsWorker has the statements behind it in the same transaction run as the role that no policy of people bounds.
var sqlAsWorker = `select set_config('role', '` + postgres.RolesOf("onboarding").Worker + `', true)`

// withPart finds people along the index of pieces, the newest of them. A policy would keep the condition from the index, because it cannot
// be sure that the condition tells nothing of the rows that it hides; so this one statement is bounded to the organisation by itself.
func (s *Store) withPart(ctx context.Context, args postgres.Args) (found []string, err error) {
	var batch pgx.Batch
	batch.Queue(sqlAsWorker)
	batch.Queue(postgres.PlanNow)
	batch.Queue(sqlAllWithPart, args).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err := s.pool.SendBatch(postgres.AcrossOrganisations(ctx), &batch).Close(); err != nil {
		return nil, fmt.Errorf("search people: %w", err)
	}
	return found, nil
}
