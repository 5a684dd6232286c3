-- +goose NO TRANSACTION
-- +goose Up

-- A person who is held by their own words is asked once whether the texts are to stop: the message that the question of the
-- hold in force replied to, and the messages that answered one with YES. A release that knows nothing of this sends the question like any reply
-- and reads the answer as an ordinary message. Each statement is its own transaction; all of them may be run again.
ALTER TABLE holds ADD COLUMN IF NOT EXISTS asked_id uuid;
ALTER TABLE sms_messages ADD COLUMN IF NOT EXISTS lifts_hold boolean;
ALTER TABLE consent_replies
    DROP CONSTRAINT IF EXISTS consent_replies_kind_check,
    ADD CONSTRAINT consent_replies_kind_check CHECK (kind IN ('stop', 'help', 'ask')) NOT VALID;
ALTER TABLE consent_replies VALIDATE CONSTRAINT consent_replies_kind_check;
ALTER TABLE consent_events
    DROP CONSTRAINT IF EXISTS consent_events_source_check,
    ADD CONSTRAINT consent_events_source_check
        CHECK (source IN ('first_send', 'collected_elsewhere', 'inbound', 'operator', 'twilio_21610', 'confirmation', 'question')) NOT VALID;
ALTER TABLE consent_events VALIDATE CONSTRAINT consent_events_source_check;

-- +goose Down

-- Nothing is taken out of the ledger: the older release shows a source that it does not know.
ALTER TABLE consent_events
    DROP CONSTRAINT IF EXISTS consent_events_source_check,
    ADD CONSTRAINT consent_events_source_check
        CHECK (source IN ('first_send', 'collected_elsewhere', 'inbound', 'operator', 'twilio_21610', 'confirmation')) NOT VALID;
DELETE FROM consent_replies WHERE kind = 'ask';
ALTER TABLE consent_replies
    DROP CONSTRAINT IF EXISTS consent_replies_kind_check,
    ADD CONSTRAINT consent_replies_kind_check CHECK (kind IN ('stop', 'help'));
ALTER TABLE sms_messages DROP COLUMN IF EXISTS lifts_hold;
ALTER TABLE holds DROP COLUMN IF EXISTS asked_id;
