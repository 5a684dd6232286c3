-- +goose NO TRANSACTION
-- +goose Up

-- What an operator lists: sessions by where they stand, jobs and outreach by what they are. Without these a rare one is looked for among all.
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_by_token;
CREATE INDEX CONCURRENTLY conversation_sessions_by_token ON conversation_sessions (org_id, state_token, id DESC);
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_type;
CREATE INDEX CONCURRENTLY webhook_jobs_by_type ON webhook_jobs (org_id, event_type, id DESC);
DROP INDEX CONCURRENTLY IF EXISTS engagement_outreach_by_type;
CREATE INDEX CONCURRENTLY engagement_outreach_by_type ON engagement_outreach (org_id, event_type, id DESC);

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS engagement_outreach_by_type;
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_type;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_by_token;
