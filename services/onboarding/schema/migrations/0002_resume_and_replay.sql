-- +goose Up
-- Why an alarm was set. Only those that came because the one before brought nothing count against a step.
alter table step_alarms
    add column cause text not null default 'due'
        check (cause in ('due', 'overdue', 'delivery', 'released', 'replayed', 'resumed'));

-- turn - detours is the place of the conversation, which parking and resuming do not change: the keys of direct texts and
-- the replies that are held (held_replies.turn) belong to a place. parked_job_id is the work that was under way when the session was parked.
alter table conversation_sessions
    add column detours       integer not null default 0,
    add column parked_job_id uuid references webhook_jobs (id) on delete set null,
    add constraint conversation_sessions_place check (detours between 0 and turn);
-- Clearing jobs away looks for the sessions that name them.
create index conversation_sessions_by_parked_job on conversation_sessions (parked_job_id) where parked_job_id is not null;
update conversation_sessions set detours = 1 where status in ('stuck', 'undeliverable') and turn > 0;

-- Of a text that was sent: since when a reply may answer it. That is before at, if it was learnt late that Twilio had taken it.
alter table session_transitions add column asked_at timestamptz;

alter table dead_letters
    add column replayed_at timestamptz,
    add column replays     integer not null default 0,
    add constraint dead_letters_replayed check ((replayed_at is null) = (replays = 0));
create index dead_letters_by_session on dead_letters (session_id, id desc);

-- +goose Down
drop index dead_letters_by_session;
alter table dead_letters drop column replays, drop column replayed_at;
alter table session_transitions drop column asked_at;
drop index conversation_sessions_by_parked_job;
alter table conversation_sessions drop constraint conversation_sessions_place, drop column parked_job_id, drop column detours;
alter table step_alarms drop column cause;
