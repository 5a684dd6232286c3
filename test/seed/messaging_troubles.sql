-- Texts of the queue that are at their end, some of them failed.
insert into sms_outbound_jobs (id, org_id, idempotency_key, event_type, subject, payload, priority, status, attempts, processed_at, error_message,
    failure, created_at, updated_at)
select uuid_of(at), @org::uuid, 'seed:' || @salt::text || ':' || n, 'transactional', phone,
    jsonb_build_object('to', phone, 'body', 'Your receipt is ready.', 'purpose', 'transactional', 'valid_seconds', 3600), 1,
    case when n % 20 = 0 then 'failed' else 'completed' end, 1, at, case when n % 20 = 0 then 'Twilio refused it with code 21211' else '' end,
    case when n % 20 = 0 then 'rejected' else '' end, at, at
from (
    select n, @now::timestamptz - n * interval '7 seconds' as at, (@phones::text[])[1 + (n - 1) / 10000] || lpad(((n - 1) % 10000)::text, 4, '0') as phone
    from generate_series(1, least(@people::bigint, greatest(40, @people::bigint / 100))) n) j
