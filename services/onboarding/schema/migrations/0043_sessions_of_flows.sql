-- +goose Up

-- A session of a published flow: which flow and version it began with, and where it is. The deployment's own conversation has none of them, so
-- the release before goes on with it. Expand only; flows are started once every replica runs this release.
ALTER TABLE conversation_sessions
    ADD COLUMN flow text,
    ADD COLUMN flow_version text,
    ADD COLUMN flow_state jsonb;
ALTER TABLE conversation_sessions
    ADD CONSTRAINT conversation_sessions_flow CHECK (num_nulls(flow, flow_version, flow_state) IN (0, 3)) NOT VALID;
ALTER TABLE conversation_sessions VALIDATE CONSTRAINT conversation_sessions_flow;
-- How many people stand at each step of a version.
CREATE INDEX conversation_sessions_by_flow ON conversation_sessions (org_id, flow, flow_version, status) WHERE flow IS NOT NULL;

-- What flows have learnt of a person.
CREATE TABLE profile_fields (
    profile_id uuid        NOT NULL REFERENCES profiles (id) ON DELETE CASCADE, -- the erasure of a person deletes their profile
    org_id     uuid        NOT NULL,
    name       text        NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,39}$'),
    value      jsonb       NOT NULL,
    private    boolean     NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (profile_id, name)
);
ALTER TABLE profile_fields ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON profile_fields TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY tenant_reads ON profile_fields FOR SELECT TO onboarding_tenant USING (org_id = current_org_id());
CREATE POLICY person ON profile_fields AS RESTRICTIVE TO onboarding_tenant
    USING (current_profile_id() IS NULL OR profile_id = current_profile_id());
CREATE POLICY worker ON profile_fields TO onboarding_worker USING (true);

-- A flow that has ended is completed, too, and its events say which flow it was.
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

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION session_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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
DROP TABLE profile_fields;
DROP INDEX conversation_sessions_by_flow;
ALTER TABLE conversation_sessions DROP CONSTRAINT conversation_sessions_flow, DROP COLUMN flow_state, DROP COLUMN flow_version, DROP COLUMN flow;
