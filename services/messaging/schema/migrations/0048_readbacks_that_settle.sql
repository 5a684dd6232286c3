-- +goose Up

-- A readback of `paceline settle` ends when both databases were compared, and not when Twilio's record is read: until then nothing is sent.
-- A release that does not know this ends it when it has read the record.
ALTER TABLE readbacks ADD COLUMN settling boolean NOT NULL DEFAULT false, ADD COLUMN read_at timestamptz;

-- +goose Down

ALTER TABLE readbacks DROP COLUMN settling, DROP COLUMN read_at;
