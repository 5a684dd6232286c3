package engagement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// sqlUnmoved is the guard of a change: the person stands where they were read. Activity alone never goes back, so it does not need
// to stand.
const sqlUnmoved = `
where u.org_id = @org and u.profile_id = @profile and u.state = @was and u.transition_id is not distinct from nullif(@newest, '')::uuid
  and u.goodbye_sent_at is not distinct from @was_sent::timestamptz and u.goodbye_expires_at is not distinct from @was_expires::timestamptz
  and u.remind_at is not distinct from @was_remind::timestamptz`

// What was never claimed for sending has no text yet; anything else may have been sent.
const sqlWithdraw = `
update engagement_outreach o set status = 'cancelled', outcome = 'returned', processed_at = @at, next_retry_at = null, updated_at = @at
where o.org_id = @org and o.profile_id = @profile and o.event_type = any (@withdraw::text[]) and o.status = 'pending' and o.body is null`

// sqlActivity is a change that is no transition, in one statement.
const sqlActivity = `
with seen as (
    update user_engagement_states u set last_activity_at = greatest(u.last_activity_at, @activity), goodbye_sent_at = @sent::timestamptz,
        goodbye_expires_at = @expires::timestamptz, updated_at = greatest(u.updated_at, @at)` + sqlUnmoved + `
    returning u.profile_id
), withdrawn as (` + sqlWithdraw + ` and exists (select from seen))
select count(*) from seen`

const sqlTransition = `
insert into engagement_state_transitions (id, org_id, profile_id, from_state, to_state, trigger, cause, supersedes, metadata, created_at)
values (@id, @org, @profile, nullif(@from, ''), @to, @trigger, @cause, nullif(@supersedes, '')::uuid, @metadata, @happened)
on conflict on constraint engagement_state_transitions_once do nothing`

const sqlBegin = `
insert into user_engagement_states (id, org_id, profile_id, state, last_activity_at, transition_id, created_at, updated_at)
values (@id, @org, @profile, @to, @activity, @transition, @at, @at)
on conflict (profile_id) do nothing`

// A transition depends on the activity that it was decided on, too.
const sqlMovePerson = `
update user_engagement_states u
set state = @to, last_activity_at = greatest(u.last_activity_at, @activity), goodbye_sent_at = @sent::timestamptz,
    goodbye_expires_at = @expires::timestamptz, remind_at = @remind::timestamptz, transition_id = @transition,
    updated_at = @at` + sqlUnmoved + `
  and u.last_activity_at = @was_activity`

const sqlResetProgress = `
update profiles p set onboarding_tier = 0, celebration_epoch = p.celebration_epoch + 1, onboarding_tips_enabled = true,
    tips_changed_at = greatest(p.tips_changed_at, @activity),
    onboarding_tier_progress = jsonb_build_object(
        'tier1', '{}'::jsonb, 'tier2', '{}'::jsonb, 'tier3', '{}'::jsonb, 'epoch', p.celebration_epoch + 1),
    updated_at = @at
where p.org_id = @org and p.id = @profile`

const sqlFirstDestination = `
update profiles set preferred_destination = @destination, updated_at = @at
where org_id = @org and id = @profile and destination_chosen_at is null`

const sqlQueueOutreach = `
insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, payload, priority, status, next_retry_at, profile_id,
    transition_id, message_key, destination, local_day, scheduled_for, expires_at, created_at, updated_at)
select @id, @org, @key, @type, p.phone, @payload, case when @type in ('help_restart', 'welcome', 'tier_unlock') then 0 else 1 end,
    'pending', @due, p.id, nullif(@transition, '')::uuid, @message_key, p.preferred_destination, @local_day::date, @due, @expires, @at, @at
from profiles p where p.org_id = @org and p.id = @profile
on conflict (org_id, idempotency_key) do nothing`

const sqlEvent = `
insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
values (@id, @org, @type, @profile, @happened, @cause, @data)`

