-- +goose Up

-- Expand only: nothing here reads or writes the rows that there are; 0014 does, while the service runs.
ALTER TABLE conversation_sessions
    -- From when the sweeper counts its grace for the step that is due: when its newest alarm rings, and later after one that it set
    -- itself. Of a session in its burst; on others it is left from before.
    ADD COLUMN step_due_at timestamptz,
    -- When a step of this session last failed because messaging could not be reached.
    ADD COLUMN unavailable_at timestamptz;

-- Whoever sets an alarm says when the step is due, also the release before this one, which knows nothing of the column.
-- +goose StatementBegin
CREATE FUNCTION step_alarm_is_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE conversation_sessions SET step_due_at = NEW.due_at
    WHERE id = NEW.session_id AND next_step_id = NEW.step_id AND step_due_at IS DISTINCT FROM NEW.due_at;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER step_alarms_due AFTER INSERT ON step_alarms FOR EACH ROW EXECUTE FUNCTION step_alarm_is_due();

-- An alarm that was set again because messaging could not be reached counts against nobody.
ALTER TABLE step_alarms
    DROP CONSTRAINT step_alarms_cause_check,
    ADD CONSTRAINT step_alarms_cause_check
        CHECK (cause IN ('due', 'overdue', 'delivery', 'released', 'replayed', 'resumed', 'quiet_hours', 'unavailable')) NOT VALID;

-- As webhook_jobs has it: an alarm is rewritten two or three times within seconds, and what that leaves behind is cleared away early.
ALTER TABLE step_alarms
    SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- +goose Down

ALTER TABLE step_alarms RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
-- What the older release has no word for is an alarm that was set on purpose, as it counts.
UPDATE step_alarms SET cause = 'due' WHERE cause = 'unavailable';
ALTER TABLE step_alarms
    DROP CONSTRAINT step_alarms_cause_check,
    ADD CONSTRAINT step_alarms_cause_check
        CHECK (cause IN ('due', 'overdue', 'delivery', 'released', 'replayed', 'resumed', 'quiet_hours'));
DROP TRIGGER step_alarms_due ON step_alarms;
DROP FUNCTION step_alarm_is_due();
ALTER TABLE conversation_sessions DROP COLUMN unavailable_at, DROP COLUMN step_due_at;
