-- +goose Up

-- What else an organisation decides: the flow of an activation, null for the deployment's, and how messaging sends for it, see Sending in
-- messaging's settings.proto. version counts the changes; tell_at is set while messaging does not know sending yet. Expand only.
ALTER TABLE organisation_settings
    ADD COLUMN activation_flow text,
    ADD COLUMN sending jsonb,
    ADD COLUMN version bigint NOT NULL DEFAULT 0,
    ADD COLUMN tell_at timestamptz;
CREATE INDEX organisation_settings_to_tell ON organisation_settings (tell_at) WHERE tell_at IS NOT NULL;

-- What it had decided, and who changed it when.
CREATE TABLE settings_versions (
    org_id   uuid        NOT NULL,
    version  bigint      NOT NULL,
    at       timestamptz NOT NULL,
    by       jsonb,
    settings jsonb       NOT NULL,
    PRIMARY KEY (org_id, version)
);

ALTER TABLE settings_versions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON settings_versions TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON settings_versions TO onboarding_worker USING (true);

-- +goose Down

DROP TABLE settings_versions;
ALTER TABLE organisation_settings DROP COLUMN activation_flow, DROP COLUMN sending, DROP COLUMN version, DROP COLUMN tell_at;
