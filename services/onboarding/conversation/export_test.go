package conversation

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

// SQLOverdue and SQLPlannedNow show tests what the sweeper asks the database, to count what it reads.
const (
	SQLOverdue    = sqlOverdue
	SQLPlannedNow = postgres.PlanNow
	OverdueReach  = overdueReach
)

// AnsweredBehind makes a move, and behind it in the same transaction, as an execution that shares it would, answers the reply that is held
// in its place. It returns how many were.
func (s *Store) AnsweredBehind(ctx context.Context, m session.Move) (answered int64, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := move(ctx, tx, m, nil); err != nil {
			return err
		}
		args, err := answerHeldArgs(m.From, m.From.Place()+1, time.Time{}, m.At)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlAnswerMoved, args.Each())
		answered = tag.RowsAffected()
		return err
	})
	return answered, err
}
