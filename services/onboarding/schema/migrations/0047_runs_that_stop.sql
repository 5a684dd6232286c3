-- +goose Up

-- A run stops when the carrier refuses everybody: sessions up to judged_behind do not count any more, since it was resumed. A person whom it
-- cannot start is tried a number of times. Expand only.
ALTER TABLE flow_runs ADD COLUMN judged_behind uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE flow_run_people ADD COLUMN tries smallint NOT NULL DEFAULT 0;
GRANT UPDATE (judged_behind) ON flow_runs TO onboarding_tenant, onboarding_worker;

-- A session that is being moved to another version of its flow: no text of the old one is sent until then.
ALTER TABLE conversation_sessions ADD COLUMN moving_until timestamptz;

-- A ticket that nobody has is closed when the person begins a flow by a keyword.
ALTER TABLE tickets DROP CONSTRAINT tickets_outcome_check;
ALTER TABLE tickets ADD CONSTRAINT tickets_outcome_check CHECK (outcome IN ('resume', 'restart', 'end', 'entered')) NOT VALID;

-- +goose Down

UPDATE tickets SET outcome = 'resume' WHERE outcome = 'entered';
ALTER TABLE tickets DROP CONSTRAINT tickets_outcome_check;
ALTER TABLE tickets ADD CONSTRAINT tickets_outcome_check CHECK (outcome IN ('resume', 'restart', 'end'));

ALTER TABLE conversation_sessions DROP COLUMN moving_until;
ALTER TABLE flow_run_people DROP COLUMN tries;
ALTER TABLE flow_runs DROP COLUMN judged_behind;
