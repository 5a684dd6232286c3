package people

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

// FieldChange has the new values of fields, and the names of those that are removed.
type FieldChange struct {
	Set    []session.Field
	Remove []string
}

const sqlFields = `select jsonb_object_agg(name, value) from profile_fields where org_id = $1 and profile_id = $2`

// Fields returns what is known of a person in the fields of flows, as JSON has it.
func (s *Store) Fields(ctx context.Context, orgID, profileID string) (map[string]any, error) {
	return fields(ctx, s.pool, orgID, profileID)
}

func fields(ctx context.Context, db postgres.DB, orgID, profileID string) (kept map[string]any, err error) {
	if err := db.QueryRow(ctx, sqlFields, orgID, profileID).Scan(&kept); err != nil {
		return nil, fmt.Errorf("read fields: %w", err)
	}
	return kept, nil
}

const (
	sqlSetFields = `
insert into profile_fields (profile_id, org_id, name, value, private, updated_at)
select @profile, @org, f.name, f.value, f.private, @at
from jsonb_to_recordset(@fields) as f (name text, value jsonb, private boolean)
on conflict (profile_id, name) do update set value = excluded.value, private = excluded.private, updated_at = excluded.updated_at`

	sqlRemoveFields = `delete from profile_fields where org_id = @org and profile_id = @profile and name = any(@names::text[])`
)

// SetFields changes fields of a person in a transaction.
func SetFields(ctx context.Context, tx pgx.Tx, orgID, profileID string, change FieldChange, at time.Time) error {
	args := postgres.Args{"org": orgID, "profile": profileID, "fields": change.Set, "names": change.Remove, "at": at}
	var err error
	if len(change.Set) > 0 {
		_, err = tx.Exec(ctx, sqlSetFields, args)
	}
	if err == nil && len(change.Remove) > 0 {
		_, err = tx.Exec(ctx, sqlRemoveFields, args)
	}
	if err != nil {
		return fmt.Errorf("change fields: %w", err)
	}
	return nil
}

// changes reports whether a change of fields makes a difference to what is kept.
func (c FieldChange) changes(kept map[string]any) (bool, error) {
	becomes := maps.Clone(kept)
	for _, name := range c.Remove {
		delete(becomes, name)
	}
	for _, field := range c.Set {
		written, err := json.Marshal(field.Value)
		if err != nil {
			return false, fmt.Errorf("write a field: %w", err)
		}
		var value any
		if err := json.Unmarshal(written, &value); err != nil {
			return false, fmt.Errorf("read a field: %w", err)
		}
		if is, has := kept[field.Name]; !has || is != value {
			return true, nil
		}
	}
	return len(becomes) != len(kept), nil
}
