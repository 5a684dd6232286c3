-- +goose NO TRANSACTION
-- +goose Up

-- The sessions that wait for an operator: few among many, listed by organisation and counted for the metrics; and the
-- dead letters that nobody has replayed.
-- Built while the service runs; an index that was left half built is dropped first.
drop index concurrently if exists conversation_sessions_parked;
create index concurrently conversation_sessions_parked on conversation_sessions (org_id, id desc)
    where status in ('stuck', 'undeliverable');
drop index concurrently if exists dead_letters_open;
create index concurrently dead_letters_open on dead_letters (id) where replayed_at is null;

-- +goose Down

drop index concurrently if exists dead_letters_open;
drop index concurrently if exists conversation_sessions_parked;
