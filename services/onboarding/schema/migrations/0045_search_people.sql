-- +goose NO TRANSACTION
-- +goose Up

-- People are found by any part of their name or number: by the pieces of three letters or four digits that a search has, too. The pieces are
-- an expression of an index: no column is added, no row is written anew, and the release before sees nothing of it. They need no extension,
-- which a hosted Postgres may not let this role create.
CREATE OR REPLACE FUNCTION search_pieces(name_key text, phone text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    ARRAY(SELECT DISTINCT substr(name_key, i, 3) FROM generate_series(1, length(name_key) - 2) i)
    || ARRAY(SELECT DISTINCT substr(phone, i, 4) FROM generate_series(1, length(phone) - 3) i);

DROP INDEX CONCURRENTLY IF EXISTS profiles_search;
CREATE INDEX CONCURRENTLY profiles_search ON profiles USING gin (search_pieces(name_key, phone));

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS profiles_search;
DROP FUNCTION IF EXISTS search_pieces(text, text);
