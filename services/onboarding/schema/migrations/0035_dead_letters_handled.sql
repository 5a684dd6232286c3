-- +goose NO TRANSACTION
-- +goose Up

-- Beside the running service: each statement is its own transaction, and all of them may be run again.

-- When the step of a dead letter was over without its replay: it was sent another way, its session ended, or there is nothing to replay.
-- Dead letters are few, so their own table is changed and filled at once.
alter table dead_letters add column if not exists handled_at timestamptz;
update dead_letters d set handled_at = s.updated_at
from conversation_sessions s
where s.id = d.session_id and d.replayed_at is null and d.handled_at is null
  and (s.next_step_id is distinct from d.step_id or s.status in ('stopped', 'closed'));
-- The open ones, by their session: every step looks there. dead_letters_open goes on serving the release before.
drop index concurrently if exists dead_letters_unhandled;
create index concurrently dead_letters_unhandled on dead_letters (session_id, id) where replayed_at is null and handled_at is null;

-- +goose Down

drop index concurrently if exists dead_letters_unhandled;
alter table dead_letters drop column if exists handled_at;
