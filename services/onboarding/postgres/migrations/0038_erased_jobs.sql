-- +goose NO TRANSACTION
-- +goose Up

-- Expand only, and beside the running service: each statement is its own transaction, and all of them may be run again. A release that knows
-- none of this erases by the new function too.

-- names_in is what a job says of people: its ids, its numbers of 7 digits and more, and those that begin with + without the marks between their
-- digits. So a phone is found as 15005550001, 0015005550001 and +1 (500) 555-0001. The patterns are plain: each job is read once, when it ends.
-- What is longer is no phone, and would not fit into an index.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION names_in(key text, subject text, payload jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ARRAY(
        SELECT lower(m[1]) FROM regexp_matches(words, '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}', 'g') m
        UNION ALL SELECT m[1] FROM regexp_matches(words, '[0-9]{7,}', 'g') m WHERE length(m[1]) <= 40
        UNION ALL SELECT regexp_replace(m[1], '[^0-9]', '', 'g') FROM regexp_matches(words, '[+][0-9 ().\/-]+', 'g') m WHERE length(m[1]) <= 40)
    FROM (SELECT key || ' ' || subject || ' ' || payload::text) said (words);
END;
-- +goose StatementEnd

-- The jobs that are over, by whom they name; the others are few. A job is written into it once, when it ends.
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_name;
CREATE INDEX CONCURRENTLY webhook_jobs_by_name ON webhook_jobs USING gin (names_in(idempotency_key, subject, payload))
    WHERE processed_at IS NOT NULL;

-- As 0034 has it, but for jobs: they are found by that index; the key of one is replaced when a caller has chosen it; and one that is at work
-- is waited for, whatever its subject.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION erase_profile(of_org uuid, of_profile uuid, erased timestamptz)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    their_phone text;
    sessions    uuid[];
    theirs      uuid[]; -- jobs
    number      text;   -- of their phone, without the +
    names       text[]; -- what a job says when it is about them
BEGIN
    SELECT phone INTO their_phone FROM profiles WHERE id = of_profile AND org_id = of_org FOR UPDATE;
    IF NOT FOUND THEN
        UPDATE erasures SET erased_at = erased, next_try_at = NULL, waits_for = '' WHERE profile_id = of_profile AND erased_at IS NULL;
        RETURN true;
    END IF;
    sessions := ARRAY(SELECT id FROM conversation_sessions WHERE profile_id = of_profile);
    number := substr(their_phone, 2);
    names := ARRAY[number, '00' || number, of_profile::text] || sessions::text[];
    theirs := ARRAY(
        WITH over AS MATERIALIZED ( -- so that no index of the organisation's jobs, which may be all, is taken for it
            SELECT id, org_id FROM webhook_jobs WHERE processed_at IS NOT NULL AND names_in(idempotency_key, subject, payload) && names)
        SELECT id FROM over WHERE org_id = of_org
        UNION
        SELECT id FROM webhook_jobs WHERE org_id = of_org AND status IN ('pending', 'processing')
            AND names_in(idempotency_key, subject, payload) && names);
    IF EXISTS (SELECT FROM webhook_jobs WHERE id = ANY (theirs) AND status = 'processing')
        OR EXISTS (SELECT FROM engagement_outreach WHERE org_id = of_org AND (profile_id = of_profile OR member_id = of_profile) AND status = 'processing') THEN
        RETURN false;
    END IF;
    DELETE FROM held_replies WHERE session_id = ANY (sessions) OR job_id = ANY (theirs);
    DELETE FROM session_transitions WHERE session_id = ANY (sessions);
    DELETE FROM step_alarms WHERE session_id = ANY (sessions);
    DELETE FROM dead_letters WHERE session_id = ANY (sessions);
    DELETE FROM conversation_sessions WHERE id = ANY (sessions);
    -- No caller has the keys that are kept: a service alone may enqueue a job under one, and makes it of ids.
    UPDATE webhook_jobs SET idempotency_key = CASE
            WHEN idempotency_key ~ '^((SM|MM)[0-9a-fA-F]{32}$|(kapso|shopify|opening|opened|waits|waited|held|resumed)[:.])'
                AND idempotency_key NOT LIKE '%wamid.%' AND position(number IN idempotency_key) = 0
            THEN idempotency_key ELSE 'erased:' || id END,
        payload = '{}', subject = '', error_message = '', next_retry_at = NULL, updated_at = erased,
        status = CASE WHEN status IN ('pending', 'failed') THEN 'cancelled' ELSE status END,
        processed_at = CASE WHEN status = 'pending' THEN erased ELSE processed_at END
    WHERE id = ANY (theirs);

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

-- +goose Down

-- As 0034 has it.
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
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_name;
DROP FUNCTION IF EXISTS names_in(text, text, jsonb);
