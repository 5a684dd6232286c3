-- +goose NO TRANSACTION
-- +goose Up

-- How long an organisation keeps what is over, in days: what onboarding has told. Expand only, next to the running service, and may be run again.
-- A release that knows nothing of it keeps all for as long as the environment says.
ALTER TABLE organisation_settings
    ADD COLUMN IF NOT EXISTS retention jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(retention) = 'object');
-- The organisation of the message that a receipt is about; null of one that is about none of ours, and of one that a release before wrote.
ALTER TABLE sms_receipts ADD COLUMN IF NOT EXISTS org_id uuid;
GRANT INSERT (org_id) ON sms_receipts TO messaging_tenant, messaging_worker;
-- The rows of an organisation by their age. Those by age alone stay for the counts of a quarter, and for the release before.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_with_words_by_org;
CREATE INDEX CONCURRENTLY sms_messages_with_words_by_org ON sms_messages (org_id, created_at) WHERE body <> '';
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_without_words_by_org;
CREATE INDEX CONCURRENTLY sms_messages_without_words_by_org ON sms_messages (org_id, created_at) WHERE body = '';
DROP INDEX CONCURRENTLY IF EXISTS consents_by_org_and_age;
CREATE INDEX CONCURRENTLY consents_by_org_and_age ON consents (org_id, updated_at) WHERE state = 'opted_in' AND NOT carrier_blocks;
DROP INDEX CONCURRENTLY IF EXISTS consent_replies_by_org_and_age;
CREATE INDEX CONCURRENTLY consent_replies_by_org_and_age ON consent_replies (org_id, created_at);
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_by_org_and_age;
CREATE INDEX CONCURRENTLY sms_receipts_by_org_and_age ON sms_receipts (org_id, received_at) WHERE org_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_of_none_by_age;
CREATE INDEX CONCURRENTLY sms_receipts_of_none_by_age ON sms_receipts (received_at) WHERE org_id IS NULL;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_of_none_by_age;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_by_org_and_age;
DROP INDEX CONCURRENTLY IF EXISTS consent_replies_by_org_and_age;
DROP INDEX CONCURRENTLY IF EXISTS consents_by_org_and_age;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_without_words_by_org;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_with_words_by_org;
ALTER TABLE sms_receipts DROP COLUMN IF EXISTS org_id;
ALTER TABLE organisation_settings DROP COLUMN IF EXISTS retention;
