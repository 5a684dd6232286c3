-- +goose Up
-- Whose rows a statement sees is the database's business too. Every statement of the service runs as one of two roles: the tenant, which
-- sees the rows of one organisation, for calls of operators and users; the worker, which sees all, for the loops and for calls of other
-- services. The owner is a member of both: migrations, the release before this one and an operator's psql see everything.

-- +goose StatementBegin
DO $$
DECLARE
    taken text;
BEGIN
    FOREACH taken IN ARRAY ARRAY['messaging_tenant', 'messaging_worker'] LOOP
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

GRANT USAGE ON SCHEMA public TO messaging_tenant, messaging_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO messaging_tenant, messaging_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO messaging_tenant, messaging_worker;
REVOKE INSERT, UPDATE, DELETE ON goose_db_version FROM messaging_tenant, messaging_worker;

-- The organisation for which a statement runs; null for none.
CREATE FUNCTION current_org_id() RETURNS uuid LANGUAGE sql STABLE
    RETURN nullif(current_setting('app.current_org_id', true), '')::uuid;

-- +goose StatementBegin
DO $$
DECLARE
    held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['sms_messages', 'consents', 'consent_events', 'consent_replies'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY tenant ON %I TO messaging_tenant USING (org_id = current_org_id())', held);
        EXECUTE format('CREATE POLICY worker ON %I TO messaging_worker USING (true)', held);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- What is known about a message belongs to its organisation; a receipt for a message that is not ours belongs to nobody.
ALTER TABLE sms_receipts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON sms_receipts TO messaging_tenant USING (EXISTS (SELECT FROM sms_messages m WHERE m.id = message_id));
CREATE POLICY worker ON sms_receipts TO messaging_worker USING (true);

-- The same of the looks into Twilio's list.
ALTER TABLE sms_looks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON sms_looks TO messaging_tenant USING (EXISTS (SELECT FROM sms_messages m WHERE m.id = message_id));
CREATE POLICY worker ON sms_looks TO messaging_worker USING (true);

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
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT, INSERT, UPDATE, DELETE ON TABLES FROM messaging_tenant, messaging_worker;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM messaging_tenant, messaging_worker;
REVOKE USAGE ON SCHEMA public FROM messaging_tenant, messaging_worker;
