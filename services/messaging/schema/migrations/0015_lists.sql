-- +goose NO TRANSACTION
-- +goose Up

-- An operator lists messages by status: the few that were rejected, say, among millions that were delivered. sms_messages_troubled is what
-- the release before lists the unknown, the parked and the given up by; it goes with the next one.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_by_status;
CREATE INDEX CONCURRENTLY sms_messages_by_status ON sms_messages (org_id, status, id DESC) WHERE status NOT IN ('delivered', 'received');

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS sms_messages_by_status;
