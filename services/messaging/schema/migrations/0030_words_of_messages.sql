-- +goose NO TRANSACTION
-- +goose Up

-- A text of a person is found by its words, without accents. Only what people write has the index: what we send is not looked for, and sending
-- pays nothing for it.
CREATE OR REPLACE FUNCTION without_accents(words text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    regexp_replace(normalize(words, NFKD), '[\u0300-\u036f]', '', 'g');
CREATE OR REPLACE FUNCTION words_of(body text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    to_tsvector('simple', without_accents(body));

DROP INDEX CONCURRENTLY IF EXISTS sms_messages_words;
CREATE INDEX CONCURRENTLY sms_messages_words ON sms_messages USING gin (words_of(body)) WHERE direction = 'inbound';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_words;
DROP FUNCTION IF EXISTS words_of(text);
DROP FUNCTION IF EXISTS without_accents(text);
