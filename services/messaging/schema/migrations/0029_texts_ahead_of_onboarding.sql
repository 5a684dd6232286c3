-- +goose Up

-- A text that the gateway had recorded while onboarding did not answer: onboarding has still to take it. A release that knows nothing of
-- this lists the text as recorded.
ALTER TABLE sms_messages ADD COLUMN awaits_onboarding boolean;

-- +goose Down
ALTER TABLE sms_messages DROP COLUMN awaits_onboarding;
