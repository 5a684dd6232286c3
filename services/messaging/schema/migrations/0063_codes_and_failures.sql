-- +goose NO TRANSACTION
-- +goose Up

-- Expand only: a release that knows none of this goes on working while one that does runs. Each statement is its own transaction; all of them
-- may be run again.

-- The keyed digest of a one-time code whose words are deleted, so that its key is not reused for other words. Null while the words are there,
-- without PSEUDONYM_KEY, and where a release before deleted them.
ALTER TABLE sms_outbound_jobs ADD COLUMN IF NOT EXISTS body_digest text;
-- Reminders that are off are no opt-out. Every release shows a failure as it is stored.
ALTER TABLE sms_outbound_jobs
    DROP CONSTRAINT IF EXISTS sms_outbound_jobs_failure_check,
    ADD CONSTRAINT sms_outbound_jobs_failure_check
        CHECK (failure IN ('', 'expired', 'opted_out', 'reminders_off', 'rejected', 'undecided', 'given_up', 'error')) NOT VALID;
ALTER TABLE sms_outbound_jobs VALIDATE CONSTRAINT sms_outbound_jobs_failure_check;

-- +goose Down

-- Rows keep the failure that the older release does not write: it shows it.
ALTER TABLE sms_outbound_jobs
    DROP CONSTRAINT IF EXISTS sms_outbound_jobs_failure_check,
    ADD CONSTRAINT sms_outbound_jobs_failure_check
        CHECK (failure IN ('', 'expired', 'opted_out', 'rejected', 'undecided', 'given_up', 'error')) NOT VALID;
ALTER TABLE sms_outbound_jobs DROP COLUMN IF EXISTS body_digest;
