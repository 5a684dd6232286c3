-- +goose NO TRANSACTION
-- +goose Up

-- What an operator lists by its status. A message on its usual way is written here no more: it was when it was claimed, when Twilio took it and
-- with each receipt. Those on their way are in sms_messages_undelivered, by the minute. The release before, while it runs next to this one,
-- needs sms_messages_by_status for its overview and lists: the next release drops that one. Beside the sends, and may be run again.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_in_trouble;
CREATE INDEX CONCURRENTLY sms_messages_in_trouble ON sms_messages (org_id, status, id DESC)
    WHERE status NOT IN ('sending', 'accepted', 'queued', 'sent', 'delivered', 'received');
-- The release of 0015 was the last to list by it.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_troubled;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS sms_messages_troubled;
CREATE INDEX CONCURRENTLY sms_messages_troubled ON sms_messages (org_id, status, id DESC) WHERE status IN ('unknown', 'parked', 'given_up');
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_in_trouble;
