-- +goose Up

-- The keys with which programs of an organisation call /v1. Only the hash of a key is kept. Expand only: the release before takes none.
CREATE TABLE api_keys (
    id           uuid        PRIMARY KEY,
    org_id       uuid        NOT NULL,
    name         text        NOT NULL CHECK (char_length(name) BETWEEN 1 AND 60),
    role         text        NOT NULL CHECK (role IN ('operator', 'app')),
    sha256       bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    ends_with    text        NOT NULL CHECK (char_length(ends_with) = 4),
    created_at   timestamptz NOT NULL,
    created_by   jsonb       DEFAULT current_actor(),
    expires_at   timestamptz CHECK (expires_at > created_at),
    last_used_at timestamptz,
    revoked_at   timestamptz,
    revoked_by   jsonb,
    over_at      timestamptz, -- when it expires or was revoked, whichever is earlier
    CHECK (over_at IS NOT DISTINCT FROM least(revoked_at, expires_at))
);
CREATE UNIQUE INDEX api_keys_by_hash ON api_keys (sha256);
CREATE INDEX api_keys_of_an_organisation ON api_keys (org_id, id DESC);
CREATE INDEX api_keys_over ON api_keys (over_at) WHERE over_at IS NOT NULL;

-- As 0016 has it. A token of a user sees none of it.
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON api_keys TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON api_keys TO onboarding_worker USING (true);

-- +goose Down

DROP TABLE api_keys;
