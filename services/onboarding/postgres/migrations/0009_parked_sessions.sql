-- +goose NO TRANSACTION
-- +goose Up

-- The sessions that wait for an operator: few among many, listed by organisation and counted every quarter of a minute for the metrics.
-- Built beside the running service; an index that was left half built is dropped first.
drop index concurrently if exists conversation_sessions_parked;
create index concurrently conversation_sessions_parked on conversation_sessions (org_id, id desc)
    where status in ('stuck', 'undeliverable');

-- +goose Down

drop index concurrently if exists conversation_sessions_parked;
