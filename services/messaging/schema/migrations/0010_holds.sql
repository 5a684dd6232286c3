-- +goose Up

-- Whom nothing may be sent to until an operator says so, whatever asks for it; onboarding tells. A row stays when its hold is lifted, with
-- the version of that: what is told late or twice does not undo what came after it.
CREATE TABLE holds (
    org_id     uuid        NOT NULL,
    phone      text        NOT NULL CHECK (phone ~ '^\+[1-9][0-9]{6,14}$'),
    held       boolean     NOT NULL,
    version    bigint      NOT NULL CHECK (version > 0),
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, phone)
);

ALTER TABLE holds ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON holds TO messaging_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON holds TO messaging_worker USING (true);

-- +goose Down
DROP TABLE holds;
