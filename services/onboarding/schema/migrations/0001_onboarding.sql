-- +goose Up
create table profiles (
    id          uuid        primary key,
    org_id      uuid        not null,
    phone       text        not null check (phone ~ '^\+[1-9][0-9]{6,14}$'),
    first_name  text        not null check (first_name <> ''),
    locale      text        not null,
    time_zone   text        not null,
    hold        boolean     not null default false,
    hold_reason text        not null default '',
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    unique (org_id, phone)
);

-- A session is one episode of a conversation. turn counts its changes: it fences every compare-and-set and makes the
-- keys of direct sends, so that two replies handled at once cannot both be answered.
create table conversation_sessions (
    id            uuid        primary key,
    org_id        uuid        not null,
    profile_id    uuid        not null references profiles (id),
    mode          text        not null check (mode in ('onboarding', 'interviewing')),
    state_token   text        not null,
    next_step_id  text,
    status        text        not null check (status in ('active', 'stopped', 'closed', 'stuck', 'undeliverable')),
    status_reason text        not null default '',
    paused_at     timestamptz,
    turn          integer     not null default 0,
    copy_version  text        not null,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    check ((next_step_id is not null) = (state_token = 'onboarding:awaiting_burst'))
);
create unique index conversation_sessions_one_active on conversation_sessions (profile_id) where status = 'active';
create index conversation_sessions_by_org on conversation_sessions (org_id, id desc);
create index conversation_sessions_by_profile on conversation_sessions (profile_id, id desc);
create index conversation_sessions_in_burst on conversation_sessions (updated_at) where status = 'active' and next_step_id is not null;

create table session_transitions (
    id               bigint      generated always as identity primary key,
    session_id       uuid        not null references conversation_sessions (id),
    at               timestamptz not null,
    kind             text        not null,
    from_state_token text        not null default '',
    to_state_token   text        not null default '',
    trigger          text        not null,
    step_id          text        not null default '',
    message_id       uuid,
    detail           text        not null default ''
);
create index session_transitions_by_session on session_transitions (session_id, id);

-- The outbox of alarms. A row is written in the transaction that makes its step due, and published after it; the lease
-- keeps the publisher inside a request and the relay from doing it at the same time.
create table step_alarms (
    id                   uuid        primary key,
    org_id               uuid        not null,
    session_id           uuid        not null references conversation_sessions (id),
    profile_id           uuid        not null,
    step_id              text        not null,
    expected_state_token text        not null,
    generation           integer     not null check (generation > 0),
    due_at               timestamptz not null,
    lease_token          uuid,
    lease_until          timestamptz not null,
    attempts             integer     not null default 0,
    last_error           text        not null default '',
    published_at         timestamptz,
    qstash_message_id    text,
    created_at           timestamptz not null,
    unique (session_id, step_id, generation),
    check ((published_at is null) = (qstash_message_id is null))
);
create index step_alarms_unpublished on step_alarms (lease_until) where published_at is null;

create table dead_letters (
    id                uuid        primary key,
    org_id            uuid,
    source_message_id text        not null unique,
    dlq_id            text        not null,
    session_id        uuid,
    step_id           text        not null default '',
    payload           bytea       not null,
    status            integer     not null,
    response          bytea       not null,
    retried           integer     not null,
    created_at        timestamptz not null
);
create index dead_letters_by_org on dead_letters (org_id, id desc);

create table webhook_jobs (
    id              uuid        primary key,
    org_id          uuid        not null,
    idempotency_key text        not null,
    source          text        not null check (source in ('twilio', 'kapso', 'shopify', 'internal')),
    event_type      text        not null,
    subject         text        not null,
    payload         jsonb       not null,
    status          text        not null check (status in ('pending', 'processing', 'completed', 'failed')),
    attempts        integer     not null default 0,
    max_attempts    integer     not null default 3 check (max_attempts > 0),
    next_retry_at   timestamptz,
    lease_token     uuid,
    lease_until     timestamptz,
    processed_at    timestamptz,
    error_message   text        not null default '',
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    unique (org_id, idempotency_key),
    check ((status = 'pending') = (next_retry_at is not null)),
    check ((status = 'processing') = (lease_token is not null)),
    check ((status = 'processing') = (lease_until is not null))
);
create index idx_webhook_jobs_pending on webhook_jobs (next_retry_at) where status = 'pending';
create index webhook_jobs_leased on webhook_jobs (lease_until) where status = 'processing';
create index webhook_jobs_unfinished_by_subject on webhook_jobs (org_id, subject, id) where status in ('pending', 'processing');

-- Replies that came while nothing may be answered. The text stays in the job that brought it; the last reply that still
-- answers something is routed later, as another job.
create table held_replies (
    job_id      uuid        primary key references webhook_jobs (id),
    session_id  uuid        not null references conversation_sessions (id),
    turn        integer     not null,
    received_at timestamptz not null
);
create index held_replies_by_session on held_replies (session_id, received_at);

-- +goose Down
drop table held_replies;
drop table webhook_jobs;
drop table dead_letters;
drop table step_alarms;
drop table session_transitions;
drop table conversation_sessions;
drop table profiles;
