-- +goose NO TRANSACTION
-- +goose Up

-- WhatsApp leaves out the phone number of a person who has a user name, and names them by its id. The last id that came together
-- with the number of a person is theirs. Each statement may be run again.
ALTER TABLE profiles
    ADD COLUMN IF NOT EXISTS whatsapp_user_id text;
ALTER TABLE profiles
    DROP CONSTRAINT IF EXISTS profiles_whatsapp_user_id_check,
    ADD CONSTRAINT profiles_whatsapp_user_id_check CHECK (whatsapp_user_id ~ '^[A-Z]{2}\.[A-Za-z0-9.]{1,128}$') NOT VALID;
ALTER TABLE profiles VALIDATE CONSTRAINT profiles_whatsapp_user_id_check;
DROP INDEX CONCURRENTLY IF EXISTS profiles_by_whatsapp_user;
CREATE INDEX CONCURRENTLY profiles_by_whatsapp_user ON profiles (org_id, whatsapp_user_id) WHERE whatsapp_user_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_nameless;
CREATE INDEX CONCURRENTLY webhook_jobs_nameless ON webhook_jobs (org_id, subject, created_at) WHERE subject LIKE 'whatsapp:%';

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS webhook_jobs_nameless;
DROP INDEX CONCURRENTLY IF EXISTS profiles_by_whatsapp_user;
ALTER TABLE profiles DROP COLUMN IF EXISTS whatsapp_user_id;
