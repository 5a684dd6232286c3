-- +goose Up

-- Which organisations may not send: what onboarding has told. A row stays when its organisation goes on, with the version of that: what is
-- told late or twice does not undo what came after it.
CREATE TABLE organisations (
    org_id     uuid        PRIMARY KEY,
    status     text        NOT NULL CHECK (status IN ('active', 'suspended', 'ended')),
    version    bigint      NOT NULL CHECK (version > 0),
    updated_at timestamptz NOT NULL
);

ALTER TABLE organisations ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_reads ON organisations FOR SELECT TO messaging_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON organisations TO messaging_worker USING (true);
REVOKE DELETE ON organisations FROM messaging_tenant, messaging_worker;

-- +goose Down

DROP TABLE organisations;
