-- +goose Up

-- An opt-out or opt-in that is recorded after a later one of the same person.
ALTER TABLE sms_messages DROP CONSTRAINT sms_messages_consent_effect_check;
ALTER TABLE sms_messages ADD CONSTRAINT sms_messages_consent_effect_check
    CHECK (consent_effect IN ('none', 'opt_out', 'opt_in', 'help', 'overtaken')) NOT VALID;

-- +goose Down

UPDATE sms_messages SET consent_effect = 'none' WHERE consent_effect = 'overtaken';
ALTER TABLE sms_messages DROP CONSTRAINT sms_messages_consent_effect_check;
ALTER TABLE sms_messages ADD CONSTRAINT sms_messages_consent_effect_check
    CHECK (consent_effect IN ('none', 'opt_out', 'opt_in', 'help'));
