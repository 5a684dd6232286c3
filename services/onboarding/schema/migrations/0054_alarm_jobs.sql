-- +goose Up

-- The alarms that this database keeps itself, with ALARMS=postgres: a queue as platform/queue describes it, due when the step or the goal is.
-- Expand only.
CREATE TABLE alarm_jobs (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    idempotency_key text        NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 256), -- the alarm's identity, as QStash would get it
    event_type      text        NOT NULL, -- the label of its route
    subject         text        NOT NULL CHECK (subject = ''), -- alarms keep no order: the state of a session does
    payload         jsonb       NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
    status          text        NOT NULL CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    max_attempts    integer     NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    next_retry_at   timestamptz,
    lease_token     uuid,
    lease_until     timestamptz,
    lost_leases     integer     NOT NULL DEFAULT 0,
    processed_at    timestamptz,
    error_message   text        NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    actor           jsonb,
    UNIQUE (org_id, idempotency_key),
    CONSTRAINT a_pending_alarm_has_its_time CHECK ((status = 'pending') = (next_retry_at IS NOT NULL)),
    CONSTRAINT an_alarm_at_work_has_its_fence CHECK ((status = 'processing') = (lease_token IS NOT NULL)),
    CONSTRAINT an_alarm_at_work_has_its_lease CHECK ((status = 'processing') = (lease_until IS NOT NULL)),
    CONSTRAINT an_alarm_at_its_end_has_an_end CHECK ((status IN ('completed', 'failed', 'cancelled')) = (processed_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX alarm_jobs_due ON alarm_jobs (org_id, next_retry_at, id) WHERE status = 'pending';
CREATE INDEX alarm_jobs_leased ON alarm_jobs (lease_until) WHERE status = 'processing';
-- Empty: no alarm has a subject. The claim plans with them.
CREATE INDEX alarm_jobs_open_by_subject ON alarm_jobs (org_id, subject, id) WHERE status IN ('pending', 'processing') AND subject <> '';
CREATE INDEX alarm_jobs_at_work_by_subject ON alarm_jobs (subject, org_id, id) WHERE status = 'processing' AND subject <> '';
CREATE INDEX alarm_jobs_failed ON alarm_jobs (org_id, id) WHERE status = 'failed';
CREATE INDEX alarm_jobs_ended ON alarm_jobs (processed_at, id) WHERE processed_at IS NOT NULL;

-- As 0016 has it.
ALTER TABLE alarm_jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON alarm_jobs TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON alarm_jobs TO onboarding_worker USING (true);

-- +goose Down

DROP TABLE alarm_jobs;
