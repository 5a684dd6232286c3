-- +goose Up

-- Whether a person's time zone is a guess: none was given. Then time_zone is the only one that their number allows, or is empty for the
-- organisation's. A release that does not know this reads an empty one as UTC.
ALTER TABLE profiles ADD COLUMN time_zone_guessed boolean NOT NULL DEFAULT false;

ALTER TABLE organisation_settings ADD COLUMN time_zone text NOT NULL DEFAULT 'UTC' CHECK (time_zone <> '');

-- +goose Down

ALTER TABLE organisation_settings DROP COLUMN time_zone;
ALTER TABLE profiles DROP COLUMN time_zone_guessed;
