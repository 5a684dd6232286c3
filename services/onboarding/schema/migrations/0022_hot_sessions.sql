-- +goose Up

-- A step rewrites its session. Postgres leaves all indexes alone when none of their columns changes (a HOT update), so what changes with
-- every step must not be in an index, nor in the condition of one: not updated_at, next_step_id or step_due_at.
ALTER TABLE conversation_sessions
    -- From when the sweeper reads the session: step_due_at, or up to a minute before it, so that the steps of one burst share it; and later
    -- while an alarm rests that the sweeper set itself. Null on sessions that are not in their burst.
    ADD COLUMN sweep_at timestamptz,
    SET (fillfactor = 80); -- the new row stays on the page of the old one

-- Whichever release writes step_due_at, status or next_step_id. The function runs when a burst begins or ends, or jumps; the other steps
-- only pay for the condition.
-- +goose StatementBegin
CREATE FUNCTION session_is_swept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.sweep_at := CASE WHEN NEW.status = 'active' AND NEW.next_step_id IS NOT NULL THEN NEW.step_due_at END;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER conversation_sessions_sweep BEFORE UPDATE ON conversation_sessions FOR EACH ROW
    WHEN (CASE WHEN NEW.status = 'active' AND NEW.next_step_id IS NOT NULL
          THEN NEW.sweep_at IS NULL OR NEW.step_due_at IS DISTINCT FROM OLD.step_due_at
              AND NEW.step_due_at NOT BETWEEN NEW.sweep_at AND NEW.sweep_at + interval '1 minute'
          ELSE NEW.sweep_at IS NOT NULL END)
    EXECUTE FUNCTION session_is_swept();

-- +goose Down

DROP TRIGGER conversation_sessions_sweep ON conversation_sessions;
DROP FUNCTION session_is_swept();
ALTER TABLE conversation_sessions RESET (fillfactor), DROP COLUMN sweep_at;
