-- The consent of a chunk of people who have opted out, and its line of the ledger, which the database chains; and of people who are held.
with numbered as (
    select n, @now::timestamptz - interval '1 minute' - (@people::bigint - n) * (interval '365 days' / @people::bigint) as at,
        (@phones::text[])[1 + (n - 1) / 10000] || lpad(((n - 1) % 10000)::text, 4, '0') as phone
    from generate_series(@first::bigint, @last::bigint) n
), held as (
    insert into holds (org_id, phone, held, version, updated_at) select @org::uuid, phone, true, 1, at from numbered where n % 2000 = 7
)
insert into consents (org_id, phone, state, updated_at)
select @org::uuid, phone, 'opted_out', at from numbered where n % 1000 between 2 and 41 and n % 50 <> 0
