-- +goose Up

-- Who did it (docs/adr/0041): a row for each call that changes something, and for each with which an operator reads what is about a person. It is
-- written before the call is made. Onboarding lists it, so no tenant has business with it.
CREATE TABLE audit (
    id             uuid        PRIMARY KEY,
    at             timestamptz NOT NULL,
    org_id         uuid        NOT NULL,
    subject        text        NOT NULL CHECK (length(subject) BETWEEN 1 AND 200),
    role           text        NOT NULL CHECK (role IN ('operator', 'app', 'user')),
    client_address text        NOT NULL,
    request_id     text        NOT NULL,
    method         text        NOT NULL,
    profile_id     uuid,
    target_id      uuid,
    -- By itself, so that an erasure can empty it.
    phone          text,
    -- Null while the call is under way, and for good when its process died: then it may have happened.
    outcome        text        CHECK (outcome <> '')
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX audit_by_org ON audit (org_id, at, id);
CREATE INDEX audit_by_subject ON audit (org_id, subject, at, id);
CREATE INDEX audit_by_profile ON audit (org_id, profile_id, at, id) WHERE profile_id IS NOT NULL;
CREATE INDEX audit_by_target ON audit (org_id, target_id, at, id) WHERE target_id IS NOT NULL;
CREATE INDEX audit_by_phone ON audit (org_id, phone, at, id) WHERE phone IS NOT NULL;
-- For retention.
CREATE INDEX audit_by_age ON audit (at);

ALTER TABLE audit ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON audit TO messaging_worker USING (true);

-- Who causes what a transaction writes; null of what the product does by itself.
CREATE FUNCTION current_actor() RETURNS jsonb LANGUAGE sql STABLE
    RETURN nullif(current_setting('app.current_actor', true), '')::jsonb;

-- Beside the chain: what a line's hash is made of stays as it is (0005), in lines that there are and in those of the release before. The
-- default comes after the column: nothing in the ledger is changed.
ALTER TABLE consent_events ADD COLUMN actor jsonb, ALTER COLUMN actor SET DEFAULT current_actor();

-- +goose Down

ALTER TABLE consent_events DROP COLUMN actor;
DROP FUNCTION current_actor();
DROP TABLE audit;
