-- +goose NO TRANSACTION
-- +goose Up

-- What an organisation has decided for itself; one without a row has decided nothing. A conversation begins in its window by the clock of
-- the person, if quiet_hours says so; the times are kept while it does not. Each statement is its own transaction, and all of them may be run again.
CREATE TABLE IF NOT EXISTS organisation_settings (
    org_id      uuid        PRIMARY KEY,
    quiet_hours boolean     NOT NULL DEFAULT false,
    quiet_until text        NOT NULL DEFAULT '08:00' CHECK (quiet_until ~ '^([01][0-9]|2[0-3]):[0-5][0-9]$'),
    quiet_from  text        NOT NULL DEFAULT '21:00' CHECK (quiet_from ~ '^([01][0-9]|2[0-3]):[0-5][0-9]$'),
    updated_at  timestamptz NOT NULL,
    CONSTRAINT organisation_settings_window CHECK (quiet_until <> quiet_from)
);

-- An alarm may now be set for the opening of the window. The table is large: it is checked while steps run, not before them.
ALTER TABLE step_alarms
    DROP CONSTRAINT IF EXISTS step_alarms_cause_check,
    ADD CONSTRAINT step_alarms_cause_check
        CHECK (cause IN ('due', 'overdue', 'delivery', 'released', 'replayed', 'resumed', 'quiet_hours')) NOT VALID;
ALTER TABLE step_alarms VALIDATE CONSTRAINT step_alarms_cause_check;

-- +goose Down

-- What the older release has no word for is a step that is due.
UPDATE step_alarms SET cause = 'due' WHERE cause = 'quiet_hours';
ALTER TABLE step_alarms
    DROP CONSTRAINT IF EXISTS step_alarms_cause_check,
    ADD CONSTRAINT step_alarms_cause_check CHECK (cause IN ('due', 'overdue', 'delivery', 'released', 'replayed', 'resumed'));
DROP TABLE IF EXISTS organisation_settings;
