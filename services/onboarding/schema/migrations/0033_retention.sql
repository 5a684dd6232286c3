-- +goose NO TRANSACTION
-- +goose Up
-- What ends, and by what it is found (docs/security-and-privacy.md). Expand only, while the service runs: each statement is its own transaction, and all of them
-- may be run again. Every new index is of columns that a step does not change.
ALTER TABLE conversation_sessions
    ADD COLUMN IF NOT EXISTS ended_at            timestamptz, -- for good: stopped or closed
    ADD COLUMN IF NOT EXISTS timeline_deleted_at timestamptz;
-- Whichever release ends the session. Every other step only pays for the condition.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION session_has_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ended_at := CASE WHEN NEW.status IN ('stopped', 'closed') THEN NEW.updated_at END;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER conversation_sessions_ended BEFORE UPDATE ON conversation_sessions FOR EACH ROW
    WHEN (NEW.status IS DISTINCT FROM OLD.status) EXECUTE FUNCTION session_has_ended();
-- The sessions that had ended before there was the trigger, a few at a time.
-- +goose StatementBegin
DO $$
DECLARE
    behind uuid := '00000000-0000-0000-0000-000000000000';
    page   uuid[];
BEGIN
    LOOP
        page := ARRAY(SELECT s.id FROM conversation_sessions s WHERE s.id > behind ORDER BY s.id LIMIT 500);
        EXIT WHEN cardinality(page) = 0;
        UPDATE conversation_sessions SET ended_at = updated_at
        WHERE id = ANY (page) AND status IN ('stopped', 'closed') AND ended_at IS NULL;
        behind := page[cardinality(page)];
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd
-- How long an organisation keeps what, in days, where it has decided it for itself. A release that knows nothing of it leaves it as it is.
ALTER TABLE organisation_settings
    ADD COLUMN IF NOT EXISTS retention jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(retention) = 'object');
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_ended;
CREATE INDEX CONCURRENTLY conversation_sessions_ended ON conversation_sessions (org_id, ended_at)
    WHERE ended_at IS NOT NULL AND timeline_deleted_at IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS step_alarms_by_age;
CREATE INDEX CONCURRENTLY step_alarms_by_age ON step_alarms (org_id, created_at);
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_by_age;
CREATE INDEX CONCURRENTLY dead_letters_by_age ON dead_letters (created_at);
DROP INDEX CONCURRENTLY IF EXISTS held_replies_by_age;
CREATE INDEX CONCURRENTLY held_replies_by_age ON held_replies (received_at);
DROP INDEX CONCURRENTLY IF EXISTS engagement_runs_by_age;
CREATE INDEX CONCURRENTLY engagement_runs_by_age ON engagement_runs (org_id, finished_at) WHERE finished_at IS NOT NULL;
-- A transition is not deleted while one of these names it.
DROP INDEX CONCURRENTLY IF EXISTS user_engagement_states_by_transition;
CREATE INDEX CONCURRENTLY user_engagement_states_by_transition ON user_engagement_states (transition_id) WHERE transition_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS engagement_outreach_by_transition;
CREATE INDEX CONCURRENTLY engagement_outreach_by_transition ON engagement_outreach (transition_id) WHERE transition_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS engagement_state_transitions_superseded;
CREATE INDEX CONCURRENTLY engagement_state_transitions_superseded ON engagement_state_transitions (supersedes) WHERE supersedes IS NOT NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS engagement_state_transitions_superseded;
DROP INDEX CONCURRENTLY IF EXISTS engagement_outreach_by_transition;
DROP INDEX CONCURRENTLY IF EXISTS user_engagement_states_by_transition;
DROP INDEX CONCURRENTLY IF EXISTS engagement_runs_by_age;
DROP INDEX CONCURRENTLY IF EXISTS held_replies_by_age;
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_by_age;
DROP INDEX CONCURRENTLY IF EXISTS step_alarms_by_age;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_ended;
ALTER TABLE organisation_settings DROP COLUMN IF EXISTS retention;
DROP TRIGGER IF EXISTS conversation_sessions_ended ON conversation_sessions;
DROP FUNCTION IF EXISTS session_has_ended();
ALTER TABLE conversation_sessions DROP COLUMN IF EXISTS timeline_deleted_at, DROP COLUMN IF EXISTS ended_at;
