-- +goose Up

-- Expand only: what lists people by their name and by where they stand. 0026 fills it in for who is there, while the service runs.

-- How a first name is looked for: in small letters, of any language where the server has ICU.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE FUNCTION key_of_name(name text) RETURNS text LANGUAGE sql IMMUTABLE RETURN lower(name' || CASE
        WHEN EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu' AND collnamespace = 'pg_catalog'::regnamespace)
        THEN ' COLLATE "und-x-icu"' ELSE '' END || ')';
END
$$;
-- +goose StatementEnd

ALTER TABLE profiles
    -- In a separate column: row-level security lets no function of a row's column into an index.
    ADD COLUMN name_key  text    COLLATE "C" NOT NULL DEFAULT '',
    -- Whether they ever had a session.
    ADD COLUMN activated boolean NOT NULL DEFAULT false;
-- Whether there is a newer session of the person.
ALTER TABLE conversation_sessions ADD COLUMN superseded boolean NOT NULL DEFAULT false;

-- Whichever release enrols, renames and activates.
-- +goose StatementBegin
CREATE FUNCTION profile_is_named() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.name_key := key_of_name(NEW.first_name);
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER profiles_named BEFORE INSERT OR UPDATE OF first_name ON profiles FOR EACH ROW EXECUTE FUNCTION profile_is_named();

-- The person is locked before a session of theirs is stored, as a hold locks them, so this waits for nobody. It runs as its owner: its plans
-- do not depend on who calls; nothing is read in a row, for plans are kept from when the tables were empty.
-- +goose StatementBegin
CREATE FUNCTION sessions_are_opened() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE profiles p SET activated = true FROM opened o WHERE p.id = o.profile_id AND NOT p.activated;
    UPDATE conversation_sessions s SET superseded = true FROM opened o
    WHERE s.profile_id = o.profile_id AND NOT s.superseded
      AND EXISTS (SELECT FROM conversation_sessions n WHERE n.profile_id = s.profile_id AND n.id > s.id);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER conversation_sessions_opened AFTER INSERT ON conversation_sessions REFERENCING NEW TABLE AS opened
    FOR EACH STATEMENT EXECUTE FUNCTION sessions_are_opened();

-- +goose Down

DROP TRIGGER conversation_sessions_opened ON conversation_sessions;
DROP FUNCTION sessions_are_opened();
DROP TRIGGER profiles_named ON profiles;
DROP FUNCTION profile_is_named();
ALTER TABLE conversation_sessions DROP COLUMN superseded;
ALTER TABLE profiles DROP COLUMN activated, DROP COLUMN name_key;
DROP FUNCTION key_of_name(text);
