-- +goose Up

-- One statement writes the events of all lines that a statement adds to timelines. Before, each line had its own: a step adds two lines, and
-- steps share statements. Both releases go on as they are. Each session is looked up by its id, whatever the planner thinks of an empty
-- table.
-- +goose StatementBegin
CREATE FUNCTION sessions_are_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
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
CREATE OR REPLACE TRIGGER session_transitions_told AFTER INSERT ON session_transitions
    REFERENCING NEW TABLE AS told FOR EACH STATEMENT EXECUTE FUNCTION sessions_are_told();
DROP FUNCTION session_is_told();

-- +goose Down

-- +goose StatementBegin
CREATE FUNCTION session_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    SELECT uuid_of(NEW.at), s.org_id,
        CASE WHEN NEW.kind = 'advanced' AND (s.mode = 'interviewing' OR s.status = 'closed') THEN 'session.completed' ELSE 'session.' || NEW.kind END,
        s.profile_id::text, NEW.at, CASE WHEN NEW.message_id IS NULL THEN 'session:' || s.id ELSE 'message:' || NEW.message_id END,
        jsonb_strip_nulls(jsonb_build_object('session_id', s.id, 'state_token', NEW.to_state_token, 'step_id', nullif(NEW.step_id, ''),
            'message_id', NEW.message_id, 'trigger', NEW.trigger, 'flow', s.flow,
            'next_flow', CASE WHEN NEW.kind = 'advanced' AND s.status = 'closed' THEN nullif(NEW.detail, '') END))
    FROM conversation_sessions s WHERE s.id = NEW.session_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER session_transitions_told AFTER INSERT ON session_transitions FOR EACH ROW
    WHEN (NEW.kind IN ('activated', 'advanced', 'paused', 'parked', 'resumed', 'stopped', 'closed'))
    EXECUTE FUNCTION session_is_told();
DROP FUNCTION sessions_are_told();
