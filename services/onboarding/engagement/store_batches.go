package engagement

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement/rules"
)

// sqlMoveAll writes the transitions of a batch. Its guard is the whole reason of each: the person stands where they were read, and none of
// their messages waits.
const sqlMoveAll = `
with i as (
    select i.profile_id, i.id, i.was, i.newest, i.was_activity, i.was_expires, i."to", i.sent, i.trigger, i.metadata, i.happened
    from unnest(@profiles::uuid[], @ids::uuid[], @was::text[], @newest::uuid[], @was_activity::timestamptz[],
        @was_expires::timestamptz[], @to::text[], @sent::timestamptz[], @triggers::text[], @metadata::text[], @happened::timestamptz[])
    i (profile_id, id, was, newest, was_activity, was_expires, "to", sent, trigger, metadata, happened)
), moved as (
    update user_engagement_states u
    set state = i."to", goodbye_sent_at = i.sent, goodbye_expires_at = null, remind_at = null, transition_id = i.id, updated_at = @at
    from i
    where u.org_id = @org and u.profile_id = i.profile_id and u.profile_id = any(@profiles::uuid[]) and u.state = i.was
      and u.transition_id is not distinct from i.newest and u.last_activity_at = i.was_activity
      and u.goodbye_expires_at is not distinct from i.was_expires
      and not exists (select from webhook_jobs j join profiles p on p.org_id = j.org_id and p.phone = j.subject
          where p.id = u.profile_id and j.org_id = u.org_id and j.status in ('pending', 'processing') and j.subject <> '')
    returning u.profile_id
), audited as (
    insert into engagement_state_transitions (id, org_id, profile_id, from_state, to_state, trigger, cause, metadata, created_at)
    select i.id, @org, i.profile_id, i.was, i."to", i.trigger, @cause, i.metadata::jsonb, i.happened from i join moved using (profile_id)
)
select profile_id::text from moved`

// sqlQueueAll is the outreach of a batch; a key that there is already is left as it is.
const sqlQueueAll = `
insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, payload, priority, status, next_retry_at, profile_id,
    transition_id, message_key, destination, local_day, scheduled_for, expires_at, created_at, updated_at)
select i.id, @org, i.key, i.type, p.phone, i.payload::jsonb, 1, 'pending', i.due, p.id, i.transition, i.message_key,
    p.preferred_destination, i.local_day::date, i.due, i.expires, @at, @at
from unnest(@ids::uuid[], @profiles::uuid[], @keys::text[], @types::text[], @payloads::text[], @due::timestamptz[], @transitions::uuid[],
    @message_keys::text[], @local_days::text[], @expires::timestamptz[])
    i (id, profile_id, key, type, payload, due, transition, message_key, local_day, expires)
join profiles p on p.org_id = @org and p.id = i.profile_id
where p.id = any(@profiles::uuid[])
on conflict (org_id, idempotency_key) do nothing
returning idempotency_key, id::text`

const sqlTellAll = `
insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
select i.id, @org, i.type, i.profile, i.happened, @cause, i.data::jsonb
from unnest(@ids::uuid[], @types::text[], @profiles::text[], @happened::timestamptz[], @data::text[]) i (id, type, profile, happened, data)`

// sqlByIndexes keeps the batch, and what Postgres itself looks up for its foreign keys, from the plans that it has made for tables which
// were empty then: they read all of a table for each row, and a connection keeps them until the table is analyzed.
const sqlByIndexes = `set local enable_seqscan = off`

const sqlHoldRun = `select from engagement_runs where org_id = @org and id = @id and lease_token = @token for update`

// WriteBatch writes a batch of a run: the transitions of people who stand where they were read, with their outreach and events.
func (s *Store) WriteBatch(ctx context.Context, b Batch, until time.Time) (counts Counts, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlByIndexes); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlHoldRun, postgres.Args{"org": b.Run.OrgID, "id": b.Run.ID, "token": b.Run.Token})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrRunLost
		}
		decided := len(b.Changes)
		if b.Changes, err = notQueued(ctx, tx, b); err != nil {
			return err
		}
		changed, err := writeChanges(ctx, tx, b)
		if err != nil {
			return err
		}
		b.Run.Counts = b.Run.Counts.Wrote(len(b.Changes), changed, decided-len(b.Changes))
		return writeRun(ctx, tx, b.Run, b.Now, until)
	})
	if err != nil {
		return Counts{}, fmt.Errorf("write a batch of a run: %w", err)
	}
	return b.Run.Counts, nil
}

const sqlQueuedKeys = `select idempotency_key from engagement_outreach where org_id = @org and idempotency_key = any(@keys::text[])`

