-- +goose Up

-- Where goals run. A stream device is connected by a WebSocket to one process of onboarding, its node, by the newest of its epochs. Every
-- person has one phone, which is made with its first goal.
CREATE TABLE devices (
    id            uuid        PRIMARY KEY,
    org_id        uuid        NOT NULL,
    profile_id    uuid        NOT NULL REFERENCES profiles (id),
    name          text        NOT NULL CHECK (length(name) BETWEEN 1 AND 60),
    kind          text        NOT NULL CHECK (kind IN ('stream', 'phone')),
    token_hash    bytea       UNIQUE,
    configuration jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(configuration) = 'object' AND pg_column_size(configuration) < 16384),
    client        text        NOT NULL DEFAULT '',
    node_id       uuid,
    epoch         bigint      NOT NULL DEFAULT 0,
    connected_at  timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    CHECK ((kind = 'phone') = (token_hash IS NULL)),
    CHECK (node_id IS NULL OR deleted_at IS NULL)
);
CREATE UNIQUE INDEX devices_one_name ON devices (profile_id, name) WHERE deleted_at IS NULL AND kind = 'stream';
CREATE UNIQUE INDEX devices_one_phone ON devices (profile_id) WHERE kind = 'phone';
CREATE INDEX devices_by_org ON devices (org_id, id DESC);
CREATE INDEX devices_by_node ON devices (node_id) WHERE node_id IS NOT NULL;
CREATE INDEX devices_deleted ON devices (deleted_at) WHERE deleted_at IS NOT NULL;

-- The processes that hold streams. A process with an expired lease holds none.
CREATE TABLE device_nodes (
    id          uuid        PRIMARY KEY,
    lease_until timestamptz NOT NULL,
    started_at  timestamptz NOT NULL
);

-- What is to happen once, on one device. The row is the truth; its alarm carries only the id.
CREATE TABLE goals (
    id                uuid        PRIMARY KEY,
    org_id            uuid        NOT NULL,
    profile_id        uuid        NOT NULL REFERENCES profiles (id),
    device_id         uuid        NOT NULL REFERENCES devices (id),
    source            text        NOT NULL CHECK (source IN ('rest', 'device', 'voice', 'text')),
    idempotency_key   text        NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 300),
    said              text        NOT NULL CHECK (length(said) BETWEEN 1 AND 1600),
    goal              text        NOT NULL CHECK (goal <> ''),
    locale            text        NOT NULL,
    understood        text        NOT NULL DEFAULT '',
    note              text        NOT NULL DEFAULT '',
    status            text        NOT NULL CHECK (status IN ('scheduled', 'running', 'completed', 'failed', 'cancelled')),
    reason            text        NOT NULL DEFAULT '',
    scheduled_for     timestamptz NOT NULL CHECK (scheduled_for = date_trunc('second', scheduled_for)),
    scheduled_delay   bigint      NOT NULL CHECK (scheduled_delay >= 0),
    called_at         timestamptz, -- its alarm found the device connected and free, and the device's node is to begin it
    waiting_since     timestamptz, -- its alarm found the device, or the person, busy
    offline_tries     integer     NOT NULL DEFAULT 0,
    run_id            uuid        UNIQUE,
    offered_at        timestamptz, -- when the run was last handed to a stream of the device
    acknowledged_at   timestamptz, -- when the device had noted it
    heard_at          timestamptz, -- when the device last spoke of it
    progress          text        NOT NULL DEFAULT '' CHECK (length(progress) <= 200),
    stop_requested_at timestamptz,
    started_at        timestamptz,
    ended_at          timestamptz,
    undo_of           uuid        REFERENCES goals (id),
    created_by        text        NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    CONSTRAINT goals_one_per_key UNIQUE (profile_id, idempotency_key),
    CHECK ((status IN ('completed', 'failed', 'cancelled')) = (ended_at IS NOT NULL)),
    CHECK (status NOT IN ('running', 'completed') OR (run_id IS NOT NULL AND started_at IS NOT NULL AND heard_at IS NOT NULL)),
    CHECK (status NOT IN ('scheduled', 'cancelled') OR run_id IS NULL)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- One running goal per device: who loses is busy.
