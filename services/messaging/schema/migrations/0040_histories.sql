-- +goose Up

-- Which server and timeline the database is of, as a name: it changes when a standby is promoted and when a backup is restored to a point in
-- time. A service that may not ask, as with some providers, names the server by its start: each restart is another history.
-- +goose StatementBegin
DO $do$ BEGIN
    PERFORM pg_walfile_name(pg_current_wal_insert_lsn()) FROM pg_control_system();
    EXECUTE $f$CREATE FUNCTION current_history() RETURNS text LANGUAGE sql VOLATILE AS $$
        SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) FROM pg_control_system() $$$f$;
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    EXECUTE $f$CREATE FUNCTION current_history() RETURNS text LANGUAGE sql STABLE AS $$
        SELECT 'started/' || extract(epoch FROM pg_postmaster_start_time()) $$$f$;
END $do$;
-- +goose StatementEnd

-- The histories that the service has noted. The database was the same as before, but for what came after since, when it noted the next one.
CREATE TABLE histories (
    name       text        PRIMARY KEY CHECK (name <> ''),
    since      timestamptz NOT NULL,
    noticed_at timestamptz NOT NULL
);

-- What each process has counted, about once a second: at by its own clock, written by the database's, which tells which beats are the last.
CREATE TABLE beats (
    process uuid        PRIMARY KEY,
    n       bigint      NOT NULL CHECK (n > 0),
    at      timestamptz NOT NULL,
    written timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE histories ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON histories TO messaging_worker USING (true);
ALTER TABLE beats ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON beats TO messaging_worker USING (true);

-- For which organisations Twilio's record is to be read back, and was: nothing is sent for one until its row has ended. An operator orders
-- one by a row. Who works on it holds the lease.
CREATE TABLE readbacks (
    id          uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    org_id      uuid        NOT NULL,
    since       timestamptz NOT NULL,
    noticed_at  timestamptz NOT NULL,
    senders     uuid[],     -- null stops all; else only these still wait, for Twilio refuses their accounts; zeros are the environment's
    lease_token uuid,
    lease_until timestamptz,
    failures    integer     NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failure     text        NOT NULL DEFAULT '',
    ended_at    timestamptz,
    received    integer     NOT NULL DEFAULT 0 CHECK (received >= 0),
    sent        integer     NOT NULL DEFAULT 0 CHECK (sent >= 0)
);
CREATE UNIQUE INDEX readbacks_open ON readbacks (org_id) WHERE ended_at IS NULL;

ALTER TABLE readbacks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON readbacks TO messaging_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON readbacks TO messaging_worker USING (true);

-- +goose Down

DROP TABLE readbacks;
DROP TABLE beats;
DROP TABLE histories;
DROP FUNCTION current_history();
