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

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// ChannelOutreach is the channel of notifications that there is outreach to send.
const ChannelOutreach = "engagement_outreach"

// Store keeps people's states, what they prefer, and what follows from a change.
type Store struct {
	pool     postgres.DB
	hot      *postgres.Combiner
	outreach *queue.Queue
}

// NewStore returns a store on an open pool; hot combines the statements that every text of a person makes.
func NewStore(pool postgres.DB, hot *postgres.Combiner) *Store {
	return &Store{pool: pool, hot: hot, outreach: outreachQueue(pool)}
}

// sqlPerson is of a k, which has the org, the cause and the job. The goodbye of the person's episode is every row of the newest goodbye,
// one for each phone that it goes to: never claimed is one that has no text yet, and ended one that is final and was not accepted. Without
// a row it offered nothing.
const sqlPerson = `
select p.id as profile_id, p.first_name, p.locale, p.time_zone, ` + people.SQLUsualZone + ` as usual_zone, p.hold, p.hold_version,
       p.reengagement_opt_out, p.onboarding_tips_enabled, p.opted_out_at is not null as opted_out, p.preferred_destination,
       p.destination_chosen_at is not null as destination_chosen, p.phone, p.created_at as signed_up_at,
       p.onboarding_tier_progress::text as progress, p.expense_count, p.magic_moment_at, coalesce(h.household_id::text, '') as household_id,
       exists (select from household_members m join household_members o on o.org_id = m.org_id and o.household_id = m.household_id
               where m.profile_id = p.id and o.profile_id <> p.id) as in_household,
       coalesce(u.state, '') as state, u.last_activity_at, u.goodbye_sent_at, u.goodbye_expires_at, u.remind_at,
       coalesce(u.transition_id::text, '') as transition_id,
       coalesce(t.trigger, '') as newest_trigger, t.created_at as newest_at, coalesce(t.metadata, '{}') as newest_metadata,
       coalesce(g.unsent, u.goodbye_expires_at is null) as goodbye_unsent, coalesce(g.ended, u.goodbye_expires_at is null) as goodbye_ended,
       exists (select from webhook_jobs j where j.org_id = p.org_id and j.subject = p.phone and j.status in ('pending', 'processing')
               and j.subject <> '' and j.id <> k.job) as open_job,
       coalesce(c.status, '') as session_status, coalesce(c.mode, '') as session_mode, coalesce(c.next_step_id, '') as step,
       array(select d.trigger from engagement_state_transitions d where d.profile_id = p.id and d.cause = k.cause order by d.id) as done,
       coalesce(a.action, '') as acted, coalesce(a.answer, '{}') as answer
from profiles p
left join household_members h on h.profile_id = p.id
left join engagement_actions a on a.profile_id = p.id and a.cause = k.cause
left join user_engagement_states u on u.profile_id = p.id
left join engagement_state_transitions t on t.id = u.transition_id
left join lateral (select s.status, s.mode, s.next_step_id from conversation_sessions s where s.profile_id = p.id
    order by s.status = 'active' desc, s.id desc limit 1) c on true
left join lateral (select bool_and(o.body is null and o.status <> 'processing') as unsent,
        bool_and(o.status in ('completed', 'failed', 'cancelled') and o.outcome <> 'sent') as ended
    from engagement_outreach o where o.org_id = p.org_id and o.profile_id = p.id and o.event_type = 'goodbye'
        and o.created_at >= u.goodbye_sent_at) g on true
where p.org_id = k.org and `

const (
	sqlPersonByPhone = sqlAskers + sqlPerson + `p.phone = k.phone limit 1) v`
	sqlPersonByID    = sqlAskers + sqlPerson + `p.id = k.profile limit 1) v`
	// The limits keep each person looked up by themselves.
	sqlAskers = `
select k.n, v.*
from unnest(@org::uuid[], @phone::text[], @profile::uuid[], @cause::text[], @job::uuid[]) with ordinality
    as k (org, phone, profile, cause, job, n)
cross join lateral (`
)

type personRow struct {
	ProfileID             string
	FirstName             string
	Locale                string
	TimeZone              string
	UsualZone             string
	Hold                  bool
	HoldVersion           int64
	ReengagementOptOut    bool
	OnboardingTipsEnabled bool
	OptedOut              bool
	PreferredDestination  string
	DestinationChosen     bool
	Phone                 string
	SignedUpAt            time.Time
	Progress              string
	ExpenseCount          int
	MagicMomentAt         *time.Time
	HouseholdID           string
	InHousehold           bool
	State                 string
	LastActivityAt        *time.Time
	GoodbyeSentAt         *time.Time
	GoodbyeExpiresAt      *time.Time
	RemindAt              *time.Time
	TransitionID          string
	NewestTrigger         string
	NewestAt              *time.Time
	NewestMetadata        []byte
	GoodbyeUnsent         bool
	GoodbyeEnded          bool
	OpenJob               bool
	SessionStatus         string
	SessionMode           string
	Step                  string
	Done                  []string
	Acted                 string
	Answer                []byte
}

// Person reads a person by their phone, with what a cause has done already, in one statement. jobID is the job that asks; other open jobs
// of the phone are messages that wait. ErrNoPerson.
func (s *Store) Person(ctx context.Context, orgID, phone, cause, jobID string) (View, error) {
	return s.person(ctx, sqlPersonByPhone, postgres.Args{"org": orgID, "phone": phone, "cause": cause, "job": jobID, "profile": nil})
}

