-- +goose Up

-- The texts of engagement that an organisation has decided, by language and by key. null: nothing was decided, and the deployment's are sent.
-- Expand only: a release that knows nothing of it sends the deployment's.
ALTER TABLE organisation_settings ADD COLUMN engagement_texts jsonb CHECK (jsonb_typeof(engagement_texts) = 'object');

-- +goose Down

ALTER TABLE organisation_settings DROP COLUMN engagement_texts;
