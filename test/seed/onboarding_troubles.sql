-- What waits for an operator, in proportion to the people; all of it is at its end, so that no worker takes it up.
with jobs as (
    insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, attempts, processed_at, error_message,
        created_at, updated_at)
    select uuid_of(at), @org::uuid, 'seed:' || @salt::text || ':' || n, 'internal', 'seeded', '', '{}', case when n % 20 = 0 then 'failed' else 'completed' end, 3,
        at, case when n % 20 = 0 then 'the handler could not be reached' else '' end, at, at
    from (select n, @now::timestamptz - n * interval '7 seconds' as at from generate_series(1, greatest(40, @people::bigint / 100)) n) j
), letters as (
    insert into dead_letters (id, org_id, source_message_id, dlq_id, payload, status, response, retried, created_at)
    select uuid_of(at), @org::uuid, 'seed:' || @salt::text || ':' || n, n || '-0', '', 503, 'later', 5, at
    from (select n, @now::timestamptz - n * interval '1 hour' as at from generate_series(1, greatest(3, @people::bigint / 20000)) n) d
), outreach as (
    insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, priority, status, attempts, processed_at, error_message,
        profile_id, message_key, local_day, scheduled_for, expires_at, outcome, created_at, updated_at)
    select uuid_of(p.at), @org::uuid, 'seed:' || @salt::text || ':' || p.id, 'welcome', p.phone, 0, 'failed', 3, p.at, 'it could not be told whether it was sent', p.id,
        'welcome', p.at::date, p.at, p.at + interval '1 day', 'given_up', p.at, p.at
    from (select id, phone, @now::timestamptz - interval '1 hour' as at from profiles where org_id = @org::uuid order by id desc
          limit greatest(3, @people::bigint / 20000)) p
)
insert into event_subscriptions (id, org_id, url, types, include, secret, status, paused_reason, cursor_seq, created_at, updated_at)
select uuid_of(@now::timestamptz), @org::uuid, 'https://subscriber.invalid/paceline', '{}', '{}', sha256(@salt::text::bytea), 'paused', 'it answered 410', 0,
    @now::timestamptz, @now::timestamptz
