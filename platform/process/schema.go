package process

import (
	"context"
	"fmt"
)

// OwnSchema tells the database of this service from another's, by a table that no other has: the schemas of two services may have the
// same version.
func OwnSchema(ctx context.Context, db asker, table string) error {
	own := false
	if err := db.QueryRow(ctx, `select to_regclass($1) is not null`, table).Scan(&own); err != nil {
		return fmt.Errorf("look for the table %s: %w", table, err)
	}
	if !own {
		return fmt.Errorf("the database is another service's: it has no table %s", table)
	}
	return nil
}
