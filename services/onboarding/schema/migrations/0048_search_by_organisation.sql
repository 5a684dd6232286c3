-- +goose NO TRANSACTION
-- +goose Up

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
