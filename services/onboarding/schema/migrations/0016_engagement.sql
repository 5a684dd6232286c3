-- +goose Up

-- A household is the set of profiles with one household_id: what the destination "group" means. A profile is in one at most.
CREATE TABLE household_members (
    profile_id   uuid        PRIMARY KEY REFERENCES profiles (id),
    org_id       uuid        NOT NULL,
    household_id uuid        NOT NULL,
    created_at   timestamptz NOT NULL
);
CREATE INDEX household_members_by_household ON household_members (org_id, household_id, profile_id);

-- The audit of a person's states. A cause (a message, an action, a run) has each trigger once, so that repeating it changes nothing.
CREATE TABLE engagement_state_transitions (
    id         uuid        PRIMARY KEY,
    org_id     uuid        NOT NULL,
    profile_id uuid        NOT NULL REFERENCES profiles (id),
    -- Null in the first one, with which the person's row begins.
    from_state text        CHECK (from_state IN ('active', 'goodbye_sent', 'help_flow', 'remind_later', 'dormant')),
    to_state   text        NOT NULL CHECK (to_state IN ('active', 'goodbye_sent', 'help_flow', 'remind_later', 'dormant')),
    trigger    text        NOT NULL CHECK (trigger IN ('user_message', 'inactivity_14d', 'goodbye_response_1', 'goodbye_response_2',
        'goodbye_response_3', 'goodbye_timeout', 'reminder_due')),
    cause      text        NOT NULL CHECK (cause <> ''),
    -- The timeout that a choice overrules which had reached us before it.
    supersedes uuid        REFERENCES engagement_state_transitions (id),
    metadata   jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    created_at timestamptz NOT NULL,
    CONSTRAINT engagement_state_transitions_once UNIQUE (profile_id, cause, trigger),
    CONSTRAINT a_trigger_leads_to_its_state CHECK (to_state = CASE trigger
        WHEN 'user_message' THEN 'active' WHEN 'inactivity_14d' THEN 'goodbye_sent' WHEN 'goodbye_response_1' THEN 'help_flow'
        WHEN 'goodbye_response_2' THEN 'remind_later' ELSE 'dormant' END),
    -- A choice is taken while the goodbye is open, when it crossed a message that made the person active, and over a timeout.
    CONSTRAINT a_trigger_comes_from_its_states CHECK (CASE trigger
        WHEN 'user_message' THEN from_state IS DISTINCT FROM 'active'
        WHEN 'inactivity_14d' THEN from_state IS NOT DISTINCT FROM 'active'
        WHEN 'goodbye_timeout' THEN from_state IS NOT DISTINCT FROM 'goodbye_sent'
        WHEN 'reminder_due' THEN from_state IS NOT DISTINCT FROM 'remind_later'
        ELSE coalesce(from_state, '') IN ('goodbye_sent', 'active', 'dormant') END),
    CONSTRAINT only_a_choice_supersedes CHECK (
        (supersedes IS NOT NULL) = (from_state IS NOT DISTINCT FROM 'dormant' AND trigger LIKE 'goodbye\_response\__'))
);
CREATE INDEX engagement_state_transitions_by_profile ON engagement_state_transitions (profile_id, id DESC);
CREATE INDEX engagement_state_transitions_by_time ON engagement_state_transitions (org_id, created_at, id);

