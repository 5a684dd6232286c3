-- +goose Up

-- An organisation that is on its way to another deployment, or has gone there: "state" as in onboarding, "accounts" are the Twilio accounts of its
-- senders, which are not visible then. Nothing is sent for it here. Expand only.
ALTER TABLE organisations
    ADD COLUMN move jsonb,
    ADD CONSTRAINT moved_is_not_active CHECK (move IS NULL OR status <> 'active');

-- +goose Down

ALTER TABLE organisations DROP CONSTRAINT moved_is_not_active, DROP COLUMN move;
