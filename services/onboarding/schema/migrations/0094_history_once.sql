-- +goose Up

-- The same name at a lower price: a function in SQL is planned at each call, and the identifier of the system is in a file. A
-- connection is to one server, so it reads the identifier once. The timeline is in memory, and is read each time.
-- +goose StatementBegin
DO $do$ BEGIN
    IF (SELECT prosrc FROM pg_proc WHERE oid = 'current_history()'::regprocedure) NOT LIKE '%system_identifier%' THEN
        RETURN; -- the service may not ask, and names the server by its start
    END IF;
    EXECUTE $f$CREATE OR REPLACE FUNCTION current_history() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
        DECLARE
            system text := current_setting('paceline.system', true);
        BEGIN
            IF coalesce(system, '') = '' THEN
                system := (SELECT system_identifier FROM pg_control_system());
                PERFORM set_config('paceline.system', system, false);
            END IF;
            RETURN system || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
        END $$$f$;
END $do$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $do$ BEGIN
    IF (SELECT prosrc FROM pg_proc WHERE oid = 'current_history()'::regprocedure) NOT LIKE '%system_identifier%' THEN
        RETURN; -- the service may not ask, and names the server by its start
    END IF;
    EXECUTE $f$CREATE OR REPLACE FUNCTION current_history() RETURNS text LANGUAGE sql VOLATILE AS $$
        SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) FROM pg_control_system() $$$f$;
END $do$;
-- +goose StatementEnd
