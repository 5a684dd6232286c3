-- +goose NO TRANSACTION
-- +goose Up

-- Expand only: a release that knows none of this goes on working while one that does runs. Each statement is its own transaction; all of them
-- may be run again.

-- What was last sent to a phone, newest first: the claim of a send counts it. Beside the sends.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_to_phone;
CREATE INDEX CONCURRENTLY sms_messages_to_phone ON sms_messages (org_id, to_number, attempted_at DESC) WHERE direction = 'outbound';

-- What an organisation has sent within an hour, to everybody (scope '') and to the numbers of a prefix (scope '+44'). There are rows only
-- where a cap is set for them. A row is written with every send, and forgotten after two days.
CREATE TABLE IF NOT EXISTS sms_counts (
    org_id   uuid        NOT NULL,
    scope    text        NOT NULL CHECK (scope = '' OR scope ~ '^\+[1-9][0-9]{0,14}$'),
    hour     timestamptz NOT NULL,
    messages integer     NOT NULL CHECK (messages >= 0),
    segments integer     NOT NULL CHECK (segments >= 0),
    PRIMARY KEY (org_id, scope, hour)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS sms_counts_by_hour ON sms_counts (hour); -- by which they end

ALTER TABLE sms_counts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS tenant ON sms_counts;
CREATE POLICY tenant ON sms_counts TO messaging_tenant USING (org_id = current_org_id());
DROP POLICY IF EXISTS worker ON sms_counts;
CREATE POLICY worker ON sms_counts TO messaging_worker USING (true);

-- +goose Down

DROP TABLE IF EXISTS sms_counts;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_to_phone;
