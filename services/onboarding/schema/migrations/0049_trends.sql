-- +goose NO TRANSACTION
-- +goose Up

-- When a conversation was completed: its flow came to an end, or the host application goes on with it. Expand only, while the
-- service runs: each statement may be run again. Sessions that were completed before have no time, so the overview begins with the upgrade.
ALTER TABLE conversation_sessions ADD COLUMN IF NOT EXISTS completed_at timestamptz;
-- Whichever release completes the session. Every other step only pays for the condition.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION session_is_completed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.completed_at := NEW.updated_at;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER conversation_sessions_completed BEFORE UPDATE ON conversation_sessions FOR EACH ROW
    WHEN (NEW.completed_at IS NULL AND (NEW.mode = 'interviewing' AND OLD.mode <> 'interviewing'
        OR NEW.status = 'closed' AND OLD.status <> 'closed' AND NEW.flow_state ->> 'phase' = 'ended'))
    EXECUTE FUNCTION session_is_completed();
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_by_completion;
CREATE INDEX CONCURRENTLY conversation_sessions_by_completion ON conversation_sessions (org_id, completed_at) WHERE completed_at IS NOT NULL;

-- The newest sessions of a flow: who stand at its steps, and how far people came.
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_of_flow;
CREATE INDEX CONCURRENTLY conversation_sessions_of_flow ON conversation_sessions (org_id, flow, status, id DESC) WHERE flow IS NOT NULL;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_of_flow;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_by_completion;
DROP TRIGGER IF EXISTS conversation_sessions_completed ON conversation_sessions;
DROP FUNCTION IF EXISTS session_is_completed();
ALTER TABLE conversation_sessions DROP COLUMN IF EXISTS completed_at;
