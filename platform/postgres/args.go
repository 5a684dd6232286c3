package postgres

import (
	"context"
	"regexp"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Args are the arguments of a statement by their names in it, as @name. Like pgx.NamedArgs, but where the names stand is read once for each
// statement and not at every call: a step is some seven statements of a kilobyte. An argument that is missing is null.
type Args map[string]any

var _ pgx.QueryRewriter = Args(nil)

// placed is a statement with places instead of names.
type placed struct {
	sql   string
	names []string // in the order of the places
}

// statements keeps what was read, by the text. The texts are constants of the code, so there are as many as statements in it.
var statements sync.Map

var argument = regexp.MustCompile(`@([A-Za-z_][A-Za-z0-9_]*)`)

// RewriteQuery implements pgx.QueryRewriter.
func (a Args) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	known, ok := statements.Load(sql)
	if !ok {
		read, err := place(ctx, conn, sql)
		if err != nil {
			return "", nil, err
		}
		known, _ = statements.LoadOrStore(sql, read)
	}
	of, _ := known.(placed)
	values := make([]any, len(of.names))
	for i, name := range of.names {
		values[i] = a[name]
	}
	return of.sql, values, nil
}

// place has pgx find the names: it knows what is a name, and what stands in quotation marks or in a comment.
func place(ctx context.Context, conn *pgx.Conn, sql string) (placed, error) {
	candidates := pgx.NamedArgs{}
	for _, found := range argument.FindAllStringSubmatch(sql, -1) {
		candidates[found[1]] = found[1]
	}
	rewritten, names, err := candidates.RewriteQuery(ctx, conn, sql, nil)
	if err != nil {
		return placed{}, err
	}
	p := placed{sql: rewritten}
	for _, name := range names {
		text, _ := name.(string)
		p.names = append(p.names, text)
	}
	return p, nil
}

// Each are the same values as arrays of one, for a statement that is made for many.
func (a Args) Each() Args {
	each := make(Args, len(a))
	for name, value := range a {
		each[name] = pgtype.FlatArray[any]{value}
	}
	return each
}
