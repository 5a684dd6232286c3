package tickets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
)

const replyColumns = `id::text, title, body, created_at, updated_at, updated_by`

// sqlCreateReply counts under a lock of the organisation, so that two calls at once do not pass the bound.
const sqlCreateReply = `
insert into saved_replies (id, org_id, title, body, created_at, updated_at, updated_by)
select @id, @org, @title, @body, @at, @at, @by where (select count(*) from saved_replies where org_id = @org) < @most`

// CreateReply stores a saved reply; ErrTitleTaken, ErrManyReplies.
func (s *Store) CreateReply(ctx context.Context, orgID string, r SavedReply) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtext('saved_replies'), hashtext($1))`, orgID); err != nil {
			return fmt.Errorf("lock the saved replies: %w", err)
		}
		tag, err := tx.Exec(ctx, sqlCreateReply, postgres.Args{
			"id": r.ID, "org": orgID, "title": r.Title, "body": r.Body, "at": r.CreatedAt, "by": r.UpdatedBy, "most": MaxSavedReplies,
		})
		switch {
		case taken(err):
			return ErrTitleTaken
		case err != nil:
			return fmt.Errorf("create a saved reply: %w", err)
		case tag.RowsAffected() == 0:
			return ErrManyReplies
		}
		return nil
	})
}

// taken reports whether a title is another saved reply's.
func taken(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.ConstraintName == "saved_replies_by_title"
}

const sqlUpdateReply = `
update saved_replies set title = coalesce(@title, title), body = coalesce(@body, body), updated_at = @at, updated_by = @by
where org_id = @org and id = @id returning ` + replyColumns

// UpdateReply changes the title, the body or both; ErrNoSavedReply, ErrTitleTaken.
func (s *Store) UpdateReply(ctx context.Context, orgID, id string, title, body *string, by string, at time.Time) (SavedReply, error) {
	rows, err := s.pool.Query(ctx, sqlUpdateReply, postgres.Args{"org": orgID, "id": id, "title": title, "body": body, "by": by, "at": at})
	return collectReply(rows, err)
}

const sqlReply = `select ` + replyColumns + ` from saved_replies where org_id = $1 and id = $2`

// Reply reads a saved reply; ErrNoSavedReply.
func (s *Store) Reply(ctx context.Context, orgID, id string) (SavedReply, error) {
	rows, err := s.pool.Query(ctx, sqlReply, orgID, id)
	return collectReply(rows, err)
}

func collectReply(rows pgx.Rows, err error) (SavedReply, error) {
	var found SavedReply
	if err == nil {
		found, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[SavedReply])
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return SavedReply{}, ErrNoSavedReply
	case taken(err):
		return SavedReply{}, ErrTitleTaken
	case err != nil:
		return SavedReply{}, fmt.Errorf("a saved reply: %w", err)
	}
	return found, nil
}

const sqlReplies = `select ` + replyColumns + ` from saved_replies where org_id = $1 order by lower(title), id limit $2`

// Replies lists the saved replies by title.
func (s *Store) Replies(ctx context.Context, orgID string) ([]SavedReply, error) {
	rows, err := s.pool.Query(ctx, sqlReplies, orgID, MaxSavedReplies)
	if err != nil {
		return nil, fmt.Errorf("list saved replies: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[SavedReply])
	if err != nil {
		return nil, fmt.Errorf("list saved replies: %w", err)
	}
	return found, nil
}

// DeleteReply deletes a saved reply; ErrNoSavedReply.
func (s *Store) DeleteReply(ctx context.Context, orgID, id string) error {
	tag, err := s.pool.Exec(ctx, `delete from saved_replies where org_id = $1 and id = $2`, orgID, id)
	if err != nil {
		return fmt.Errorf("delete a saved reply: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNoSavedReply
	}
	return nil
}
