-- +goose NO TRANSACTION
-- +goose Up

-- The pieces of a name or number carry the organisation, so that a search reads its people alone, however many others there are with the
-- same pieces. The index is still one of one column, and needs no extension: btree_gin would, which this role may not create. The function
-- of 0045 stays for its index, which no release has used.
CREATE OR REPLACE FUNCTION search_pieces(org_id uuid, name_key text, phone text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    ARRAY(SELECT right(org_id::text, 8) || piece FROM unnest(search_pieces(name_key, phone)) piece);

DROP INDEX CONCURRENTLY IF EXISTS profiles_search_by_org;
CREATE INDEX CONCURRENTLY profiles_search_by_org ON profiles USING gin (search_pieces(org_id, name_key, phone));
DROP INDEX CONCURRENTLY IF EXISTS profiles_search;

-- The people whom a run began with last are read at each of its turns.
DROP INDEX CONCURRENTLY IF EXISTS flow_run_people_begun;
CREATE INDEX CONCURRENTLY flow_run_people_begun ON flow_run_people (run_id, session_id) WHERE session_id IS NOT NULL;

-- The words of a ticket are kept as long as those of messages, by their age.
DROP INDEX CONCURRENTLY IF EXISTS tickets_with_words;
CREATE INDEX CONCURRENTLY tickets_with_words ON tickets (last_text_at) WHERE last_text <> '' OR reason = 'operator' AND detail <> '';
DROP INDEX CONCURRENTLY IF EXISTS ticket_answers_by_age;
CREATE INDEX CONCURRENTLY ticket_answers_by_age ON ticket_answers (created_at);
DROP INDEX CONCURRENTLY IF EXISTS ticket_notes_by_age;
CREATE INDEX CONCURRENTLY ticket_notes_by_age ON ticket_notes (created_at);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS ticket_notes_by_age;
DROP INDEX CONCURRENTLY IF EXISTS ticket_answers_by_age;
DROP INDEX CONCURRENTLY IF EXISTS tickets_with_words;
DROP INDEX CONCURRENTLY IF EXISTS flow_run_people_begun;
DROP INDEX CONCURRENTLY IF EXISTS profiles_search;
CREATE INDEX CONCURRENTLY profiles_search ON profiles USING gin (search_pieces(name_key, phone));
DROP INDEX CONCURRENTLY IF EXISTS profiles_search_by_org;
DROP FUNCTION IF EXISTS search_pieces(uuid, text, text);
