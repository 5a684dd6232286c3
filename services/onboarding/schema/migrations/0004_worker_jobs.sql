-- +goose Up
-- What platform/worker knows of a job beyond what the release before did, which goes on working with it. Nothing here reads the
-- rows that there are; 0005 does, while jobs run.
alter table webhook_jobs
    -- How often in a row a lease ran out. A job that takes its workers down with it is given up, not begun for ever.
    add column lost_leases integer not null default 0,
    drop constraint webhook_jobs_status_check,
    add constraint webhook_jobs_status_check check (status in ('pending', 'processing', 'completed', 'failed', 'cancelled')) not valid,
    -- Retention goes by it.
    add constraint webhook_jobs_processed_check
        check ((status in ('completed', 'failed', 'cancelled')) = (processed_at is not null)) not valid;
-- Every job is rewritten twice in its life; what that leaves behind is cleared away before it slows the claims.
alter table webhook_jobs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- +goose Down
update webhook_jobs set status = 'failed', error_message = 'cancelled by an operator' where status = 'cancelled';
alter table webhook_jobs reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
alter table webhook_jobs
    drop constraint webhook_jobs_processed_check,
    drop constraint webhook_jobs_status_check,
    add constraint webhook_jobs_status_check check (status in ('pending', 'processing', 'completed', 'failed')),
    drop column lost_leases;