// Apply writes a change whole: the person's row, guarded by what was read, the audit of its transitions, what is withdrawn and queued, and
// the events. people.ErrConflict when the person has moved or the cause has made a transition already; then nothing has happened.
func (s *Store) Apply(ctx context.Context, c Change) error {
	var last rules.Move
	if len(c.Moves) > 0 {
		last = c.Moves[len(c.Moves)-1]
	}
	args := postgres.Args{
		"org": c.View.OrgID, "profile": c.View.ProfileID, "newest": c.View.TransitionID, "was": string(c.View.Person.State),
		"was_activity": postgres.NullIfZero(c.View.Person.LastActivityAt), "was_sent": postgres.NullIfZero(c.View.Person.GoodbyeSentAt),
		"was_expires": postgres.NullIfZero(c.View.Person.GoodbyeExpiresAt),
		"was_remind":  postgres.NullIfZero(c.View.Person.RemindAt), "to": string(last.Person.State),
		"activity": last.Person.LastActivityAt, "sent": postgres.NullIfZero(last.Person.GoodbyeSentAt),
		"expires": postgres.NullIfZero(last.Person.GoodbyeExpiresAt),
		"remind":  postgres.NullIfZero(last.Person.RemindAt), "at": c.At, "withdraw": withdrawn(c.Moves), "cause": c.Cause,
	}
	switch {
	case last.Audit == nil && c.Act == nil:
		return noteActivity(ctx, s.pool, args)
	case onlyBegins(c):
		return s.begin(ctx, c, args)
	}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var batch pgx.Batch
		if err := queueChange(&batch, c, maps.Clone(args)); err != nil {
			return err
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	return wrapUnlessConflict("change a person", err)
}

// sqlBeginAll begins the states of people of whom nothing was known, and tells of those that are new.
const sqlBeginAll = `
with asked as (
    select u.id, u.transition, u.org, u.profile, u.becomes, u.activity, u.trigger, u.cause, u.metadata, u.happened, u.at, u.events, u.n
    from unnest(@state::uuid[], @id::uuid[], @org::uuid[], @profile::uuid[], @to::text[], @activity::timestamptz[], @trigger::text[],
        @cause::text[], @metadata::jsonb[], @happened::timestamptz[], @at::timestamptz[], @events::jsonb[]) with ordinality
        as u (id, transition, org, profile, becomes, activity, trigger, cause, metadata, happened, at, events, n)
), begun as (
    insert into user_engagement_states (id, org_id, profile_id, state, last_activity_at, transition_id, created_at, updated_at)
    select id, org, profile, becomes, activity, transition, at, at from asked
    on conflict (profile_id) do nothing
    returning id
), audited as (
    insert into engagement_state_transitions (id, org_id, profile_id, from_state, to_state, trigger, cause, metadata, created_at)
    select u.transition, u.org, u.profile, null, u.becomes, u.trigger, u.cause, u.metadata, u.happened from begun join asked u using (id)
), told as (
    insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
    select e.id, u.org, e.type, u.profile, e.time, u.cause, e.data
    from begun join asked u using (id)
    cross join jsonb_to_recordset(u.events) as e (id uuid, type text, time timestamptz, data jsonb)
)
select u.n from begun join asked u using (id)`

// onlyBegins reports whether a change is the first that is known of a person, and nothing but its events follows.
func onlyBegins(c Change) bool {
	if c.View.Known || len(c.Moves) != 1 || c.Act != nil || c.Destination != "" || len(c.Outreach) > 0 {
		return false
	}
	m := c.Moves[0]
	return m.Audit != nil && m.Queue == "" && len(m.Withdraw) == 0 && !m.ResetProgress
}

// begin is Apply of a change that onlyBegins, as the first message of a person does, in a transaction that others may share.
func (s *Store) begin(ctx context.Context, c Change, args postgres.Args) error {
	if err := auditIn(args, c.View, c.Moves[0], true); err != nil {
		return err
	}
	type told struct {
		ID   string         `json:"id"`
		Type string         `json:"type"`
		Time time.Time      `json:"time"`
		Data map[string]any `json:"data"`
	}
	events := make([]told, len(c.Events))
	for i, e := range c.Events {
		events[i] = told{newID(), e.Type, e.Time, e.Data}
	}
	args["state"], args["events"] = newID(), events
	var begun int
	if err := s.hot.Do(ctx, c.View.ProfileID, postgres.Statement{SQL: sqlBeginAll, Args: args, Rows: &begun}); err != nil {
		return fmt.Errorf("begin a person's engagement: %w", err)
	}
	return conflictUnless(begun == 1)
}

// wrapUnlessConflict adds to an error what was being done, unless it is the error of a guard.
func wrapUnlessConflict(doing string, err error) error {
	if err == nil || errors.Is(err, people.ErrConflict) {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// queueChange queues all of a change for one round trip. The first guard that does not hold is the error of the batch, and undoes it.
func queueChange(batch *pgx.Batch, c Change, args postgres.Args) (err error) {
	if c.Act != nil {
		if err := keepAction(batch, c); err != nil {
			return err
		}
	}
	asked := ""
	switch {
	case len(c.Moves) > 0 && c.Moves[len(c.Moves)-1].Audit != nil:
		if asked, err = transit(batch, c, args); err != nil {
			return err
		}
	case len(c.Moves) > 0:
		batch.Queue(sqlActivity, maps.Clone(args)).QueryRow(conflictUnlessSeen)
	}
	if c.Act != nil {
		if err := advance(batch, c); err != nil {
			return err
		}
	}
	return follow(batch, c, args, asked)
}

func noteActivity(ctx context.Context, db postgres.DB, args postgres.Args) error {
	return wrapUnlessConflict("note activity", conflictUnlessSeen(db.QueryRow(ctx, sqlActivity, args)))
}

// conflictUnlessSeen reads the answer of sqlActivity.
func conflictUnlessSeen(row pgx.Row) error {
	var seen int
	if err := row.Scan(&seen); err != nil {
		return err
	}
	return conflictUnless(seen == 1)
}

func conflictUnless(held bool) error {
	if !held {
		return people.ErrConflict
	}
	return nil
}

func withdrawn(moves []rules.Move) []string {
	types := []string{}
	for _, m := range moves {
		for _, t := range m.Withdraw {
			types = append(types, string(t))
		}
	}
	return types
}

// transit writes the transitions of a change, and returns the first. They come before the person's row, which names the newest of them.
func transit(batch *pgx.Batch, c Change, args postgres.Args) (first string, err error) {
	for i, m := range c.Moves {
		if err := auditIn(args, c.View, m, i == 0); err != nil {
			return "", err
		}
		guard(batch, sqlTransition, args)
		args["transition"] = args["id"]
		if first == "" {
			first, _ = args["id"].(string)
		}
	}
	sql := sqlMovePerson
	if !c.View.Known {
		sql, args["id"] = sqlBegin, newID()
	}
	guard(batch, sql, args)
	return first, nil
}

// guard queues a guarded statement: people.ErrConflict when its guard does not hold.
func guard(batch *pgx.Batch, sql string, args postgres.Args) {
	batch.Queue(sql, maps.Clone(args)).Exec(func(tag pgconn.CommandTag) error { return conflictUnless(tag.RowsAffected() == 1) })
}

// auditIn sets the arguments of one audit row. A choice is judged as if the goodbye were open; the row says where the person really was,
// and which timeout it overrules.
func auditIn(args postgres.Args, v View, m rules.Move, first bool) error {
	metadata, err := json.Marshal(m.Audit.Metadata)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	args["id"], args["from"], args["supersedes"] = newID(), string(m.Audit.From), ""
	if first {
		args["from"] = string(v.Person.State)
	}
	if m.Audit.Metadata.Supersedes == rules.GoodbyeTimeout {
		args["supersedes"] = v.TransitionID
	}
	args["trigger"], args["metadata"], args["happened"] = string(m.Audit.Trigger), metadata, m.Audit.At
	args["to"] = string(m.Audit.To)
	return nil
}

// follow queues what follows. asked is the transition that asks for the outreach of a move; empty for none.
func follow(batch *pgx.Batch, c Change, args postgres.Args, asked string) error {
	for _, m := range c.Moves {
		if m.ResetProgress {
			batch.Queue(sqlResetProgress, args)
		}
	}
	if c.Destination != "" {
		args["destination"] = string(c.Destination)
		batch.Queue(sqlFirstDestination, args)
	}
	// An activity has withdrawn already. After the profile, as in Prefer.
	if types, _ := args["withdraw"].([]string); asked != "" && len(types) > 0 {
		batch.Queue(sqlWithdraw, args)
	}
	for i, o := range c.Outreach {
		params, err := json.Marshal(o.Params)
		if err != nil {
			return fmt.Errorf("encode parameters: %w", err)
		}
		transition := ""
		if slices.ContainsFunc(c.Moves, func(m rules.Move) bool { return m.Queue == o.Type }) {
			transition = asked
		}
		id := newID()
		batch.Queue(sqlQueueOutreach, postgres.Args{
			"id": id, "org": c.View.OrgID, "profile": c.View.ProfileID, "key": o.Key, "type": string(o.Type), "payload": params,
			"due": o.DueAt, "transition": transition, "message_key": o.MessageKey, "local_day": o.LocalDay, "expires": o.ExpiresAt, "at": c.At,
		}).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				id = ""
			}
			c.Outreach[i].ID = id
			return nil
		})
	}
	for _, e := range c.Events {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		batch.Queue(sqlEvent, postgres.Args{
			"id": newID(), "org": c.View.OrgID, "type": e.Type, "profile": c.View.ProfileID, "happened": e.Time, "cause": c.Cause, "data": data,
		})
	}
	return nil
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