// PersonByID is Person of a profile, asked by no job.
func (s *Store) PersonByID(ctx context.Context, orgID, profileID, cause string) (View, error) {
	return s.person(ctx, sqlPersonByID, postgres.Args{
		"org": orgID, "profile": profileID, "cause": cause, "job": uuid.Nil.String(), "phone": nil,
	})
}

func (s *Store) person(ctx context.Context, sql string, args postgres.Args) (View, error) {
	var found int
	var r personRow
	of, _ := args["profile"].(string)
	if of == "" {
		of, _ = args["phone"].(string)
	}
	err := s.hot.Do(ctx, of, postgres.Statement{SQL: sql, Args: args, Rows: &found, Read: func(row pgx.CollectableRow) (err error) {
		r, err = pgx.RowToStructByName[personRow](row)
		return err
	}})
	if err != nil {
		return View{}, fmt.Errorf("read a person's engagement: %w", err)
	}
	if found == 0 {
		return View{}, ErrNoPerson
	}
	orgID, _ := args["org"].(string)
	return r.view(orgID)
}

func (r personRow) view(orgID string) (View, error) {
	var newest rules.Metadata
	if err := json.Unmarshal(r.NewestMetadata, &newest); err != nil {
		return View{}, fmt.Errorf("read the metadata of a transition: %w", err)
	}
	var progress rules.Progress
	if err := json.Unmarshal([]byte(r.Progress), &progress); err != nil {
		return View{}, fmt.Errorf("read a person's progress: %w", err)
	}
	var acted *Acted
	if r.Acted != "" {
		acted = &Acted{Action: r.Acted}
		if err := json.Unmarshal(r.Answer, &acted.Answer); err != nil {
			return View{}, fmt.Errorf("read the answer to an action: %w", err)
		}
	}
	zones := people.Zones(r.TimeZone, r.Phone, r.UsualZone)
	zone := zones[0]
	if r.TimeZone == "" && len(zones) > 1 { // days are counted by the organisation's clock
		zone, _ = hours.Stored(r.UsualZone)
	}
	v := View{
		OrgID: orgID, ProfileID: r.ProfileID, Phone: r.Phone, FirstName: r.FirstName, Locale: r.Locale, Zone: zone, Zones: zones,
		Hold: r.Hold, HoldVersion: r.HoldVersion, RemindersOff: r.ReengagementOptOut, TipsOff: !r.OnboardingTipsEnabled, OptedOut: r.OptedOut,
		Destination: rules.Destination(r.PreferredDestination), DestinationChosen: r.DestinationChosen, HouseholdID: r.HouseholdID,
		InHousehold: r.InHousehold, SignedUpAt: r.SignedUpAt, Progress: progress, ProgressRead: r.Progress, Expenses: r.ExpenseCount,
		MagicAt: postgres.TimeOf(r.MagicMomentAt), Acted: acted,
		Known: r.State != "", TransitionID: r.TransitionID,
		Person: rules.Person{
			State: rules.State(r.State), LastActivityAt: postgres.TimeOf(r.LastActivityAt), GoodbyeSentAt: postgres.TimeOf(r.GoodbyeSentAt),
			GoodbyeExpiresAt: postgres.TimeOf(r.GoodbyeExpiresAt), RemindAt: postgres.TimeOf(r.RemindAt),
		},
		Situation: rules.Situation{
			Newest: rules.Past{
				Trigger: rules.Trigger(r.NewestTrigger), At: postgres.TimeOf(r.NewestAt), GoodbyeSentAt: postgres.TimeOf(newest.GoodbyeSentAt),
				GoodbyeExpiresAt: postgres.TimeOf(newest.GoodbyeExpiresAt),
			},
			OpenJob: r.OpenJob, GoodbyeUnsent: r.GoodbyeUnsent, GoodbyeEnded: r.GoodbyeEnded,
		},
		Session: session.Status(r.SessionStatus), Mode: session.Mode(r.SessionMode), Step: session.StepID(r.Step),
	}
	for _, trigger := range r.Done {
		v.Done = append(v.Done, rules.Trigger(trigger))
	}
	return v, nil
}

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
// the events. conversation.ErrConflict when the person has moved or the cause has made a transition already; then nothing has happened.
func (s *Store) Apply(ctx context.Context, c Change) error {
	var last rules.Move
	if len(c.Moves) > 0 {
		last = c.Moves[len(c.Moves)-1]
	}
	args := postgres.Args{
		"org": c.View.OrgID, "profile": c.View.ProfileID, "newest": c.View.TransitionID, "was": string(c.View.Person.State),
		"was_activity": postgres.NullIfZero(c.View.Person.LastActivityAt), "was_sent": postgres.NullIfZero(c.View.Person.GoodbyeSentAt),
		"was_expires": postgres.NullIfZero(c.View.Person.GoodbyeExpiresAt), "was_remind": postgres.NullIfZero(c.View.Person.RemindAt), "to": string(last.Person.State),
		"activity": last.Person.LastActivityAt, "sent": postgres.NullIfZero(last.Person.GoodbyeSentAt), "expires": postgres.NullIfZero(last.Person.GoodbyeExpiresAt),
		"remind": postgres.NullIfZero(last.Person.RemindAt), "at": c.At, "withdraw": withdrawn(c.Moves), "cause": c.Cause,
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

// begin is Apply of a change that onlyBegins, which is what the first message of a person comes to, in a transaction that others may share.
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

// wrapUnlessConflict says what failed, where it was no guard.
func wrapUnlessConflict(doing string, err error) error {
	if err == nil || errors.Is(err, conversation.ErrConflict) {
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
		return conversation.ErrConflict
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

// guard queues a guarded statement: conversation.ErrConflict when its guard does not hold.
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
