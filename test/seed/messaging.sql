-- The messages of a chunk of people, @each of each who has a session. Nothing has a time at which Twilio would be asked before a year is over, and
-- no row waits to be sent.
with numbered as (
    select n, @now::timestamptz - interval '2 minutes' - (@people::bigint - n) * (interval '365 days' / @people::bigint) as at, md5(@salt::text || ':person:' || n) as h
    from generate_series(@first::bigint, @last::bigint) n where n % 50 <> 0
), people as (
    select n, at, {id} as id, (@phones::text[])[1 + (n - 1) / 10000] || lpad(((n - 1) % 10000)::text, 4, '0') as phone from numbered
), texts as (
    select p.id as profile_id, p.phone, p.n * @each::bigint + k as g, k, k % 3 = 2 as inbound,
        case when k % 3 = 2 then (@replies::text[])[1 + (p.n + k) % cardinality(@replies::text[])]
            else (@texts::text[])[1 + (p.n + k) % cardinality(@texts::text[])] end as body,
        least(p.at + interval '2 seconds' + k * interval '20 seconds', @now::timestamptz - interval '1 second') as at
    from people p cross join generate_series(0, @each::integer - 1) k
), judged as (
    select w.profile_id, w.phone, w.g, w.inbound, w.body, w.at, md5(@salt::text || ':message:' || w.g) as h, case
        when w.inbound then 'received'
        when w.g % 9973 = 3 then 'unknown' when w.g % 9973 = 4 then 'parked'
        when w.g % 97 = 5 then 'undelivered' when w.g % 211 = 7 then 'failed' when w.g % 401 = 9 then 'rejected'
        when w.at > @now::timestamptz - interval '1 hour' and w.g % 4 = 0 then 'sent' else 'delivered' end as status
    from texts w
), written as (
    insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
        error_code, segments, correlation_id, attempt_token, lease_until, attempts, attempted_at, accepted_at, asked_at, next_look_at,
        consent_effect, created_at, updated_at)
    select {id}, @org::uuid, profile_id, case when inbound then 'inbound' else 'outbound' end, case when inbound then phone else @sender::text end,
        case when inbound then @sender::text else phone end, body, sha256(convert_to(body, 'UTF8')),
        case when not inbound then 'seed:' || @salt::text || ':' || g end, status,
        case when status not in ('unknown', 'parked', 'rejected') then 'SM' || h end,
        case status when 'undelivered' then 30003 when 'failed' then 30008 when 'rejected' then 21211 end, 1, 'seed',
        case when not inbound then h::uuid end, case when not inbound then at end, case when inbound then 0 else 1 end,
        case when not inbound then at end, case when not inbound and status not in ('unknown', 'parked', 'rejected') then at + interval '300 ms' end,
        case when not inbound and status not in ('unknown', 'parked', 'rejected') then at end,
        case when status in ('unknown', 'parked') then @now::timestamptz + interval '365 days' end, case when inbound then 'none' end, at, at
    from judged
    returning id, twilio_sid, status, error_code, updated_at
)
insert into sms_receipts (message_id, twilio_sid, status, error_code, raw, received_at)
select id, twilio_sid, status, coalesce(error_code, 0), '{}', updated_at from written
where status in ('undelivered', 'failed') or status = 'delivered' and get_byte(uuid_send(id), 15) % 10 = 0
