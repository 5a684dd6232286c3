-- +goose NO TRANSACTION
-- +goose Up

-- A first text of a caller that does not say how the person agreed. Evidence is kept in words, which every release reads and hashes. Each
-- statement is its own transaction; all of them may be run again.
ALTER TABLE consent_events
    DROP CONSTRAINT IF EXISTS consent_events_source_check,
    ADD CONSTRAINT consent_events_source_check
        CHECK (source IN ('first_send', 'collected_elsewhere', 'inbound', 'operator', 'twilio_21610', 'confirmation')) NOT VALID;
ALTER TABLE consent_events VALIDATE CONSTRAINT consent_events_source_check;

-- Free words that may be an opt-out: few, and asked for by the phone when an operator opts its owner in.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_doubtful;
CREATE INDEX CONCURRENTLY sms_messages_doubtful ON sms_messages (org_id, from_number, created_at)
    WHERE direction = 'inbound' AND consent_effect = 'doubtful';

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS sms_messages_doubtful;
-- Nothing is taken out of the ledger: the older release shows a source that it does not know.
ALTER TABLE consent_events
    DROP CONSTRAINT IF EXISTS consent_events_source_check,
    ADD CONSTRAINT consent_events_source_check
        CHECK (source IN ('first_send', 'inbound', 'operator', 'twilio_21610', 'confirmation')) NOT VALID;
