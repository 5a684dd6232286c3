-- +goose Up

-- Expand only: a release that knows none of this goes on working while one that does runs. Nothing here reads or rewrites the rows.
ALTER TABLE sms_messages
    -- When the attempt began that Twilio has. Null until they have it, when an older release wrote that down, and when it cannot be
    -- told which of several attempts it was: then it counts from created_at.
    ADD COLUMN asked_at timestamptz,
    -- When the first of the listings failed that have failed in a row, and how many those are.
    ADD COLUMN failing_since timestamptz,
    ADD COLUMN failed_looks integer NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE sms_messages DROP COLUMN asked_at, DROP COLUMN failing_since, DROP COLUMN failed_looks;
