-- +goose Up

-- What the host application is told (docs/adr/0038): services write into their event_outbox in the transaction that it tells of, a sequencer
-- moves what is committed to events and numbers it, and each subscription walks along events with its cursor.

-- The types that are written at all. A release that knows more of them adds them; the sequencer takes out what is not kept and not
-- subscribed to.
CREATE TABLE event_types (type text PRIMARY KEY);
INSERT INTO event_types (type)
VALUES ('session.activated'), ('session.advanced'), ('session.paused'), ('session.parked'), ('session.resumed'), ('session.completed'),
    ('session.stopped'), ('session.closed'), ('engagement.state_changed'), ('engagement.goodbye_response'), ('engagement.unprompted_return'),
    ('engagement.preference_changed'), ('engagement.tier_completed'), ('engagement.magic_moment'), ('engagement.run_finished'),
    ('goal.scheduled'), ('goal.rescheduled'), ('goal.started'), ('goal.completed'), ('goal.failed'), ('goal.cancelled');

-- These functions run as their owner, who is in both roles: whoever may change a row may have its event written. So their plans do not depend
-- on who calls, either.
-- +goose StatementBegin
CREATE FUNCTION event_is_written() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM event_types t WHERE t.type = NEW.type) THEN
        RETURN NEW;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER event_outbox_written BEFORE INSERT ON event_outbox FOR EACH ROW EXECUTE FUNCTION event_is_written();

