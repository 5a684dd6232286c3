-- +goose Up

-- As 0038 has it, but for a person whom WhatsApp names by an id: the jobs that have it as their subject are theirs, too. So are WhatsApp's ids
-- of messages that came before they had a profile: events of 0.1.0 have them, and the index of events by subject finds those of 'unknown'.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION erase_profile(of_org uuid, of_profile uuid, erased timestamptz)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    their_phone text;
    their_user  text; -- as WhatsApp names them
    held        boolean;
    ended       timestamptz;
    sessions    uuid[];
    theirs      uuid[]; -- jobs
    numbers     text[]; -- how a job names their phone
    names       text[]; -- what a job says when it is about them
BEGIN
    SELECT phone, whatsapp_user_id, legal_hold_at IS NOT NULL INTO their_phone, their_user, held
    FROM profiles WHERE id = of_profile AND org_id = of_org FOR UPDATE;
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
            AND names_in(idempotency_key, subject, payload) && names
        UNION
        SELECT id FROM webhook_jobs WHERE org_id = of_org AND subject LIKE 'whatsapp:%' AND subject = 'whatsapp:' || their_user);
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
    UPDATE events SET data = data - 'twilio_sid'
    WHERE org_id = of_org AND subject = 'unknown' AND data ->> 'twilio_sid' LIKE 'wamid.%' AND names_in('', '', data) && numbers;
    UPDATE event_deliveries SET payload = jsonb_set(payload #- '{data,reason}' #- '{data,twilio_sid}', '{causationid}',
        coalesce(to_jsonb(regexp_replace(payload ->> 'causationid', '^(action|request):.*', '\1:erased')), 'null'), false)
    WHERE org_id = of_org AND (payload ->> 'subject' = of_profile::text
            AND (payload -> 'data' ? 'reason' OR payload #>> '{data,twilio_sid}' LIKE 'wamid.%' OR payload ->> 'causationid' ~ '^(action|request):')
        OR payload ->> 'subject' = 'unknown' AND payload #>> '{data,twilio_sid}' LIKE 'wamid.%' AND names_in('', '', payload -> 'data') && numbers);
    UPDATE audit SET phone = NULL WHERE org_id = of_org AND phone = their_phone;
    DELETE FROM profiles WHERE id = of_profile;
    UPDATE erasures SET erased_at = ended, next_try_at = NULL, waits_for = '', requested_by = requested_by - 'request_id'
    WHERE profile_id = of_profile AND erased_at IS NULL;
    RETURN true;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- As 0038 has it.
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
