-- +goose NO TRANSACTION
-- +goose Up

-- What reads the whole table, while messages are sent: each statement is its own transaction, so that no lock outlasts it. It may break
-- off anywhere and be run again; an index that was left half built is dropped first.
ALTER TABLE sms_messages VALIDATE CONSTRAINT sms_messages_unknown_policy_check;
ALTER TABLE sms_messages VALIDATE CONSTRAINT sms_messages_looks_check;
ALTER TABLE sms_messages VALIDATE CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it;
ALTER TABLE sms_messages VALIDATE CONSTRAINT sms_messages_consent_effect_check;

-- What is due to be looked at.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_due;
CREATE INDEX CONCURRENTLY sms_messages_due ON sms_messages (next_look_at) WHERE next_look_at IS NOT NULL;
-- Attempts that are over or were lost, and rows that an older release made unknown without setting a look.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_attempts;
CREATE INDEX CONCURRENTLY sms_messages_attempts ON sms_messages (lease_until) WHERE status IN ('sending', 'unknown');
-- What else may be at Twilio for a phone, and what is on its way to one that says STOP.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_in_doubt;
CREATE INDEX CONCURRENTLY sms_messages_in_doubt ON sms_messages (to_number) WHERE status IN ('sending', 'unknown', 'parked', 'given_up');
-- What operators ask for by status; there are few of these, and an index of the common ones would cost every send.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_troubled;
CREATE INDEX CONCURRENTLY sms_messages_troubled ON sms_messages (org_id, status, id DESC) WHERE status IN ('unknown', 'parked', 'given_up');

-- What a person said about consent, and when.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_words_of_consent;
CREATE INDEX CONCURRENTLY sms_messages_words_of_consent ON sms_messages (org_id, from_number, created_at)
    WHERE direction = 'inbound' AND consent_effect IN ('opt_out', 'opt_in');

-- What the older release has not seen the end of; it would otherwise wait for a receipt that may have been lost. What it has left
-- in doubt is taken up by the reconciler.
UPDATE sms_messages SET next_look_at = now()
WHERE direction = 'outbound' AND status IN ('accepted', 'queued', 'sent') AND accepted_at > now() - interval '1 day'
    AND next_look_at IS NULL;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS sms_messages_words_of_consent;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_troubled;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_in_doubt;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_attempts;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_due;