-- A UUIDv7 of an instant.
CREATE FUNCTION uuid_of(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE
    RETURN encode(set_byte(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(floor(extract(epoch FROM at) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 6, 112 | (get_byte(uuid_send(gen_random_uuid()), 6) & 15)), 'hex')::uuid;

-- Each line of a session's timeline that the host application is told of, whichever release or hand writes it. The session stands already as
-- the line has it.
-- +goose StatementBegin
CREATE FUNCTION session_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    SELECT uuid_of(NEW.at), s.org_id, CASE WHEN NEW.kind = 'advanced' AND s.mode = 'interviewing' THEN 'session.completed' ELSE 'session.' || NEW.kind END,
        s.profile_id::text, NEW.at, CASE WHEN NEW.message_id IS NULL THEN 'session:' || s.id ELSE 'message:' || NEW.message_id END,
        jsonb_strip_nulls(jsonb_build_object('session_id', s.id, 'state_token', NEW.to_state_token, 'step_id', nullif(NEW.step_id, ''),
            'message_id', NEW.message_id, 'trigger', NEW.trigger))
    FROM conversation_sessions s WHERE s.id = NEW.session_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER session_transitions_told AFTER INSERT ON session_transitions FOR EACH ROW
    WHEN (NEW.kind IN ('activated', 'advanced', 'paused', 'parked', 'resumed', 'stopped', 'closed'))
    EXECUTE FUNCTION session_is_told();

-- +goose StatementBegin
CREATE FUNCTION run_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    VALUES (uuid_of(NEW.finished_at), NEW.org_id, 'engagement.run_finished', NEW.id::text, NEW.finished_at, 'run:' || NEW.id, jsonb_build_object(
        'run_id', NEW.id, 'job', NEW.job, 'period', NEW.period, 'status', NEW.status, 'processed', NEW.processed, 'succeeded', NEW.succeeded,
        'failed', NEW.failed));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER engagement_runs_told AFTER UPDATE OF status ON engagement_runs FOR EACH ROW
    WHEN (OLD.status = 'running' AND NEW.status <> 'running')
    EXECUTE FUNCTION run_is_told();

-- The one row of the sequencer: its lease, the last number it gave, and the rows of messaging's outbox that are here and may be deleted there.
CREATE TABLE event_feed (
    one            boolean     PRIMARY KEY DEFAULT true CHECK (one),
    last_seq       bigint      NOT NULL DEFAULT 0,
    -- No event is recorded before the one ahead of it, whatever the clocks of the replicas say.
    recorded_at    timestamptz NOT NULL DEFAULT '-infinity',
    messaging_done bigint[]    NOT NULL DEFAULT '{}',
    lease_token    uuid,
    lease_until    timestamptz,
    CONSTRAINT a_lease_has_its_end CHECK ((lease_token IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 50);
INSERT INTO event_feed DEFAULT VALUES;

-- The log: what a reader has seen is all that has a number up to its own.
CREATE TABLE events (
    seq          bigint      PRIMARY KEY,
    event_id     uuid        NOT NULL,
    org_id       uuid        NOT NULL,
    type         text        NOT NULL,
    subject      text        NOT NULL,
    time         timestamptz NOT NULL,
    causation_id text        NOT NULL,
    data         jsonb       NOT NULL,
    recorded_at  timestamptz NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX events_by_org ON events (org_id, seq);

-- Up to where an organisation's log was deleted: a reader that has not come so far has missed something.
CREATE TABLE event_log_starts (
    org_id      uuid   PRIMARY KEY,
    deleted_seq bigint NOT NULL
);

CREATE TABLE event_subscriptions (
    id               uuid        PRIMARY KEY,
    org_id           uuid        NOT NULL,
    url              text        NOT NULL CHECK (length(url) BETWEEN 1 AND 2000),
    types            text[]      NOT NULL, -- empty for all
    include          text[]      NOT NULL CHECK (include <@ ARRAY['body']),
    secret           bytea       NOT NULL CHECK (length(secret) >= 24),
    -- The secret before, with which deliveries are signed as well for a day.
    old_secret       bytea       CHECK (length(old_secret) >= 24),
    old_secret_until timestamptz,
    status           text        NOT NULL CHECK (status IN ('active', 'paused')),
    paused_reason    text        NOT NULL DEFAULT '',
    cursor_seq       bigint      NOT NULL,
    -- Since when no delivery has succeeded, though some were tried.
    failing_since    timestamptz,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    CONSTRAINT an_old_secret_has_its_end CHECK ((old_secret IS NULL) = (old_secret_until IS NULL)),
    CONSTRAINT a_pause_has_a_reason CHECK ((status = 'paused') = (paused_reason <> ''))
) WITH (fillfactor = 70);
CREATE INDEX event_subscriptions_by_org ON event_subscriptions (org_id, id DESC);

-- As platform/queue has it. The subject is the subscription and the person.
CREATE TABLE event_deliveries (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    idempotency_key text        NOT NULL,
    event_type      text        NOT NULL,
    subject         text        NOT NULL,
    payload         jsonb       NOT NULL,
    status          text        NOT NULL CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    attempts        integer     NOT NULL DEFAULT 0,
    max_attempts    integer     NOT NULL,
    next_retry_at   timestamptz,
    lease_token     uuid,
    lease_until     timestamptz,
    lost_leases     integer     NOT NULL DEFAULT 0,
    processed_at    timestamptz,
    error_message   text        NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    subscription_id uuid        NOT NULL REFERENCES event_subscriptions (id) ON DELETE CASCADE,
    seq             bigint      NOT NULL,
    type            text        NOT NULL, -- of the event
    CONSTRAINT event_deliveries_once UNIQUE (org_id, idempotency_key),
    CONSTRAINT a_lease_is_of_a_delivery_at_work CHECK ((status = 'processing') = (lease_token IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX event_deliveries_due ON event_deliveries (org_id, next_retry_at, id) WHERE status = 'pending';
CREATE INDEX event_deliveries_leased ON event_deliveries (lease_until) WHERE status = 'processing';
CREATE INDEX event_deliveries_open ON event_deliveries (org_id, subject, id) WHERE status IN ('pending', 'processing') AND subject <> '';
CREATE INDEX event_deliveries_at_work ON event_deliveries (subject, org_id, id) WHERE status = 'processing' AND subject <> '';
CREATE INDEX event_deliveries_failed ON event_deliveries (org_id, id) WHERE status = 'failed';
CREATE INDEX event_deliveries_by_org ON event_deliveries (org_id, id);
CREATE INDEX event_deliveries_ended ON event_deliveries (processed_at, id) WHERE processed_at IS NOT NULL;
-- How many wait, and what is put back when the subscription is paused.
CREATE INDEX event_deliveries_of_subscription ON event_deliveries (subscription_id, seq) WHERE status IN ('pending', 'processing');

-- As 0016 has it.
-- +goose StatementBegin
DO $$
DECLARE
    held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['events', 'event_log_starts', 'event_subscriptions', 'event_deliveries'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY tenant ON %I TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL)', held);
        EXECUTE format('CREATE POLICY worker ON %I TO onboarding_worker USING (true)', held);
    END LOOP;
END
$$;
-- +goose StatementEnd
-- What belongs to no organisation. A call reads where the log ends.
ALTER TABLE event_types ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON event_types TO onboarding_worker USING (true);
ALTER TABLE event_feed ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON event_feed TO onboarding_worker USING (true);
CREATE FUNCTION event_log_end() RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
    'SELECT last_seq FROM event_feed';

-- +goose Down

DROP TABLE event_deliveries;
DROP TABLE event_subscriptions;
DROP TABLE event_log_starts;
DROP TABLE events;
DROP FUNCTION event_log_end();
DROP TABLE event_feed;
DROP TRIGGER engagement_runs_told ON engagement_runs;
DROP FUNCTION run_is_told();
DROP TRIGGER session_transitions_told ON session_transitions;
DROP FUNCTION session_is_told();
DROP FUNCTION uuid_of(timestamptz);
DROP TRIGGER event_outbox_written ON event_outbox;
DROP FUNCTION event_is_written();
DROP TABLE event_types;
