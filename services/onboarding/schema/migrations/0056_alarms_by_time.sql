-- +goose NO TRANSACTION
-- +goose Up

-- A claim of alarms begins with what is due for longest, whoever has it: organisations that only have alarms for later cost it nothing.
DROP INDEX CONCURRENTLY IF EXISTS alarm_jobs_by_time;
CREATE INDEX CONCURRENTLY alarm_jobs_by_time ON alarm_jobs (next_retry_at, org_id) WHERE status = 'pending';

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS alarm_jobs_by_time;
