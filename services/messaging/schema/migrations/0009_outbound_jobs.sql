-- +goose Up

-- Texts to be sent at a time: everything that is not onboarding. A queue of platform/worker; what is asked for is in payload, so that a
-- repeat under the same key can be told from another request. What became of the text itself is in sms_messages, under the
-- key 'outbound:' || id.
CREATE TABLE sms_outbound_jobs (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    idempotency_key text        NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 200),
    event_type      text        NOT NULL CHECK (event_type IN ('otp', 'transactional', 'reminder', 'invite', 'post_event')),
    subject         text        NOT NULL,
    payload         jsonb       NOT NULL CHECK (payload ?& ARRAY['to', 'body']),
    priority        smallint    NOT NULL CHECK (priority BETWEEN 0 AND 3),
    status          text        NOT NULL CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    max_attempts    integer     NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    next_retry_at   timestamptz,
    lease_token     uuid,
    lease_until     timestamptz,
    lost_leases     integer     NOT NULL DEFAULT 0,
    processed_at    timestamptz,
    error_message   text        NOT NULL DEFAULT '',
    -- Why it failed, for machines.
    failure         text        NOT NULL DEFAULT ''
        CHECK (failure IN ('', 'expired', 'opted_out', 'rejected', 'undecided', 'given_up', 'error')),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    UNIQUE (org_id, idempotency_key),
    CONSTRAINT a_pending_job_has_its_time CHECK ((status = 'pending') = (next_retry_at IS NOT NULL)),
    CONSTRAINT a_job_at_work_has_its_fence CHECK ((status = 'processing') = (lease_token IS NOT NULL)),
    CONSTRAINT a_job_at_work_has_its_lease CHECK ((status = 'processing') = (lease_until IS NOT NULL)),
    CONSTRAINT a_job_at_its_end_has_an_end CHECK ((status IN ('completed', 'failed', 'cancelled')) = (processed_at IS NOT NULL)),
    CONSTRAINT only_what_failed_has_a_failure CHECK (failure = '' OR status = 'failed')
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX sms_outbound_jobs_due ON sms_outbound_jobs (org_id, priority, next_retry_at, id) WHERE status = 'pending';
CREATE INDEX sms_outbound_jobs_leased ON sms_outbound_jobs (lease_until) WHERE status = 'processing';
CREATE INDEX sms_outbound_jobs_failed ON sms_outbound_jobs (org_id, id) WHERE status = 'failed';
CREATE INDEX sms_outbound_jobs_ended ON sms_outbound_jobs (processed_at, id) WHERE processed_at IS NOT NULL;
CREATE INDEX sms_outbound_jobs_open_by_subject ON sms_outbound_jobs (org_id, subject, id)
    WHERE status IN ('pending', 'processing') AND subject <> '';
-- What operators list, newest first.
CREATE INDEX sms_outbound_jobs_by_org ON sms_outbound_jobs (org_id, id DESC);
CREATE INDEX sms_outbound_jobs_by_profile ON sms_outbound_jobs (org_id, (payload ->> 'profile_id'), id DESC) WHERE payload ? 'profile_id';

ALTER TABLE sms_outbound_jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON sms_outbound_jobs TO messaging_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON sms_outbound_jobs TO messaging_worker USING (true);

-- How far each sender has used up its rate: when its next segment would be due if all came evenly. It belongs to no organisation.
CREATE TABLE sender_rates (
    sender  text        PRIMARY KEY CHECK (sender <> ''),
    arrival timestamptz NOT NULL
) WITH (fillfactor = 50); -- one row that is rewritten all the time, and never moves

ALTER TABLE sender_rates ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON sender_rates TO messaging_worker USING (true);

-- +goose Down
DROP TABLE sender_rates;
DROP TABLE sms_outbound_jobs;
