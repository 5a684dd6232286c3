-- +goose NO TRANSACTION
-- +goose Up

-- Expand only: a release that knows none of this goes on working while one that does runs. Each statement is its own transaction; all of them
-- may be run again.

-- An operator may forbid to erase a person's data. Retention goes on.
ALTER TABLE profiles
    ADD COLUMN IF NOT EXISTS legal_hold_at timestamptz,
    ADD COLUMN IF NOT EXISTS legal_hold_reason text NOT NULL DEFAULT '';

-- An erasure outlives the profile that it erases: it says that it was done.
CREATE TABLE IF NOT EXISTS erasures (
    profile_id   uuid        PRIMARY KEY,
    org_id       uuid        NOT NULL,
    pseudonym    text        NOT NULL CHECK (pseudonym <> ''),
    source       text        NOT NULL CHECK (source IN ('operator', 'shopify')),
    requested_at timestamptz NOT NULL,
    requested_by jsonb       DEFAULT current_actor(),
    erased_at    timestamptz,
    next_try_at  timestamptz, -- null once it is done
    tries        integer     NOT NULL DEFAULT 0,
    waits_for    text        NOT NULL DEFAULT '',
    CONSTRAINT an_erasure_is_tried_until_it_is_done CHECK ((erased_at IS NULL) = (next_try_at IS NOT NULL))
);
CREATE INDEX IF NOT EXISTS erasures_due ON erasures (next_try_at) WHERE next_try_at IS NOT NULL;

ALTER TABLE erasures ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS tenant ON erasures;
CREATE POLICY tenant ON erasures TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
DROP POLICY IF EXISTS worker ON erasures;
CREATE POLICY worker ON erasures TO onboarding_worker USING (true);
REVOKE DELETE ON erasures FROM onboarding_tenant, onboarding_worker; -- that somebody was erased is kept

DROP INDEX CONCURRENTLY IF EXISTS events_by_subject;
CREATE INDEX CONCURRENTLY events_by_subject ON events (org_id, subject);

-- erase_profile deletes a person with everything that is theirs. Of rows that others need it takes what is said of them: a job keeps its key,
-- so that a webhook that comes again does nothing, unless it has WhatsApp's id, which holds the number in base64; and an event keeps its
-- place in the log. It is false when something of theirs is at work at this moment.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION erase_profile(of_org uuid, of_profile uuid, erased timestamptz)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    their_phone text;
    sessions    uuid[];
    theirs      uuid[]; -- jobs
BEGIN
    SELECT phone INTO their_phone FROM profiles WHERE id = of_profile AND org_id = of_org FOR UPDATE;
    IF NOT FOUND THEN
        UPDATE erasures SET erased_at = erased, next_try_at = NULL, waits_for = '' WHERE profile_id = of_profile AND erased_at IS NULL;
        RETURN true;
    END IF;
    sessions := ARRAY(SELECT id FROM conversation_sessions WHERE profile_id = of_profile);
    theirs := ARRAY(SELECT id FROM webhook_jobs WHERE org_id = of_org AND (subject = their_phone
        OR payload ->> 'session_id' = ANY (sessions::text[])
        OR position(their_phone IN payload::text) > 0 OR position(of_profile::text IN payload::text) > 0));
    IF EXISTS (SELECT FROM webhook_jobs WHERE id = ANY (theirs) AND status = 'processing' AND subject = their_phone)
        OR EXISTS (SELECT FROM engagement_outreach WHERE org_id = of_org AND (profile_id = of_profile OR member_id = of_profile) AND status = 'processing') THEN
        RETURN false;
    END IF;
    DELETE FROM held_replies WHERE session_id = ANY (sessions) OR job_id = ANY (theirs);
    DELETE FROM session_transitions WHERE session_id = ANY (sessions);
    DELETE FROM step_alarms WHERE session_id = ANY (sessions);
    DELETE FROM dead_letters WHERE session_id = ANY (sessions);
    DELETE FROM conversation_sessions WHERE id = ANY (sessions);
    UPDATE webhook_jobs SET idempotency_key = CASE WHEN idempotency_key LIKE '%wamid.%' THEN 'erased:' || id ELSE idempotency_key END,
        payload = '{}', subject = '', error_message = '', next_retry_at = NULL, updated_at = erased,
        status = CASE WHEN status IN ('pending', 'failed') THEN 'cancelled' ELSE status END,
        processed_at = CASE WHEN status = 'pending' THEN erased ELSE processed_at END
    WHERE id = ANY (theirs) AND status <> 'processing';

    DELETE FROM user_engagement_states WHERE profile_id = of_profile;
    DELETE FROM engagement_outreach WHERE org_id = of_org AND profile_id = of_profile;
    UPDATE engagement_outreach SET member_id = NULL, body = NULL, recipient = NULL, locale = NULL, payload = '{}', error_message = '', updated_at = erased,
        status = CASE WHEN status = 'pending' THEN 'cancelled' ELSE status END, next_retry_at = NULL,
        processed_at = coalesce(processed_at, erased)
    WHERE org_id = of_org AND member_id = of_profile;
    DELETE FROM engagement_state_transitions WHERE profile_id = of_profile;
    DELETE FROM engagement_actions WHERE profile_id = of_profile;
    DELETE FROM household_members WHERE profile_id = of_profile;

    DELETE FROM goal_alarms WHERE goal_id IN (SELECT id FROM goals WHERE profile_id = of_profile);
    DELETE FROM goal_transitions WHERE goal_id IN (SELECT id FROM goals WHERE profile_id = of_profile);
    DELETE FROM goals WHERE profile_id = of_profile;
    DELETE FROM devices WHERE profile_id = of_profile;
    DELETE FROM goal_readings WHERE profile_id = of_profile;

    -- Events hold ids, of which WhatsApp's has the number; only why a goal has failed is in words.
    UPDATE event_outbox SET data = data - 'reason' WHERE subject = of_profile::text AND data ? 'reason';
    UPDATE events SET data = data - ARRAY['reason', 'twilio_sid']
    WHERE org_id = of_org AND subject = of_profile::text AND (data ? 'reason' OR data ->> 'twilio_sid' LIKE 'wamid.%');
    UPDATE event_deliveries SET payload = payload #- '{data,reason}' #- '{data,twilio_sid}'
    WHERE org_id = of_org AND payload ->> 'subject' = of_profile::text
        AND (payload -> 'data' ? 'reason' OR payload #>> '{data,twilio_sid}' LIKE 'wamid.%');
    UPDATE audit SET phone = NULL WHERE org_id = of_org AND phone = their_phone;
    DELETE FROM profiles WHERE id = of_profile;
    UPDATE erasures SET erased_at = erased, next_try_at = NULL, waits_for = '' WHERE profile_id = of_profile AND erased_at IS NULL;
    RETURN true;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION erase_profile(uuid, uuid, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_profile(uuid, uuid, timestamptz) TO onboarding_worker;

-- +goose Down

DROP FUNCTION IF EXISTS erase_profile(uuid, uuid, timestamptz);
DROP INDEX CONCURRENTLY IF EXISTS events_by_subject;
DROP TABLE IF EXISTS erasures;
ALTER TABLE profiles DROP COLUMN IF EXISTS legal_hold_at, DROP COLUMN IF EXISTS legal_hold_reason;
