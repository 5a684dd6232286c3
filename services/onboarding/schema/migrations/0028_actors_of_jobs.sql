-- +goose Up

-- Whose call stored a job, or retried or cancelled it last. The queue writes it itself, for jobs of several callers share a statement.
ALTER TABLE webhook_jobs ADD COLUMN actor jsonb;
ALTER TABLE engagement_outreach ADD COLUMN actor jsonb;
ALTER TABLE event_deliveries ADD COLUMN actor jsonb;

-- +goose Down

ALTER TABLE event_deliveries DROP COLUMN actor;
ALTER TABLE engagement_outreach DROP COLUMN actor;
ALTER TABLE webhook_jobs DROP COLUMN actor;
