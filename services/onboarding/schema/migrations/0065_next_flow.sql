-- +goose Up

-- The event of a session that has ended says which flow follows: a host application that holds the interview itself leaves it to that flow.
-- The timeline names it since this release; the one before writes no detail there. Expand only.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION session_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION session_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    SELECT uuid_of(NEW.at), s.org_id,
        CASE WHEN NEW.kind = 'advanced' AND (s.mode = 'interviewing' OR s.status = 'closed') THEN 'session.completed' ELSE 'session.' || NEW.kind END,
        s.profile_id::text, NEW.at, CASE WHEN NEW.message_id IS NULL THEN 'session:' || s.id ELSE 'message:' || NEW.message_id END,
        jsonb_strip_nulls(jsonb_build_object('session_id', s.id, 'state_token', NEW.to_state_token, 'step_id', nullif(NEW.step_id, ''),
            'message_id', NEW.message_id, 'trigger', NEW.trigger, 'flow', s.flow))
    FROM conversation_sessions s WHERE s.id = NEW.session_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
