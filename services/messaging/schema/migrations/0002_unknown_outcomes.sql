-- +goose Up

-- Expand only: a release that knows none of this goes on working while one that does runs. Nothing here reads or writes the rows that
-- there are, so its locks are short; 0004 checks the constraints and builds the indexes while texts are sent.
ALTER TABLE sms_messages
    -- What may be done about the row while its outcome is unknown.
    ADD COLUMN unknown_policy text NOT NULL DEFAULT 'confirm_absent_then_resend',
    -- When the attempt that holds or last held the row was claimed; null when an older release claimed it.
    ADD COLUMN attempted_at timestamptz,
    -- When the first listing began that did not have the attempt's text and was late enough to count.
    ADD COLUMN absent_since timestamptz,
    -- When Twilio is asked next: for the text while it is in doubt, for its final status once they have it.
    ADD COLUMN next_look_at timestamptz,
    -- How often Twilio has been asked in this state.
    ADD COLUMN looks integer NOT NULL DEFAULT 0;

ALTER TABLE sms_messages ADD CONSTRAINT sms_messages_unknown_policy_check
    CHECK (unknown_policy IN ('confirm_absent_then_resend', 'never_duplicate')) NOT VALID;
ALTER TABLE sms_messages ADD CONSTRAINT sms_messages_looks_check CHECK (looks >= 0) NOT VALID;
ALTER TABLE sms_messages DROP CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it;
ALTER TABLE sms_messages ADD CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it CHECK (
    direction <> 'outbound'
    OR (status IN ('sending', 'throttled', 'unknown', 'parked', 'rejected', 'given_up') AND twilio_sid IS NULL AND accepted_at IS NULL)
    OR (status IN ('accepted', 'queued', 'sent', 'failed', 'undelivered', 'delivered')
        AND twilio_sid IS NOT NULL AND accepted_at IS NOT NULL)
) NOT VALID;

-- Every look into Twilio's list for a message in doubt, and every operator's word: the evidence.
CREATE TABLE sms_looks (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id uuid        NOT NULL REFERENCES sms_messages (id),
    at         timestamptz NOT NULL,
    finding    text        NOT NULL CHECK (finding IN ('absent', 'found', 'ambiguous', 'failed', 'resolved')),
    detail     text        NOT NULL,
    -- [{"sid": ..., "status": ..., "created_at": ...}]
    candidates jsonb       NOT NULL
);

CREATE INDEX sms_looks_by_message ON sms_looks (message_id, id);

CREATE TRIGGER sms_looks_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON sms_looks
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down

DROP TABLE sms_looks;
-- What the older release has no word for is in doubt or refused there.
UPDATE sms_messages SET status = 'unknown' WHERE status = 'parked';
UPDATE sms_messages SET status = 'rejected' WHERE status = 'given_up';
ALTER TABLE sms_messages DROP CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it;
ALTER TABLE sms_messages ADD CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it CHECK (
    direction <> 'outbound'
    OR (status IN ('sending', 'throttled', 'unknown', 'rejected') AND twilio_sid IS NULL AND accepted_at IS NULL)
    OR (status IN ('accepted', 'queued', 'sent', 'failed', 'undelivered', 'delivered')
        AND twilio_sid IS NOT NULL AND accepted_at IS NOT NULL)
);
ALTER TABLE sms_messages
    DROP COLUMN unknown_policy, DROP COLUMN attempted_at, DROP COLUMN absent_since, DROP COLUMN next_look_at, DROP COLUMN looks;
