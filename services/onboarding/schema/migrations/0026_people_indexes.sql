-- +goose NO TRANSACTION
-- +goose Up

-- Beside the running service: each statement is its own transaction, and all of them may be run again.

-- Who was there before the triggers of 0025, a few at a time, so that no activation and no step waits for long.
-- +goose StatementBegin
DO $$
DECLARE
    behind uuid := '00000000-0000-0000-0000-000000000000';
    page   uuid[];
BEGIN
    LOOP
        page := ARRAY(SELECT p.id FROM profiles p WHERE p.id > behind ORDER BY p.id LIMIT 500);
        EXIT WHEN cardinality(page) = 0;
        UPDATE profiles p
        SET name_key = key_of_name(p.first_name),
            activated = p.activated OR EXISTS (SELECT FROM conversation_sessions s WHERE s.profile_id = p.id)
        WHERE p.id = ANY (page)
          AND (p.name_key = '' OR NOT p.activated AND EXISTS (SELECT FROM conversation_sessions s WHERE s.profile_id = p.id));
        behind := page[cardinality(page)];
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE
    behind uuid := '00000000-0000-0000-0000-000000000000';
    page   uuid[];
BEGIN
    LOOP
        page := ARRAY(SELECT s.id FROM conversation_sessions s WHERE s.id > behind ORDER BY s.id LIMIT 500);
        EXIT WHEN cardinality(page) = 0;
        UPDATE conversation_sessions s SET superseded = true
        WHERE s.id = ANY (page) AND NOT s.superseded
          AND EXISTS (SELECT FROM conversation_sessions n WHERE n.profile_id = s.profile_id AND n.id > s.id);
        behind := page[cardinality(page)];
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- What a list of people is read by, newest first: all, by the beginning of a name, who was never activated, who is held.
DROP INDEX CONCURRENTLY IF EXISTS profiles_by_org;
CREATE INDEX CONCURRENTLY profiles_by_org ON profiles (org_id, id DESC);
DROP INDEX CONCURRENTLY IF EXISTS profiles_by_name;
CREATE INDEX CONCURRENTLY profiles_by_name ON profiles (org_id, name_key, id DESC);
DROP INDEX CONCURRENTLY IF EXISTS profiles_not_activated;
CREATE INDEX CONCURRENTLY profiles_not_activated ON profiles (org_id, id DESC) WHERE NOT activated;
DROP INDEX CONCURRENTLY IF EXISTS profiles_held;
CREATE INDEX CONCURRENTLY profiles_held ON profiles (org_id, id DESC) WHERE hold;
-- People by the status of their newest session, and sessions by theirs. A step changes no column of these.
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_newest;
CREATE INDEX CONCURRENTLY conversation_sessions_newest ON conversation_sessions (org_id, status, profile_id DESC) WHERE NOT superseded;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_by_status;
CREATE INDEX CONCURRENTLY conversation_sessions_by_status ON conversation_sessions (org_id, status, id DESC);

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_by_status;
DROP INDEX CONCURRENTLY IF EXISTS conversation_sessions_newest;
DROP INDEX CONCURRENTLY IF EXISTS profiles_held;
DROP INDEX CONCURRENTLY IF EXISTS profiles_not_activated;
DROP INDEX CONCURRENTLY IF EXISTS profiles_by_name;
DROP INDEX CONCURRENTLY IF EXISTS profiles_by_org;
