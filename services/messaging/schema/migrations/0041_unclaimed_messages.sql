-- +goose NO TRANSACTION
-- +goose Up

-- A message that Twilio has and the database had lost: until then the send of the same words to the same person is taken for it. A release
-- that knows nothing of this takes it for any other message.
ALTER TABLE sms_messages ADD COLUMN IF NOT EXISTS unclaimed_until timestamptz;

DROP INDEX CONCURRENTLY IF EXISTS sms_messages_unclaimed;
CREATE INDEX CONCURRENTLY sms_messages_unclaimed ON sms_messages (org_id, to_number) WHERE unclaimed_until IS NOT NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_unclaimed;
ALTER TABLE sms_messages DROP COLUMN IF EXISTS unclaimed_until;
