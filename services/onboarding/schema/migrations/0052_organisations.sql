-- +goose Up

-- The organisations of the deployment. One without a row is active: its tokens are older than this table. Of a change the wish is kept first:
-- wanted and version; status follows once messaging has that version. Expand only.
CREATE TABLE organisations (
    org_id      uuid        PRIMARY KEY,
    name        text        NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
    status      text        NOT NULL CHECK (status IN ('active', 'suspended', 'ended')),
    wanted      text        NOT NULL CHECK (wanted IN ('active', 'suspended', 'ended')),
    version     bigint      NOT NULL DEFAULT 0,
    reason      text        NOT NULL DEFAULT '' CHECK (char_length(reason) <= 500),
    changed_at  timestamptz NOT NULL,
    changed_by  jsonb,
    created_at  timestamptz NOT NULL,
    erase_after timestamptz,
    erased_at   timestamptz,
    waits_for   text        NOT NULL DEFAULT '',
    next_try_at timestamptz, -- while there is something to tell or to erase
    tries       integer     NOT NULL DEFAULT 0,
    CHECK ((wanted = 'ended') = (erase_after IS NOT NULL)),
    CHECK (erased_at IS NULL OR status = 'ended' AND wanted = 'ended'),
    CHECK (status = wanted OR next_try_at IS NOT NULL)
);
CREATE INDEX organisations_due ON organisations (next_try_at) WHERE next_try_at IS NOT NULL;
CREATE INDEX organisations_by_age ON organisations (created_at DESC, org_id DESC);

-- A tenant reads its own row and changes nothing: it does not lift its suspension. That it was there is kept.
ALTER TABLE organisations ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_reads ON organisations FOR SELECT TO onboarding_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON organisations TO onboarding_worker USING (true);
REVOKE DELETE ON organisations FROM onboarding_tenant, onboarding_worker;

-- Scheduling of these is paused: by their own operators, or because they are suspended.
CREATE VIEW paused_organisations WITH (security_invoker = true) AS
    SELECT org_id FROM scheduling_pauses
    UNION ALL
    SELECT org_id FROM organisations WHERE status <> 'active' OR wanted <> 'active';
GRANT SELECT ON paused_organisations TO onboarding_tenant, onboarding_worker;

-- Calls of the platform are kept, too. What is there was checked by what is replaced.
ALTER TABLE audit DROP CONSTRAINT audit_role_check;
ALTER TABLE audit ADD CONSTRAINT audit_role_check CHECK (role IN ('operator', 'app', 'user', 'platform')) NOT VALID;

-- +goose Down

DROP VIEW paused_organisations;
DROP TABLE organisations;
