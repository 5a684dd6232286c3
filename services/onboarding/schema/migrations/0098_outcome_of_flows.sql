-- +goose Up

-- session.completed has the outcome with which the flow ended.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sessions_are_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    SELECT uuid_of(e.at), e.org_id, e.type, e.profile_id::text, e.at,
        CASE WHEN e.message_id IS NULL THEN 'session:' || e.session_id ELSE 'message:' || e.message_id END,
        jsonb_strip_nulls(jsonb_build_object('session_id', e.session_id, 'state_token', e.to_state_token, 'step_id', nullif(e.step_id, ''),
            'message_id', e.message_id, 'trigger', e.trigger, 'flow', e.flow, 'next_flow', e.next_flow,
            'outcome', e.outcome))
    FROM (
        SELECT t.*, s.org_id, s.profile_id, s.flow,
            CASE WHEN t.kind = 'advanced' AND (s.mode = 'interviewing' OR s.status = 'closed') THEN 'session.completed'
                ELSE 'session.' || t.kind END AS type,
            CASE WHEN t.kind = 'advanced' AND s.status = 'closed' THEN nullif(t.detail, '') END AS next_flow,
            CASE WHEN t.kind = 'advanced' AND s.status = 'closed' THEN substring(s.status_reason from '^ended: (.*)$')
                WHEN t.kind = 'advanced' AND s.mode = 'interviewing' THEN substring(t.detail from '^ended: (.*)$') END AS outcome
        FROM told t CROSS JOIN LATERAL (
            SELECT org_id, profile_id, flow, mode, status, status_reason FROM conversation_sessions WHERE id = t.session_id OFFSET 0) s
        WHERE t.kind IN ('activated', 'advanced', 'paused', 'parked', 'resumed', 'stopped', 'closed')) e
    WHERE EXISTS (SELECT FROM event_types w WHERE w.type = e.type)
    ORDER BY e.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sessions_are_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    SELECT uuid_of(e.at), e.org_id, e.type, e.profile_id::text, e.at,
        CASE WHEN e.message_id IS NULL THEN 'session:' || e.session_id ELSE 'message:' || e.message_id END,
        jsonb_strip_nulls(jsonb_build_object('session_id', e.session_id, 'state_token', e.to_state_token, 'step_id', nullif(e.step_id, ''),
            'message_id', e.message_id, 'trigger', e.trigger, 'flow', e.flow, 'next_flow', e.next_flow))
    FROM (
        SELECT t.*, s.org_id, s.profile_id, s.flow,
            CASE WHEN t.kind = 'advanced' AND (s.mode = 'interviewing' OR s.status = 'closed') THEN 'session.completed'
                ELSE 'session.' || t.kind END AS type,
            CASE WHEN t.kind = 'advanced' AND s.status = 'closed' THEN nullif(t.detail, '') END AS next_flow
        FROM told t CROSS JOIN LATERAL (
            SELECT org_id, profile_id, flow, mode, status FROM conversation_sessions WHERE id = t.session_id OFFSET 0) s
        WHERE t.kind IN ('activated', 'advanced', 'paused', 'parked', 'resumed', 'stopped', 'closed')) e
    WHERE EXISTS (SELECT FROM event_types w WHERE w.type = e.type)
    ORDER BY e.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
