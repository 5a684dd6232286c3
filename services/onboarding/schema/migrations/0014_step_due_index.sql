-- +goose NO TRANSACTION
-- +goose Up

-- What reads whole tables, while steps run: each statement is its own transaction, and all of them may be run again.
ALTER TABLE step_alarms VALIDATE CONSTRAINT step_alarms_cause_check;

DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_step_due;
CREATE INDEX CONCURRENTLY conversation_sessions_step_due ON conversation_sessions (step_due_at)
    WHERE status = 'active' AND next_step_id IS NOT NULL;

-- Whether another job of a subject is at work, asked before each claim.
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_at_work_by_subject;
CREATE INDEX CONCURRENTLY webhook_jobs_at_work_by_subject ON webhook_jobs (subject, org_id, id) WHERE status = 'processing' AND subject <> '';

-- The sessions that were in their burst before there was the trigger of 0013, a few at a time, so that no step waits for long. One
-- that is parked gets a new alarm when it is resumed.
-- +goose StatementBegin
DO $$
BEGIN
    LOOP
        UPDATE conversation_sessions s
        SET step_due_at = coalesce((SELECT a.due_at FROM step_alarms a WHERE a.session_id = s.id AND a.step_id = s.next_step_id
            ORDER BY a.generation DESC LIMIT 1), s.updated_at)
        WHERE s.id IN (SELECT w.id FROM conversation_sessions w
            WHERE w.status = 'active' AND w.next_step_id IS NOT NULL AND w.step_due_at IS NULL ORDER BY w.id LIMIT 500 FOR NO KEY UPDATE);
        EXIT WHEN NOT FOUND;
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_at_work_by_subject;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_step_due;
