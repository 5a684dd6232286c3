-- +goose Up

-- An event waits here for half a second, and its id is made with it: nothing looks for an id, and the log, where it stays, has no such index.
ALTER TABLE event_outbox DROP CONSTRAINT IF EXISTS event_outbox_event_id_key;

-- +goose Down

ALTER TABLE event_outbox ADD CONSTRAINT event_outbox_event_id_key UNIQUE (event_id);