// notQueued leaves out the changes with a message that has been queued before, by an earlier run of the day. Without a message to answer,
// the person must not move. A promised reminder is left in: who was reminded is dormant.
func notQueued(ctx context.Context, tx pgx.Tx, b Batch) ([]Change, error) {
	keys := []string{}
	for _, c := range b.Changes {
		for _, o := range c.Outreach {
			if o.Type != rules.Reminder {
				keys = append(keys, o.Key)
			}
		}
	}
	if len(keys) == 0 {
		return b.Changes, nil
	}
	rows, err := tx.Query(ctx, sqlQueuedKeys, postgres.Args{"org": b.Run.OrgID, "keys": keys})
	if err != nil {
		return nil, err
	}
	queued, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	left := []Change{}
	for _, c := range b.Changes {
		if !slices.ContainsFunc(c.Outreach, func(o Outreach) bool { return slices.Contains(queued, o.Key) }) {
			left = append(left, c)
		}
	}
	return left, nil
}

func writeChanges(ctx context.Context, tx pgx.Tx, b Batch) (changed int, err error) {
	if len(b.Changes) == 0 {
		return 0, nil
	}
	transitions, moves := map[string]string{}, columns{}
	for _, c := range b.Changes {
		if len(c.Moves) == 0 {
			continue
		}
		m, id := c.Moves[0], newID()
		metadata, err := json.Marshal(m.Audit.Metadata)
		if err != nil {
			return 0, err
		}
		transitions[c.View.ProfileID] = id
		was := c.View.Person
		moves.add("profiles", c.View.ProfileID, "ids", id, "was", string(was.State), "newest", orNoID(c.View.TransitionID),
			"was_activity", was.LastActivityAt, "was_expires", postgres.NullIfZero(was.GoodbyeExpiresAt), "to", string(m.Person.State),
			"sent", postgres.NullIfZero(m.Person.GoodbyeSentAt), "triggers", string(m.Audit.Trigger),
			"metadata", string(metadata), "happened", m.Audit.At)
	}
	moved := map[string]bool{}
	if len(transitions) > 0 {
		rows, err := tx.Query(ctx, sqlMoveAll, moves.args(b))
		if err != nil {
			return 0, err
		}
		var id string
		if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { moved[id] = true; return nil }); err != nil {
			return 0, err
		}
	}
	return followAll(ctx, tx, b, transitions, moved)
}

// followAll writes what follows from the transitions of a batch, and what has no transition.
func followAll(ctx context.Context, tx pgx.Tx, b Batch, transitions map[string]string, moved map[string]bool) (int, error) {
	queued, told := columns{}, columns{}
	for _, c := range b.Changes {
		if len(c.Moves) > 0 && !moved[c.View.ProfileID] {
			continue
		}
		for _, o := range c.Outreach {
			params, err := json.Marshal(o.Params)
			if err != nil {
				return 0, err
			}
			queued.add("ids", newID(), "profiles", c.View.ProfileID, "keys", o.Key, "types", string(o.Type), "payloads", string(params),
				"due", o.DueAt, "transitions", orNoID(transitions[c.View.ProfileID]), "message_keys", o.MessageKey, "local_days", o.LocalDay,
				"expires", o.ExpiresAt)
		}
		for _, e := range c.Events {
			data, err := json.Marshal(e.Data)
			if err != nil {
				return 0, err
			}
			told.add("ids", newID(), "types", e.Type, "profiles", c.View.ProfileID, "happened", e.Time, "data", string(data))
		}
	}
	changed := len(moved)
	if len(queued) > 0 {
		n, err := queueAll(ctx, tx, b, queued)
		if err != nil {
			return 0, err
		}
		if len(transitions) == 0 {
			changed = n
		}
	}
	if len(told) > 0 {
		if _, err := tx.Exec(ctx, sqlTellAll, told.args(b)); err != nil {
			return 0, err
		}
	}
	return changed, nil
}

// queueAll queues outreach, sets the ids of the rows in the batch, and returns how many there are.
func queueAll(ctx context.Context, tx pgx.Tx, b Batch, queued columns) (int, error) {
	rows, err := tx.Query(ctx, sqlQueueAll, queued.args(b))
	if err != nil {
		return 0, err
	}
	ids := map[string]string{}
	var key, id string
	if _, err := pgx.ForEachRow(rows, []any{&key, &id}, func() error { ids[key] = id; return nil }); err != nil {
		return 0, err
	}
	for _, c := range b.Changes {
		for i, o := range c.Outreach {
			c.Outreach[i].ID = ids[o.Key]
		}
	}
	return len(ids), nil
}

// columns are the arguments of a statement over many rows, an array for each column.
type columns map[string][]any

// add adds a row: the names and values of its columns in turn.
func (c columns) add(row ...any) {
	for i := 0; i+1 < len(row); i += 2 {
		name, _ := row[i].(string)
		c[name] = append(c[name], row[i+1])
	}
}

func (c columns) args(b Batch) postgres.Args {
	args := postgres.Args{"org": b.Run.OrgID, "at": b.Now, "cause": "run:" + b.Run.ID}
	for name, values := range c {
		args[name] = values
	}
	return args
}

func orNoID(id string) any {
	if id == "" {
		return nil
	}
	return id
}
