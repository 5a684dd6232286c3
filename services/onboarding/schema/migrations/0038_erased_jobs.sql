-- +goose NO TRANSACTION
-- +goose Up

-- Expand only, and while the service runs: each statement is its own transaction, and all of them may be run again. A release that knows
-- none of this erases by the new function too.

-- names_in returns a job's words about people: its ids, its numbers of 7 digits and more, and the accounts in ids of WhatsApp's, which are 'wamid.' and,
-- in base64, three bytes and a number. Of digits with marks or blanks between them it is each row of parts that has as many digits as a phone:
-- where it begins and ends nothing says, as in 'room 2 1 (500) 555-0001 2nd floor'. So that no job fills the index it is the first 1000 of
-- those, and nothing of more than 40 digits. Digits and blanks that are wider count as the usual ones, and so does +1 (0)500 as +1 500.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION names_in(key text, subject text, payload jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ARRAY(
        SELECT lower(m[1]) FROM regexp_matches(words, '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}', 'g') m
        UNION ALL SELECT m[1] FROM regexp_matches(words, '[0-9]{7,}', 'g') m WHERE length(m[1]) <= 40
        UNION ALL SELECT substring(encode(decode(rpad(translate(m[1], '-_', '+/'), (length(m[1]) + 3) / 4 * 4, 'A'), 'base64'), 'escape')
                FROM '[0-9]{7,15}')
            FROM regexp_matches(words, 'wamid\.([0-9A-Za-z+/_-]+)', 'g') m WHERE length(m[1]) <= 200
        UNION ALL (SELECT number FROM regexp_matches(
                replace(regexp_replace(words, '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}', '|', 'g'), '(0)', ''),
                '[0-9]+(?:[ ()./_\u00ad\u200b-\u2015\u202a-\u202e\u2060\u2212-]+[0-9]+){1,24}', 'g') m,
            regexp_split_to_array(m[1], '[^0-9]+') part, generate_series(1, cardinality(part) - 1) since,
            generate_series(since + 1, least(since + 17, cardinality(part))) until, array_to_string(part[since:until], '') number
            WHERE length(number) BETWEEN 7 AND 18 LIMIT 1000))
    FROM (SELECT normalize(key || ' ' || subject || ' ' || payload::text, NFKC)) said (words);
END;
-- +goose StatementEnd

-- names_of returns the forms of a number: with 00 or 011 ahead of it, and as WhatsApp has it, in Brazil without the 9 that mobile numbers have had
-- since 2016, in Mexico with the 1 that they had until 2019.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION names_of(phone text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ARRAY[digits, '00' || digits, '011' || digits, regexp_replace(digits, '^(55..)9([6-9].{7})$', '\1\2'),
        regexp_replace(digits, '^52(.{10})$', '521\1')]
    FROM substr(phone, 2) digits;
END;
-- +goose StatementEnd

-- The jobs that are over, by whom they name; the others are few. A job is written into it once, when it ends.
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_by_name;
CREATE INDEX CONCURRENTLY webhook_jobs_by_name ON webhook_jobs USING gin (names_in(idempotency_key, subject, payload))
    WHERE processed_at IS NOT NULL;

-- As 0034 has it, but for jobs: they are found by that index; the key of one is replaced when a caller has chosen it; and one that is at work
-- is waited for, whatever its subject. So are keys of actions and ids of requests, which callers choose too, wherever they are kept. The
-- login that calls it erases only whom an erasure was asked for, and not under a legal hold; the end is by the database's clock, give or take
-- what the clocks differ.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION erase_profile(of_org uuid, of_profile uuid, erased timestamptz)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    their_phone text;
    held        boolean;
    ended       timestamptz;
    sessions    uuid[];
    theirs      uuid[]; -- jobs
    numbers     text[]; -- how a job names their phone
    names       text[]; -- what a job says when it is about them
BEGIN
    SELECT phone, legal_hold_at IS NOT NULL INTO their_phone, held FROM profiles WHERE id = of_profile AND org_id = of_org FOR UPDATE;
    SELECT least(greatest(erased, requested_at), now() + interval '5 minutes') INTO ended
    FROM erasures WHERE profile_id = of_profile AND org_id = of_org AND erased_at IS NULL;
    IF their_phone IS NULL THEN
        UPDATE erasures SET erased_at = ended, next_try_at = NULL, waits_for = '' WHERE profile_id = of_profile AND org_id = of_org AND erased_at IS NULL;
        RETURN true;
    ELSIF held OR ended IS NULL THEN
        RAISE EXCEPTION 'the profile is on legal hold, or its erasure was not asked for' USING ERRCODE = 'restrict_violation';
    END IF;
    sessions := ARRAY(SELECT id FROM conversation_sessions WHERE profile_id = of_profile);
    numbers := names_of(their_phone);
    names := numbers || of_profile::text || sessions::text[];
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
                AND idempotency_key NOT LIKE '%wamid.%' AND NOT names_in(idempotency_key, '', '{}') && numbers
            THEN idempotency_key ELSE 'erased:' || id END,
        payload = '{}', subject = '', error_message = '', next_retry_at = NULL, updated_at = erased, actor = actor - 'request_id',
        status = CASE WHEN status IN ('pending', 'failed') THEN 'cancelled' ELSE status END,
        processed_at = CASE WHEN status = 'pending' THEN erased ELSE processed_at END
    WHERE id = ANY (theirs);

    UPDATE audit SET request_id = '' WHERE org_id = of_org AND (phone = their_phone OR profile_id = of_profile OR subject = of_profile::text
        OR target_id = ANY (sessions || theirs || ARRAY(SELECT id FROM goals WHERE profile_id = of_profile)));

    DELETE FROM user_engagement_states WHERE profile_id = of_profile;
    DELETE FROM engagement_outreach WHERE org_id = of_org AND profile_id = of_profile;
    UPDATE engagement_outreach SET member_id = NULL, body = NULL, recipient = NULL, locale = NULL, payload = '{}', error_message = '', updated_at = erased,
        actor = actor - 'request_id',
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

    -- Events hold ids, of which WhatsApp's has the number; only why a goal has failed is in words. What caused one is an id as well, but the key
    -- of an action and the id of a request.
    UPDATE event_outbox SET data = data - 'reason', causation_id = regexp_replace(causation_id, '^(action|request):.*', '\1:erased')
    WHERE subject = of_profile::text AND (data ? 'reason' OR causation_id ~ '^(action|request):');
    UPDATE events SET data = data - ARRAY['reason', 'twilio_sid'], causation_id = regexp_replace(causation_id, '^(action|request):.*', '\1:erased')
    WHERE org_id = of_org AND subject = of_profile::text
        AND (data ? 'reason' OR data ->> 'twilio_sid' LIKE 'wamid.%' OR causation_id ~ '^(action|request):');
    UPDATE event_deliveries SET payload = jsonb_set(payload #- '{data,reason}' #- '{data,twilio_sid}', '{causationid}',
        coalesce(to_jsonb(regexp_replace(payload ->> 'causationid', '^(action|request):.*', '\1:erased')), 'null'), false)
    WHERE org_id = of_org AND payload ->> 'subject' = of_profile::text
        AND (payload -> 'data' ? 'reason' OR payload #>> '{data,twilio_sid}' LIKE 'wamid.%' OR payload ->> 'causationid' ~ '^(action|request):');
    UPDATE audit SET phone = NULL WHERE org_id = of_org AND phone = their_phone;
    DELETE FROM profiles WHERE id = of_profile;
    UPDATE erasures SET erased_at = ended, next_try_at = NULL, waits_for = '', requested_by = requested_by - 'request_id'
    WHERE profile_id = of_profile AND erased_at IS NULL;
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
DROP FUNCTION IF EXISTS names_of(text);
DROP FUNCTION IF EXISTS names_in(text, text, jsonb);