CREATE UNIQUE INDEX goals_one_running ON goals (device_id) WHERE status = 'running';
CREATE UNIQUE INDEX goals_one_undo ON goals (undo_of) WHERE undo_of IS NOT NULL;
CREATE INDEX goals_scheduled ON goals (device_id, scheduled_for, id) WHERE status = 'scheduled';
CREATE INDEX goals_due ON goals (scheduled_for) WHERE status = 'scheduled';
CREATE INDEX goals_running ON goals (heard_at) WHERE status = 'running';
CREATE INDEX goals_called ON goals (called_at) WHERE status = 'scheduled' AND called_at IS NOT NULL;
CREATE INDEX goals_to_stop ON goals (device_id) WHERE status = 'running' AND stop_requested_at IS NOT NULL;
CREATE INDEX goals_open_by_profile ON goals (profile_id) WHERE status IN ('scheduled', 'running');
CREATE INDEX goals_by_profile ON goals (profile_id, id DESC);
CREATE INDEX goals_by_org ON goals (org_id, id DESC);
CREATE INDEX goals_by_org_and_status ON goals (org_id, status, id DESC);
CREATE INDEX goals_by_device ON goals (device_id, id DESC);
-- For retention: a goal that was cancelled can be brought back until its time.
CREATE INDEX goals_over ON goals (greatest(ended_at, scheduled_for)) WHERE ended_at IS NOT NULL;

-- The outbox of the goals' alarms, as step_alarms is of the steps'.
CREATE TABLE goal_alarms (
    id                uuid        PRIMARY KEY,
    org_id            uuid        NOT NULL,
    goal_id           uuid        NOT NULL REFERENCES goals (id),
    generation        integer     NOT NULL CHECK (generation > 0),
    cause             text        NOT NULL,
    due_at            timestamptz NOT NULL,
    lease_token       uuid,
    lease_until       timestamptz NOT NULL,
    attempts          integer     NOT NULL DEFAULT 0,
    last_error        text        NOT NULL DEFAULT '',
    published_at      timestamptz,
    qstash_message_id text,
    created_at        timestamptz NOT NULL,
    UNIQUE (goal_id, generation),
    CHECK ((published_at IS NULL) = (qstash_message_id IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX goal_alarms_unpublished ON goal_alarms (lease_until) WHERE published_at IS NULL;

-- A goal's timeline: each change of its status, and what else happened to it.
CREATE TABLE goal_transitions (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id      uuid        NOT NULL,
    profile_id  uuid        NOT NULL,
    goal_id     uuid        NOT NULL REFERENCES goals (id),
    at          timestamptz NOT NULL,
    from_status text        NOT NULL DEFAULT '',
    to_status   text        NOT NULL,
    event       text        NOT NULL,
    actor       text        NOT NULL,
    detail      text        NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX goal_transitions_by_goal ON goal_transitions (goal_id, id);

-- What a model read of a text, so that it is asked once.
CREATE TABLE goal_readings (
    org_id          uuid        NOT NULL,
    profile_id      uuid        NOT NULL REFERENCES profiles (id),
    idempotency_key text        NOT NULL,
    reading         jsonb       NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (profile_id, idempotency_key)
);
CREATE INDEX goal_readings_by_age ON goal_readings (created_at);

-- As 0016 has it: a person's call reads the person's own rows, and changes none itself; what their call does is done for their organisation,
-- after the goal's owner was checked.
-- +goose StatementBegin
DO $$
DECLARE
    held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['devices', 'goals', 'goal_alarms', 'goal_transitions', 'goal_readings'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY tenant ON %I TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL)', held);
        EXECUTE format('CREATE POLICY worker ON %I TO onboarding_worker USING (true)', held);
    END LOOP;
    FOREACH held IN ARRAY ARRAY['devices', 'goals', 'goal_transitions'] LOOP
        EXECUTE format('CREATE POLICY tenant_reads ON %I FOR SELECT TO onboarding_tenant USING (org_id = current_org_id())', held);
        EXECUTE format('CREATE POLICY person ON %I AS RESTRICTIVE TO onboarding_tenant
            USING (current_profile_id() IS NULL OR profile_id = current_profile_id())', held);
    END LOOP;
    ALTER TABLE device_nodes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY worker ON device_nodes TO onboarding_worker USING (true);
END
$$;
-- +goose StatementEnd

-- Whether a device's node lives, for whoever may see the device: a tenant sees no node.
-- +goose StatementBegin
CREATE FUNCTION node_alive(node uuid, at timestamptz) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
    SELECT EXISTS (SELECT FROM device_nodes WHERE id = node AND lease_until > at)
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION node_alive(uuid, timestamptz);

DROP TABLE goal_readings;
DROP TABLE goal_transitions;
DROP TABLE goal_alarms;
DROP TABLE goals;
DROP TABLE device_nodes;
DROP TABLE devices;
