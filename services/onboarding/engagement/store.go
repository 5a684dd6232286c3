package engagement

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
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
       exists (select from tickets i where i.profile_id = p.id and i.status <> 'closed'
               and not ` + people.SQLUnattended + `) as ticket,
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
       ` + people.SQLEngagement + ` as decided,
       ` + people.SQLEngagementTexts + ` as texts,
       coalesce(a.action, '') as acted, coalesce(a.source, '') as acted_source, coalesce(a.category, '') as acted_category,
       a.occurred_at as acted_at, coalesce(a.answer, '{}') as answer
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
	Ticket                bool
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
	Decided               []byte
	Texts                 []byte
	Acted                 string
	ActedSource           string
	ActedCategory         string
	ActedAt               *time.Time
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
		acted = &Acted{
			Action: r.Acted, Source: rules.Source(r.ActedSource), Category: r.ActedCategory, OccurredAt: postgres.TimeOf(r.ActedAt),
		}
		if err := json.Unmarshal(r.Answer, &acted.Answer); err != nil {
			return View{}, fmt.Errorf("read the answer to an action: %w", err)
		}
	}
	decided, laterRules := people.ReadEngagement(r.Decided)
	zones := people.Zones(r.TimeZone, r.Phone, r.UsualZone)
	zone := zones[0]
	if r.TimeZone == "" && len(zones) > 1 { // days are counted by the organisation's clock
		zone, _ = hours.Stored(r.UsualZone)
	}
	v := View{
		OrgID: orgID, ProfileID: r.ProfileID, Phone: r.Phone, FirstName: r.FirstName, Locale: r.Locale, Zone: zone, Zones: zones,
		Hold: r.Hold, Ticket: r.Ticket, HoldVersion: r.HoldVersion,
		RemindersOff: r.ReengagementOptOut, TipsOff: !r.OnboardingTipsEnabled, OptedOut: r.OptedOut,
		Destination: rules.Destination(r.PreferredDestination), DestinationChosen: r.DestinationChosen, HouseholdID: r.HouseholdID,
		InHousehold: r.InHousehold, SignedUpAt: r.SignedUpAt, Progress: progress, ProgressRead: r.Progress, Expenses: r.ExpenseCount,
		MagicAt: postgres.TimeOf(r.MagicMomentAt), Acted: acted, Decided: decided, Texts: r.Texts, LaterRules: laterRules,
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
