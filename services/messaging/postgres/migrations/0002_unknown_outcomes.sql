-- +goose Up

-- Expand only: a release that knows none of this goes on working beside one that does.
ALTER TABLE sms_messages
    -- What may be done about the row while its outcome is unknown.
    ADD COLUMN unknown_policy text NOT NULL DEFAULT 'confirm_absent_then_resend'
        CHECK (unknown_policy IN ('confirm_absent_then_resend', 'never_duplicate')),
    -- When the attempt that holds or last held the row was claimed.
    ADD COLUMN attempted_at timestamptz,
    -- When the first listing began that did not have the attempt's text and was late enough to count.
    ADD COLUMN absent_since timestamptz,
    -- When Twilio is asked next: for the text while it is in doubt, for its final status once they have it.
    ADD COLUMN next_look_at timestamptz,
    -- How often Twilio has been asked in this state.
    ADD COLUMN looks integer NOT NULL DEFAULT 0 CHECK (looks >= 0);

ALTER TABLE sms_messages DROP CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it;
ALTER TABLE sms_messages ADD CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it CHECK (
    direction <> 'outbound'
    OR (status IN ('sending', 'throttled', 'unknown', 'parked', 'rejected', 'given_up') AND twilio_sid IS NULL AND accepted_at IS NULL)
    OR (status IN ('accepted', 'queued', 'sent', 'failed', 'undelivered', 'delivered')
        AND twilio_sid IS NOT NULL AND accepted_at IS NOT NULL)
);

UPDATE sms_messages SET attempted_at = updated_at WHERE direction = 'outbound';
UPDATE sms_messages SET next_look_at = now() WHERE status = 'unknown';
UPDATE sms_messages SET next_look_at = now()
WHERE direction = 'outbound' AND status IN ('accepted', 'queued', 'sent') AND accepted_at > now() - interval '1 day';

-- What is due to be looked at.
CREATE INDEX sms_messages_due ON sms_messages (next_look_at) WHERE next_look_at IS NOT NULL;
-- Attempts that are over or were lost, and rows that an older release made unknown without setting a look.
CREATE INDEX sms_messages_attempts ON sms_messages (lease_until) WHERE status IN ('sending', 'unknown');
-- What else may be at Twilio for a phone, and what is on its way to one that says STOP.
CREATE INDEX sms_messages_in_doubt ON sms_messages (to_number) WHERE status IN ('sending', 'unknown', 'parked', 'given_up');
-- What operators ask for by status; there are few of these, and an index of the common ones would cost every send.
CREATE INDEX sms_messages_troubled ON sms_messages (org_id, status, id DESC) WHERE status IN ('unknown', 'parked', 'given_up');

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
DROP INDEX sms_messages_troubled, sms_messages_in_doubt, sms_messages_attempts, sms_messages_due;
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
