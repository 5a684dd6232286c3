-- +goose Up

-- Whose call stored a message of the queue, or cancelled it. The queue writes it itself, for those of several callers share a statement.
ALTER TABLE sms_outbound_jobs ADD COLUMN actor jsonb;

-- +goose Down

ALTER TABLE sms_outbound_jobs DROP COLUMN actor;
