-- +goose NO TRANSACTION
-- +goose Up

-- Expand only: a release that knows none of this goes on working while one that does runs. Each statement is its own transaction; all of them
-- may be run again.

-- What was said last about reminders of a number, narrower than its consent: while they are off, the claim of a send refuses the
-- purposes that are reminders. A missing row means that nothing was said. The row is the evidence: by whom, when, and in which message.
CREATE TABLE IF NOT EXISTS reminder_preferences (
    org_id       uuid        NOT NULL,
    phone        text        NOT NULL CHECK (phone ~ '^\+[1-9][0-9]{6,14}$'),
    off          boolean     NOT NULL,
    said_at      timestamptz NOT NULL,
    source       text        NOT NULL CHECK (source IN ('person', 'operator')),
    message_id   uuid        REFERENCES sms_messages (id), -- null when it was said elsewhere
    keyword_pack text        NOT NULL DEFAULT '',          -- the version of the words that the message was read by
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (org_id, phone),
    CONSTRAINT a_message_is_the_persons_and_names_its_words
        CHECK ((message_id IS NOT NULL) = (keyword_pack <> '') AND (message_id IS NULL OR source = 'person'))
);

ALTER TABLE reminder_preferences ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS tenant ON reminder_preferences;
CREATE POLICY tenant ON reminder_preferences TO messaging_tenant USING (org_id = current_org_id());
DROP POLICY IF EXISTS worker ON reminder_preferences;
CREATE POLICY worker ON reminder_preferences TO messaging_worker USING (true);

-- What an inbound message asks of reminders and tips, so that every repeat of it gets the same answer, whichever release gives it. Beside
-- it consent_effect stays what the message is to a caller that reads no preferences.
ALTER TABLE sms_messages
    ADD COLUMN IF NOT EXISTS reminders text,
    ADD COLUMN IF NOT EXISTS tips text,
    DROP CONSTRAINT IF EXISTS preferences_are_off_or_on,
    ADD CONSTRAINT preferences_are_off_or_on CHECK (reminders IN ('off', 'on') AND tips IN ('off', 'on')) NOT VALID;
ALTER TABLE sms_messages VALIDATE CONSTRAINT preferences_are_off_or_on;

-- +goose Down

ALTER TABLE sms_messages DROP COLUMN IF EXISTS reminders, DROP COLUMN IF EXISTS tips;
DROP TABLE IF EXISTS reminder_preferences;
