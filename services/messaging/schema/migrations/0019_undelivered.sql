-- +goose NO TRANSACTION
-- +goose Up

-- What Twilio took and has not reported as delivered, by the minute: what the overview counts. A message leaves it with its delivery. Beside the
-- sends, and may be run again.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_undelivered;
CREATE INDEX CONCURRENTLY sms_messages_undelivered ON sms_messages (org_id, status, accepted_at)
    WHERE status IN ('accepted', 'queued', 'sent', 'failed', 'undelivered');

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS sms_messages_undelivered;
