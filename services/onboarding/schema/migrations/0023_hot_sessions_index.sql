-- +goose NO TRANSACTION
-- +goose Up

-- Beside the steps: each statement is its own transaction, and all of them may be run again.

-- The sessions that were in their burst before there was the trigger of 0022, a few at a time, so that no step waits for long.
-- +goose StatementBegin
DO $$
BEGIN
    LOOP
        UPDATE conversation_sessions SET sweep_at = step_due_at
        WHERE id IN (SELECT w.id FROM conversation_sessions w
            WHERE w.status = 'active' AND w.next_step_id IS NOT NULL AND w.step_due_at IS NOT NULL AND w.sweep_at IS NULL
            ORDER BY w.id LIMIT 500 FOR NO KEY UPDATE);
        EXIT WHEN NOT FOUND;
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_sweep_at;
CREATE INDEX CONCURRENTLY conversation_sessions_sweep_at ON conversation_sessions (sweep_at) WHERE sweep_at IS NOT NULL;

-- The sweeper and the gauges of the release before read these; without them they read every active session, a quarter of a second for a
-- million, until that release is gone.
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_in_burst;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_step_due;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_step_due;
CREATE INDEX CONCURRENTLY conversation_sessions_step_due ON conversation_sessions (step_due_at)
    WHERE status = 'active' AND next_step_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_in_burst;
CREATE INDEX CONCURRENTLY conversation_sessions_in_burst ON conversation_sessions (updated_at)
    WHERE status = 'active' AND next_step_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_sweep_at;
