-- +goose Up

-- What organisations have decided about how texts are sent for them: what onboarding has told, see Sending in settings.proto. What is told late
-- or twice does not undo what came after it.
CREATE TABLE organisation_settings (
    org_id     uuid        PRIMARY KEY,
    sending    jsonb       NOT NULL,
    version    bigint      NOT NULL CHECK (version > 0),
    updated_at timestamptz NOT NULL
);

ALTER TABLE organisation_settings ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_reads ON organisation_settings FOR SELECT TO messaging_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON organisation_settings TO messaging_worker USING (true);

-- +goose Down

DROP TABLE organisation_settings;