CREATE TABLE user_engagement_states (
    id                 uuid        PRIMARY KEY,
    org_id             uuid        NOT NULL,
    profile_id         uuid        NOT NULL UNIQUE REFERENCES profiles (id),
    state              text        NOT NULL DEFAULT 'active'
        CHECK (state IN ('active', 'goodbye_sent', 'help_flow', 'remind_later', 'dormant')),
    last_activity_at   timestamptz NOT NULL,
    -- Of the newest goodbye: when it was decided, and 48 hours after Twilio accepted it. Null until then. Both may outlast the state.
    goodbye_sent_at    timestamptz,
    goodbye_expires_at timestamptz,
    remind_at          timestamptz,
    -- The newest transition; null of none.
    transition_id      uuid        REFERENCES engagement_state_transitions (id),
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    CONSTRAINT a_goodbye_has_its_time CHECK (state <> 'goodbye_sent' OR goodbye_sent_at IS NOT NULL),
    CONSTRAINT a_goodbye_expires_after_it CHECK (goodbye_expires_at IS NULL OR goodbye_sent_at IS NOT NULL AND goodbye_expires_at > goodbye_sent_at),
    CONSTRAINT a_reminder_has_its_time CHECK ((state = 'remind_later') = (remind_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX user_engagement_states_by_state ON user_engagement_states (org_id, state, profile_id);
CREATE INDEX user_engagement_states_by_activity ON user_engagement_states (org_id, last_activity_at, profile_id)
    WHERE state IN ('active', 'help_flow');
CREATE INDEX user_engagement_states_goodbye_expires ON user_engagement_states (org_id, goodbye_expires_at, profile_id)
    WHERE state = 'goodbye_sent' AND goodbye_expires_at IS NOT NULL;
CREATE INDEX user_engagement_states_remind ON user_engagement_states (org_id, remind_at, profile_id) WHERE remind_at IS NOT NULL;

-- Messages that nobody asked for just now: a queue of platform/queue. event_type is the type of the message, subject the phone that it goes
-- to, payload the parameters of its text.
CREATE TABLE engagement_outreach (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    idempotency_key text        NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 200),
    event_type      text        NOT NULL
        CHECK (event_type IN ('welcome', 'tier_unlock', 'goodbye', 'weekly_review', 'reminder', 'help_restart')),
    subject         text        NOT NULL CHECK (subject <> ''),
    payload         jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(payload) = 'object'),
    priority        smallint    NOT NULL,
    status          text        NOT NULL CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    max_attempts    integer     NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    next_retry_at   timestamptz,
    lease_token     uuid,
    lease_until     timestamptz,
    lost_leases     integer     NOT NULL DEFAULT 0,
    processed_at    timestamptz,
    error_message   text        NOT NULL DEFAULT '',
    -- Whom it is about, and the member of their household that it goes to, if that is another person.
    profile_id      uuid        NOT NULL REFERENCES profiles (id),
    member_id       uuid        REFERENCES profiles (id),
    -- The transition that asked for it; null of what no transition asks for.
    transition_id   uuid        REFERENCES engagement_state_transitions (id),
    message_key     text        NOT NULL CHECK (message_key <> ''),
    -- As the person preferred when it was queued, and from the first try on as it was resolved then.
    destination     text        NOT NULL DEFAULT 'individual' CHECK (destination IN ('individual', 'group')),
    -- The day of the person that the caps count it for.
    local_day       date        NOT NULL,
    scheduled_for   timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    -- What is sent, and to whom: stored at the first try, so that a later one is the same request under the same key.
    recipient       text,
    locale          text,
    body            text        CHECK (body <> ''),
    -- The row in messaging, and when Twilio accepted it.
    message_id      uuid,
    sent_at         timestamptz,
    -- What became of it, for machines. Empty while it is open, and when an operator cancelled it.
    outcome         text        NOT NULL DEFAULT '' CHECK (outcome IN ('', 'sent', 'rejected', 'given_up', 'expired', 'capped', 'returned',
        'opted_out', 'reminders_off', 'ineligible')),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    UNIQUE (org_id, idempotency_key),
    CONSTRAINT a_pending_job_has_its_time CHECK ((status = 'pending') = (next_retry_at IS NOT NULL)),
    CONSTRAINT a_job_at_work_has_its_fence CHECK ((status = 'processing') = (lease_token IS NOT NULL)),
    CONSTRAINT a_job_at_work_has_its_lease CHECK ((status = 'processing') = (lease_until IS NOT NULL)),
    CONSTRAINT a_job_at_its_end_has_an_end CHECK ((status IN ('completed', 'failed', 'cancelled')) = (processed_at IS NOT NULL)),
    -- What a person waits for comes before what they do not.
    CONSTRAINT a_type_has_its_priority CHECK (priority = CASE WHEN event_type IN ('help_restart', 'welcome', 'tier_unlock') THEN 0 ELSE 1 END),
    CONSTRAINT only_a_group_has_members CHECK (member_id IS NULL OR destination = 'group' AND member_id <> profile_id),
    CONSTRAINT a_text_is_stored_whole CHECK ((body IS NULL) = (recipient IS NULL) AND (body IS NULL) = (locale IS NULL)),
    CONSTRAINT only_what_is_done_was_sent CHECK (outcome <> 'sent' OR status = 'completed' AND message_id IS NOT NULL)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX engagement_outreach_due ON engagement_outreach (org_id, priority, next_retry_at, id) WHERE status = 'pending';
CREATE INDEX engagement_outreach_leased ON engagement_outreach (lease_until) WHERE status = 'processing';
CREATE INDEX engagement_outreach_open_by_subject ON engagement_outreach (org_id, subject, id)
    WHERE status IN ('pending', 'processing') AND subject <> '';
CREATE INDEX engagement_outreach_at_work_by_subject ON engagement_outreach (subject, org_id, id) WHERE status = 'processing' AND subject <> '';
CREATE INDEX engagement_outreach_failed ON engagement_outreach (org_id, id DESC) WHERE status = 'failed';
CREATE INDEX engagement_outreach_by_org ON engagement_outreach (org_id, id DESC);
CREATE INDEX engagement_outreach_by_time ON engagement_outreach (org_id, created_at);
CREATE INDEX engagement_outreach_ended ON engagement_outreach (processed_at, id) WHERE processed_at IS NOT NULL;
-- What a person has got, is to get, or was spared: for the caps, for withdrawals, and for who asks.
CREATE INDEX engagement_outreach_by_profile ON engagement_outreach (org_id, profile_id, id DESC);

-- The queue by the names and statuses of the seed, for people who query. A claimed row is still pending there.
CREATE VIEW engagement_message_queue WITH (security_invoker = true) AS
SELECT id, profile_id AS user_id, event_type AS message_type, message_key, payload AS message_params, destination,
    coalesce(recipient, subject) AS destination_jid, coalesce(next_retry_at, scheduled_for) AS scheduled_for,
    CASE WHEN status = 'completed' THEN coalesce(sent_at, processed_at) END AS sent_at,
    CASE status WHEN 'processing' THEN 'pending' WHEN 'completed' THEN 'sent' ELSE status END AS status,
    attempts AS retry_count, nullif(error_message, '') AS error_message, idempotency_key, created_at
FROM engagement_outreach;

-- A run is of one organisation, job and period, and computes everything from its nominal instant. The replica that has the lease works on it, a
-- batch in each transaction, fenced; the next one goes on from the cursor.
CREATE TABLE engagement_runs (
    id          uuid        PRIMARY KEY,
    org_id      uuid        NOT NULL,
    job         text        NOT NULL CHECK (job IN ('daily', 'weekly')),
    period      text        NOT NULL,
    nominal_at  timestamptz NOT NULL,
    -- Superseded is one that was missed, when a newer period of its job ran or it was too late to run it.
    status      text        NOT NULL CHECK (status IN ('running', 'completed', 'superseded')),
    -- The configuration that it began with, and goes on with.
    config_hash text        NOT NULL,
    lease_token uuid,
    lease_until timestamptz,
    fence       bigint      NOT NULL DEFAULT 0 CHECK (fence >= 0),
    -- How far it came: the stage, and the last person of it that is done.
    stage       text        NOT NULL DEFAULT '',
    cursor      text        NOT NULL DEFAULT '',
    processed   integer     NOT NULL DEFAULT 0 CHECK (processed >= 0),
    succeeded   integer     NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    failed      integer     NOT NULL DEFAULT 0 CHECK (failed >= 0),
    skipped     jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(skipped) = 'object'), -- how many, by reason
    worked_ms   bigint      NOT NULL DEFAULT 0 CHECK (worked_ms >= 0),
    finished_at timestamptz,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT engagement_runs_once UNIQUE (org_id, job, period),
    CONSTRAINT a_period_is_of_its_job CHECK (period ~ CASE job
        WHEN 'daily' THEN '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' ELSE '^[0-9]{4}-W[0-9]{2}$' END),
    CONSTRAINT a_run_at_its_end_has_an_end CHECK ((status = 'running') = (finished_at IS NULL)),
    CONSTRAINT a_lease_has_its_end CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT only_what_runs_is_leased CHECK (lease_token IS NULL OR status = 'running')
);
CREATE INDEX engagement_runs_open ON engagement_runs (nominal_at, id) WHERE status = 'running';

-- What happened, for the host application: written in the transaction that it tells of, and read by a sequencer that comes later. Ids, never
-- a text or a phone number.
CREATE TABLE event_outbox (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id     uuid        NOT NULL UNIQUE,
    org_id       uuid        NOT NULL,
    type         text        NOT NULL CHECK (type ~ '^[a-z][a-z0-9_.]*$'),
    subject      text        NOT NULL CHECK (subject <> ''),
    time         timestamptz NOT NULL,
    causation_id text        NOT NULL DEFAULT '',
    data         jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(data) = 'object')
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- As 0008 has it. What a user's call may not even see is closed by the tenant's own policy, not by a restrictive one: that would hold for the login,
-- which inherits from the tenant, and keep its claims from the indexes by subject (Queue.Claim).
-- +goose StatementBegin
DO $$
DECLARE
    held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['household_members', 'user_engagement_states', 'engagement_state_transitions', 'engagement_outreach',
        'engagement_runs', 'event_outbox'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY tenant ON %I TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL)', held);
        EXECUTE format('CREATE POLICY worker ON %I TO onboarding_worker USING (true)', held);
    END LOOP;
    -- A person reads their own rows of these, and changes none.
    FOREACH held IN ARRAY ARRAY['household_members', 'user_engagement_states', 'engagement_state_transitions'] LOOP
        EXECUTE format('CREATE POLICY tenant_reads ON %I FOR SELECT TO onboarding_tenant USING (org_id = current_org_id())', held);
        EXECUTE format('CREATE POLICY person ON %I AS RESTRICTIVE TO onboarding_tenant
            USING (current_profile_id() IS NULL OR profile_id = current_profile_id())', held);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

DROP TABLE event_outbox;
DROP TABLE engagement_runs;
DROP VIEW engagement_message_queue;
DROP TABLE engagement_outreach;
DROP TABLE user_engagement_states;
DROP TABLE engagement_state_transitions;
DROP TABLE household_members;
