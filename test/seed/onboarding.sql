-- A chunk of people, the @first to the @last of @people: a profile, and but for every fiftieth a session with its timeline. The time and the random
-- part of each id follow from the number of the person, so that messaging.sql names the same people.
with numbered as (
    select n, @now::timestamptz - interval '2 minutes' - (@people::bigint - n) * (interval '365 days' / @people::bigint) as at, md5(@salt::text || ':person:' || n) as h
    from generate_series(@first::bigint, @last::bigint) n
), people as (
    select n, at, {id} as id,
        case when n % 50 = 0 then 'none' when n % 1000 = 501 then 'stuck' when n % 1000 = 502 then 'undeliverable'
            when n % 1000 between 2 and 41 then 'stopped' when n % 1000 between 42 and 241 then 'closed' else 'active' end as status
    from numbered
), enrolled as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, hold, hold_reason, hold_version, hold_told, opted_out_at,
        consent_changed_at, created_at, updated_at)
    select p.id, @org::uuid, (@phones::text[])[1 + (p.n - 1) / 10000] || lpad(((p.n - 1) % 10000)::text, 4, '0'),
        (@names::text[])[1 + p.n % cardinality(@names::text[])], case when p.n % 3 = 0 then 'pt-BR' else 'en' end,
        case when p.n % 3 = 0 then 'America/Sao_Paulo' else 'America/New_York' end,
        p.n % 2000 = 7, case when p.n % 2000 = 7 then 'asked for a call first' else '' end,
        case when p.n % 2000 = 7 then 1 else 0 end, case when p.n % 2000 = 7 then 1 else 0 end,
        case when p.status = 'stopped' then p.at + interval '1 minute' end, case when p.status = 'stopped' then p.at + interval '1 minute' end, p.at, p.at
    from people p
), places as (
    select p.n, p.at, p.id, p.status, case
        when p.status in ('stuck', 'undeliverable') then 'onboarding:awaiting_burst'
        when p.status = 'stopped' or p.n % 10 = 1 then 'onboarding:awaiting_opening_response'
        when p.n % 10 = 2 then 'onboarding:awaiting_explanation_response'
        when p.n % 10 in (3, 4) then 'onboarding:awaiting_interview_start'
        else 'interview:activity_01' end as token
    from people p where p.status <> 'none'
), sessions as (
    insert into conversation_sessions (id, org_id, profile_id, mode, state_token, next_step_id, status, status_reason, paused_at, turn, detours,
        copy_version, created_at, updated_at)
    select s.session_id, @org::uuid, s.id, case when s.token like 'interview:%' then 'interviewing' else 'onboarding' end, s.token,
        case when s.token = 'onboarding:awaiting_burst' then 'onboarding_message_2' end, s.status,
        case s.status when 'stuck' then 'its alarms brought nothing' when 'undeliverable' then 'Twilio refused the message with code 21211'
            when 'stopped' then 'they texted STOP' else '' end,
        case when s.status = 'active' and s.n % 100 = 11 then s.at + interval '1 minute' end, 3,
        case when s.status in ('stuck', 'undeliverable') then 1 else 0 end, '2026-11', s.at, s.at + interval '1 minute'
    from (select w.n, w.at, w.id, w.status, w.token, {id} as session_id
          from (select n, at, id, status, token, md5(@salt::text || ':session:' || n) as h from places) w) s
    returning id, profile_id
)
insert into session_transitions (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, message_id, detail)
select s.id, w.at + l.after, l.kind, l.came, l.becomes, l.trigger, '', null, l.detail
from places w join sessions s on s.profile_id = w.id cross join lateral (values
    (1, interval '1 second', 'activated', '', 'onboarding:awaiting_opening_response', 'activation', '', true),
    (2, interval '2 seconds', 'sent', 'onboarding:awaiting_opening_response', 'onboarding:awaiting_opening_response', 'activation', '', true),
    (3, interval '40 seconds', 'replied', 'onboarding:awaiting_opening_response', 'onboarding:awaiting_opening_response', 'reply_advance', '',
        w.token <> 'onboarding:awaiting_opening_response'),
    (4, interval '41 seconds', 'advanced', 'onboarding:awaiting_opening_response', w.token, 'reply_advance', '',
        w.token <> 'onboarding:awaiting_opening_response'),
    (5, interval '1 minute', case w.status when 'stopped' then 'stopped' when 'closed' then 'closed' else 'parked' end, w.token, w.token,
        case w.status when 'stopped' then 'stop' else 'operator' end, '', w.status <> 'active')
    ) l (place, after, kind, came, becomes, trigger, detail, happened)
where l.happened
order by w.n, l.place
