-- +goose Up

-- What an organisation has decided about engagement, in the form of an engagement file. null: nothing was decided, and the deployment's file
-- holds. Expand only.
ALTER TABLE organisation_settings ADD COLUMN engagement jsonb CHECK (jsonb_typeof(engagement) = 'object');

-- +goose Down

ALTER TABLE organisation_settings DROP COLUMN engagement;
