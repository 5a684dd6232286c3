-- +goose Up

-- A readback that a process began because nobody was up before it: the database may be a copy of earlier. A release that does not know this
-- reads back as after a loss.
ALTER TABLE readbacks ADD COLUMN suspected boolean NOT NULL DEFAULT false;

-- +goose Down

ALTER TABLE readbacks DROP COLUMN suspected;
