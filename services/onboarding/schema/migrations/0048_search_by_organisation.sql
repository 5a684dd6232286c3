-- +goose NO TRANSACTION
-- +goose Up

-- The people whom a run began with last are read at each of its turns.
DROP INDEX CONCURRENTLY IF EXISTS flow_run_people_begun;
CREATE INDEX CONCURRENTLY flow_run_people_begun ON flow_run_people (run_id, session_id) WHERE session_id IS NOT NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS flow_run_people_begun;
