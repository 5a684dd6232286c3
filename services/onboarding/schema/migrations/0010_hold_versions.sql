-- +goose NO TRANSACTION
-- +goose Up

-- Messaging keeps a person's hold, too, and has to be told of every change of it: hold_told is the version that it knows. The version is
-- counted by the database, so that a hold that the release before sets, or an operator with psql, is told as well. It is also a time, in
-- microseconds: after a restore the next one is later than all that messaging has heard. Every statement may be run again.
ALTER TABLE profiles
    ADD COLUMN IF NOT EXISTS hold_version bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS hold_told    bigint NOT NULL DEFAULT 0;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_hold_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.hold_version := greatest(OLD.hold_version + 1, (extract(epoch FROM NEW.updated_at) * 1000000)::bigint);
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER profiles_hold_version BEFORE UPDATE OF hold ON profiles
    FOR EACH ROW WHEN (OLD.hold IS DISTINCT FROM NEW.hold) EXECUTE FUNCTION count_hold_version();

-- Whoever is held already.
UPDATE profiles SET hold_version = 1 WHERE hold AND hold_version = 0;

-- Built while the service runs; an index that was left half built is dropped first.
DROP INDEX CONCURRENTLY IF EXISTS profiles_untold;
CREATE INDEX CONCURRENTLY profiles_untold ON profiles (id) WHERE hold_told <> hold_version;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS profiles_untold;
DROP TRIGGER IF EXISTS profiles_hold_version ON profiles;
DROP FUNCTION IF EXISTS count_hold_version();
ALTER TABLE profiles DROP COLUMN IF EXISTS hold_told, DROP COLUMN IF EXISTS hold_version;
