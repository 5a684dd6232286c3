-- +goose Up

-- The texts of a flow that are being changed: at most one draft of each flow. It holds the changed texts and no more, so no draft can change a
-- step. Expand only.
CREATE TABLE flow_drafts (
    org_id     uuid        NOT NULL,
    flow       text        NOT NULL,
    version    text        NOT NULL, -- that they change
    revision   bigint      NOT NULL CHECK (revision > 0), -- grows with each save, so that two writers do not overwrite each other
    texts      jsonb       NOT NULL CHECK (jsonb_typeof(texts) = 'object'), -- by language, then by key
    changed_at timestamptz NOT NULL,
    changed_by jsonb       DEFAULT current_actor(),
    PRIMARY KEY (org_id, flow),
    FOREIGN KEY (org_id, flow, version) REFERENCES flow_versions (org_id, flow, version)
);

-- As 0016 has it.
ALTER TABLE flow_drafts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON flow_drafts TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON flow_drafts TO onboarding_worker USING (true);

-- +goose Down

DROP TABLE flow_drafts;
