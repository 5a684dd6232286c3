-- +goose NO TRANSACTION
-- +goose Up

-- What an operator lists people by, newest first: who has opted out, who is written to in a language. Beside the running service: each statement
-- is its own transaction, and all of them may be run again.
DROP INDEX CONCURRENTLY IF EXISTS profiles_opted_out;
CREATE INDEX CONCURRENTLY profiles_opted_out ON profiles (org_id, id DESC) WHERE opted_out_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS profiles_by_locale;
CREATE INDEX CONCURRENTLY profiles_by_locale ON profiles (org_id, locale, id DESC);

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS profiles_by_locale;
DROP INDEX CONCURRENTLY IF EXISTS profiles_opted_out;
