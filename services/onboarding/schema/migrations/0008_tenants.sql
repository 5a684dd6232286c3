-- +goose Up
-- Whose rows a statement sees is the database's business too. Every statement of the service runs as one of two roles: the tenant, which
-- sees the rows of one organisation, for calls of operators and users; the worker, which sees all, for the loops and for calls of other
-- services. The owner is a member of both: migrations, the release before this one and an operator's psql see everything.

-- +goose StatementBegin
DO $$
DECLARE
    taken text;
BEGIN
    FOREACH taken IN ARRAY ARRAY['onboarding_tenant', 'onboarding_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = taken) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', taken);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL; -- another database of this server was quicker
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'the role % is missing, and % may not create it', taken, current_user USING
                        HINT = format('As an administrator: CREATE ROLE %I NOLOGIN; GRANT %I TO %I;', taken, taken, current_user);
            END;
        END IF;
        IF NOT pg_has_role(current_user, taken, 'USAGE') THEN
            EXECUTE format('GRANT %I TO %I', taken, current_user);
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

GRANT USAGE ON SCHEMA public TO onboarding_tenant, onboarding_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO onboarding_tenant, onboarding_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO onboarding_tenant, onboarding_worker;
REVOKE INSERT, UPDATE, DELETE ON goose_db_version FROM onboarding_tenant, onboarding_worker;

-- The organisation for which a statement runs; null for none.
CREATE FUNCTION current_org_id() RETURNS uuid LANGUAGE sql STABLE
    RETURN nullif(current_setting('app.current_org_id', true), '')::uuid;

-- +goose StatementBegin
DO $$
DECLARE
    held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['profiles', 'conversation_sessions', 'step_alarms', 'dead_letters', 'webhook_jobs', 'inbound_audits', 'organisation_settings'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY tenant ON %I TO onboarding_tenant USING (org_id = current_org_id())', held);
        EXECUTE format('CREATE POLICY worker ON %I TO onboarding_worker USING (true)', held);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- What belongs to a session belongs to its organisation.
ALTER TABLE session_transitions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session_transitions TO onboarding_tenant USING (EXISTS (SELECT FROM conversation_sessions s WHERE s.id = session_id));
CREATE POLICY worker ON session_transitions TO onboarding_worker USING (true);

-- The same of a reply that is held.
ALTER TABLE held_replies ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON held_replies TO onboarding_tenant USING (EXISTS (SELECT FROM conversation_sessions s WHERE s.id = session_id));
CREATE POLICY worker ON held_replies TO onboarding_worker USING (true);

-- Reservations are of deliveries by QStash; their organisation is not known yet.
ALTER TABLE delivery_reservations ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON delivery_reservations TO onboarding_worker USING (true);

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    held record;
BEGIN
    FOR held IN SELECT tablename, policyname FROM pg_policies WHERE schemaname = 'public' LOOP
        EXECUTE format('DROP POLICY %I ON %I', held.policyname, held.tablename);
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', held.tablename);
    END LOOP;
END
$$;
-- +goose StatementEnd
DROP FUNCTION current_org_id();
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT, INSERT, UPDATE, DELETE ON TABLES FROM onboarding_tenant, onboarding_worker;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM onboarding_tenant, onboarding_worker;
REVOKE USAGE ON SCHEMA public FROM onboarding_tenant, onboarding_worker;
