package send

import (
	"time"
)

const day = 24 * time.Hour

// Caps are counted in the statement of the claim. What was sent to a phone is counted from its newest messages, which an index has, and
// from those that an erasure has left under the phone's pseudonym: a person who is erased and enrolled again has the caps of before. What
// was sent by an organisation or to a prefix is counted up in sms_counts by the claim itself. Claims of one phone, and where there are
// such counters of one organisation, wait for each other (sqlLocks, sqlCountLocks). A transaction claims once for a phone, but more than
// once for an organisation: attempts in the same statement do not see each other, so each adds what the ones before it may send
// (sqlBefore). One that is refused for that is tried again, and counts exactly.

// sqlLimits are the caps of one attempt, as the columns that those of many have.
const sqlLimits = `@segments::int as segments, @hour_since::timestamptz as hour_since, @hour_messages::int as hour_messages,
	@hour_segments::int as hour_segments, @day_since::timestamptz as day_since, @day_messages::int as day_messages,
	@day_segments::int as day_segments, @hour::timestamptz as hour, @org_messages::int as org_messages, @org_segments::int as org_segments,
	@prefix::text as prefix, @prefix_messages::int as prefix_messages, @prefix_segments::int as prefix_segments,
	@pseudonym::text as pseudonym, 0 as org_before, 0 as org_segments_before, 0 as prefix_before, 0 as prefix_segments_before`

// sqlBefore counts the messages and segments that come before each attempt in the same statement.
const (
	sqlBefore = `count(*) over of_org as org_before, coalesce(sum(a.segments) over of_org, 0) as org_segments_before,
		count(*) over of_prefix as prefix_before, coalesce(sum(a.segments) over of_prefix, 0) as prefix_segments_before`
	sqlWindows = `
		window of_org as (partition by a.org order by a.n rows between unbounded preceding and 1 preceding),
			of_prefix as (partition by a.org, a.prefix order by a.n rows between unbounded preceding and 1 preceding)`
)

// sqlFull tells until when each cap holds an attempt u, null where it does not, and when the newest message to its phone was tried. Of the
// messages to the phone, newest first, it is the first one that there is no room next to for this one: when that is so old that it does not
// count any more, there is. A message that is longer than a whole cap is sent when nothing else counts.
var sqlFull = `
	(select max(b.attempted_at) + interval '1 hour' from ` + sqlSentToPhone + ` where ` + phoneFull("hour") + `),
	(select max(b.attempted_at) + interval '24 hours' from ` + sqlSentToPhone + ` where ` + phoneFull("day") + `),
	` + countFull("org", "''") + `,
	` + countFull("prefix", "u.prefix") + `,
	(select max(m.attempted_at) from sms_messages m where m.org_id = u.org and m.to_number = u.recipient and m.direction = 'outbound')`

// sqlPhoneCapped is true where a cap of the phone holds an attempt u of many, sqlCapped where any cap does.
var (
	sqlPhoneCapped = `exists (select from ` + sqlSentToPhone + ` where ` + phoneFull("hour") + ` or ` + phoneFull("day") + `)`
	sqlCapped      = `(` + sqlPhoneCapped + `
	or ` + countFull("org", "''") + ` is not null or ` + countFull("prefix", "u.prefix") + ` is not null
	or ` + beforeFull("org") + ` or ` + beforeFull("prefix") + `)`
)

// sqlSentToPhone are the messages to the phone that count for an attempt u, each with how many there are from it on and of how many
// segments. The message's own row does not count: it may be renewed. Of either name of the phone no more rows are read than a cap has
// messages.
const sqlSentToPhone = `(
		select l.attempted_at, count(*) over newest as messages, sum(l.segments) over newest as segments
		from (
			select m.attempted_at, m.segments, m.id
			from unnest(array[u.recipient, u.pseudonym]) phone (name) cross join lateral (
				select m.attempted_at, m.segments, m.id from sms_messages m
				where m.org_id = u.org and m.to_number = phone.name and m.direction = 'outbound' and m.attempted_at > u.day_since
					and m.idempotency_key <> u.key
				order by m.attempted_at desc limit greatest(u.hour_messages, u.day_messages)
			) m
		) l window newest as (order by l.attempted_at desc, l.id desc rows unbounded preceding)
	) b`

// phoneFull reports whether a cap of the phone has no room for an attempt u next to a message b and those after it.
func phoneFull(limit string) string {
	return `u.` + limit + `_messages > 0 and b.attempted_at > u.` + limit + `_since
		and (b.messages >= u.` + limit + `_messages
		or b.segments + least(u.segments, u.` + limit + `_segments) > u.` + limit + `_segments)`
}

// countFull returns until when the cap of a counter holds.
func countFull(limit, scope string) string {
	return `(select c.hour + interval '1 hour' from sms_counts c
		where c.org_id = u.org and c.scope = ` + scope + ` and c.hour = u.hour and u.` + limit + `_messages > 0
			and (c.messages + u.` + limit + `_before >= u.` + limit + `_messages
				or c.segments + u.` + limit + `_segments_before + least(u.segments, u.` + limit + `_segments) > u.` + limit + `_segments))`
}

// beforeFull reports whether what comes before in the same statement fills a cap alone.
func beforeFull(limit string) string {
	return `u.` + limit + `_messages > 0 and (u.` + limit + `_before >= u.` + limit + `_messages
		or u.` + limit + `_segments_before + least(u.segments, u.` + limit + `_segments) > u.` + limit + `_segments)`
}

// sqlCount counts what was claimed anew, where there is a cap for it.
const sqlCount = `, counted as (
	insert into sms_counts as c (org_id, scope, hour, messages, segments)
	select m.org_id, s.scope, (@hour::timestamptz[])[p.n], count(*), sum(m.segments)
	from claimed m cross join lateral (select ` + sqlPlaceOfMessage + ` as n offset 0) p
		cross join lateral (select '' where (@org_messages::int[])[p.n] > 0
			union all select (@prefix::text[])[p.n] where (@prefix_messages::int[])[p.n] > 0) s (scope)
	group by 1, 2, 3
	on conflict (org_id, scope, hour) do update set messages = c.messages + excluded.messages, segments = c.segments + excluded.segments
)`

// sqlCountLocks keeps the claims of an organisation one after the other, for the counters that they share.
const sqlCountLocks = `select pg_advisory_xact_lock(hashtextextended('counts of ' || u.org::text, 0)) from unnest(@org::uuid[]) u (org)`
