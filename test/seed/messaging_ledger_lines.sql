insert into consent_events (org_id, phone, at, state, source, words, sender)
select c.org_id, c.phone, c.updated_at, 'opted_out', 'operator', 'they asked for it on the phone', @sender::text
from consents c
where c.org_id = @org::uuid and c.phone = any (array(
    select (@phones::text[])[1 + (n - 1) / 10000] || lpad(((n - 1) % 10000)::text, 4, '0') from generate_series(@first::bigint, @last::bigint) n
    where n % 1000 between 2 and 41 and n % 50 <> 0))
