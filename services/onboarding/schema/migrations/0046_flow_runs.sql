-- +goose Up

-- A run starts one version of a flow once for each of many people. Expand only.
CREATE TABLE flow_runs (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    flow            text        NOT NULL,
    flow_version    text        NOT NULL,
    status          text        NOT NULL CHECK (status IN ('running', 'paused', 'completed', 'cancelled')),
    reason          text        NOT NULL DEFAULT '', -- why the service paused it
    filter          text        NOT NULL DEFAULT '', -- in CEL
    filtering       boolean     NOT NULL, -- whether people are still to be asked
    filtered_to     uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- the last person who was
    consent         jsonb, -- how these people agreed
    idempotency_key text        CHECK (length(idempotency_key) BETWEEN 1 AND 200),
    request_hash    bytea       NOT NULL, -- of the request with the key
    wakes           integer     NOT NULL DEFAULT 1, -- grows with each resume: the job of an earlier one does nothing
    people          bigint      NOT NULL DEFAULT 0, -- who were ever put in it
    counts          jsonb, -- of one that is finished: its people go before it
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    created_by      jsonb       DEFAULT current_actor(),
    UNIQUE (org_id, idempotency_key),
    FOREIGN KEY (org_id, flow, flow_version) REFERENCES flow_versions (org_id, flow, version),
    CHECK ((status IN ('completed', 'cancelled')) = (finished_at IS NOT NULL))
);
CREATE INDEX flow_runs_by_age ON flow_runs (org_id, id);
CREATE INDEX flow_runs_open ON flow_runs (org_id) WHERE finished_at IS NULL;
CREATE INDEX flow_runs_finished ON flow_runs (finished_at, id) WHERE finished_at IS NOT NULL;

-- Each person once per run.
CREATE TABLE flow_run_people (
    run_id     uuid        NOT NULL REFERENCES flow_runs (id) ON DELETE CASCADE,
    profile_id uuid        NOT NULL REFERENCES profiles (id) ON DELETE CASCADE, -- the erasure of a person deletes their profile
    org_id     uuid        NOT NULL,
    status     text        NOT NULL CHECK (status IN ('waiting', 'opening', 'started', 'left_out')),
    reason     text        NOT NULL DEFAULT '', -- of one who is left out
    session_id uuid, -- of one who was started
    due_at     timestamptz NOT NULL, -- when to try to start them
    PRIMARY KEY (run_id, profile_id)
);
CREATE INDEX flow_run_people_waiting ON flow_run_people (run_id, due_at, profile_id) WHERE status = 'waiting';
CREATE INDEX flow_run_people_opening ON flow_run_people (run_id) WHERE status = 'opening';
CREATE INDEX flow_run_people_of ON flow_run_people (profile_id);
CREATE INDEX flow_run_people_by_age ON flow_run_people (due_at); -- for retention

-- As 0016 has it.
ALTER TABLE flow_runs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON flow_runs TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON flow_runs TO onboarding_worker USING (true);
ALTER TABLE flow_run_people ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON flow_run_people TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON flow_run_people TO onboarding_worker USING (true);

-- Who made a run is the default of its column.
REVOKE INSERT, UPDATE ON flow_runs FROM onboarding_tenant, onboarding_worker;
GRANT INSERT (id, org_id, flow, flow_version, status, filter, filtering, consent, idempotency_key, request_hash, people, created_at, updated_at)
    ON flow_runs TO onboarding_tenant, onboarding_worker;
GRANT UPDATE (status, reason, filtering, filtered_to, wakes, people, counts, updated_at, finished_at)
    ON flow_runs TO onboarding_tenant, onboarding_worker;

-- +goose Down

DROP TABLE flow_run_people;
DROP TABLE flow_runs;
