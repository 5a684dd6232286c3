-- +goose Up

-- No statement looks up an event of the outbox by its id, and the id is made with the row. So this index only costs writes.
ALTER TABLE event_outbox DROP CONSTRAINT IF EXISTS event_outbox_event_id_key;

-- +goose Down

ALTER TABLE event_outbox ADD CONSTRAINT event_outbox_event_id_key UNIQUE (event_id);
