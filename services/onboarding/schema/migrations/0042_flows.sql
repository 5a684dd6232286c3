-- +goose Up

-- The flows that organisations have published. A version never changes: sessions stay on the one that they began with. Expand only.
CREATE TABLE flow_versions (
    org_id       uuid        NOT NULL,
    flow         text        NOT NULL CHECK (flow ~ '^[a-z][a-z0-9_]{0,39}$'),
    version      text        NOT NULL CHECK (version ~ '^[0-9a-f]{16}$'), -- the hash of the files
    files        jsonb       NOT NULL CHECK (jsonb_typeof(files) = 'object'), -- the text of each by its name, as they were sent
    keywords     text[]      NOT NULL, -- as flow.Keyword reads them
    published_at timestamptz NOT NULL, -- for the first time
    PRIMARY KEY (org_id, flow, version)
);

-- When which version became the current one. The greatest number is current: the clocks of two replicas may differ.
CREATE TABLE flow_publications (
    org_id       uuid        NOT NULL,
    flow         text        NOT NULL,
    number       integer     NOT NULL CHECK (number > 0),
    version      text        NOT NULL,
    published_at timestamptz NOT NULL,
    published_by jsonb       DEFAULT current_actor(),
    PRIMARY KEY (org_id, flow, number),
    FOREIGN KEY (org_id, flow, version) REFERENCES flow_versions (org_id, flow, version)
);

-- As 0016 has it.
ALTER TABLE flow_versions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON flow_versions TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON flow_versions TO onboarding_worker USING (true);
ALTER TABLE flow_publications ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON flow_publications TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON flow_publications TO onboarding_worker USING (true);

-- Both are added to and nothing else, and who published is the default of its column.
REVOKE UPDATE, DELETE ON flow_versions, flow_publications FROM onboarding_tenant, onboarding_worker;
REVOKE INSERT ON flow_publications FROM onboarding_tenant, onboarding_worker;
GRANT INSERT (org_id, flow, number, version, published_at) ON flow_publications TO onboarding_tenant, onboarding_worker;

-- +goose Down

DROP TABLE flow_publications;
DROP TABLE flow_versions;
