-- +goose NO TRANSACTION
-- +goose Up

-- What an operator lists by its type: all but the messages that came in as SMS, which most jobs are. Each of those was written here three times:
-- when it was stored, claimed and completed. They are found soon among the newest jobs. Every release plans these lists anew for the type that is
-- asked for, so each can use the index. Beside the jobs, and may be run again.
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_rare_type;
CREATE INDEX CONCURRENTLY webhook_jobs_by_rare_type ON webhook_jobs (org_id, event_type, id DESC) WHERE event_type <> 'twilio.message.received';
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_type;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_type;
CREATE INDEX CONCURRENTLY webhook_jobs_by_type ON webhook_jobs (org_id, event_type, id DESC);
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_rare_type;
