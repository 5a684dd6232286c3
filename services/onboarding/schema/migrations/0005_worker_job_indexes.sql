-- +goose NO TRANSACTION
-- +goose Up

-- What reads the whole table, while jobs run: each statement is its own transaction, so that no lock outlasts it. It may
-- break off anywhere and be run again; an index that was left half built is dropped first.
alter table webhook_jobs validate constraint webhook_jobs_status_check;
alter table webhook_jobs validate constraint webhook_jobs_processed_check;

-- What is due, organisation by organisation: each has its share of every claim. The index keeps its name, by which operators know
-- it; the release before goes on using it. Two indexes of what is pending would cost every job, and confuse the planner.
drop index concurrently if exists webhook_jobs_due;
create index concurrently webhook_jobs_due on webhook_jobs (org_id, next_retry_at, id) where status = 'pending';
drop index concurrently if exists idx_webhook_jobs_pending;
alter index webhook_jobs_due rename to idx_webhook_jobs_pending;
-- What an operator asks for: everything newest first, and the few that failed.
drop index concurrently if exists webhook_jobs_by_org;
create index concurrently webhook_jobs_by_org on webhook_jobs (org_id, id desc);
drop index concurrently if exists webhook_jobs_failed;
create index concurrently webhook_jobs_failed on webhook_jobs (org_id, id desc) where status = 'failed';
-- What has been finished for long enough to be cleared away.
drop index concurrently if exists webhook_jobs_ended;
create index concurrently webhook_jobs_ended on webhook_jobs (processed_at, id) where processed_at is not null;

-- +goose Down

drop index concurrently if exists webhook_jobs_ended;
drop index concurrently if exists webhook_jobs_failed;
drop index concurrently if exists webhook_jobs_by_org;
drop index concurrently if exists webhook_jobs_due;
create index concurrently webhook_jobs_due on webhook_jobs (next_retry_at) where status = 'pending';
drop index concurrently if exists idx_webhook_jobs_pending;
alter index webhook_jobs_due rename to idx_webhook_jobs_pending;
