package engagement_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

// crowd is people who stand anywhere around the boundaries of the daily run that is due now; the same for the same seed.
func (b *bundle) crowd(seed uint64, size int) []people.Profile {
	b.T.Helper()
	chance := rand.New(rand.NewPCG(seed, 1))
	people := make([]people.Profile, size)
	for i := range people {
		people[i] = b.Known()
	}
	b.OnDay(16, 6)
	nominal := b.Clock.Now()
	b.Clock.Advance(30 * time.Minute)
	one := func(of ...time.Duration) time.Duration { return of[chance.IntN(len(of))] }
	const moment = time.Microsecond
	for _, p := range people {
		b.Exec(`update profiles set time_zone = $2 where id = $1`, p.ID, []string{"UTC", "America/Sao_Paulo", "Pacific/Auckland"}[chance.IntN(3)])
		const stands = `update user_engagement_states set state = $2, last_activity_at = $3, goodbye_sent_at = $4, goodbye_expires_at = $5, remind_at = $6
			where profile_id = $1`
		last := nominal.Add(-14*onboardingtest.Day + one(0, moment, -moment, -onboardingtest.Day, onboardingtest.Day, 14*onboardingtest.Day))
		switch chance.IntN(6) {
		case 0:
			b.Exec(stands, p.ID, "goodbye_sent", last, nominal.Add(-3*onboardingtest.Day), nominal.Add(one(0, moment, -moment, -onboardingtest.Day, onboardingtest.Day)), nil)
		case 1: // that was not accepted, or not yet
			b.Standing(p, rules.Inactivity14d)
			if chance.IntN(2) == 0 {
				b.Exec(`update engagement_outreach set status = 'failed', outcome = 'rejected', next_retry_at = null, processed_at = $2
					where profile_id = $1 and event_type = 'goodbye'`, p.ID, b.Clock.Now())
			}
		case 2:
			b.Exec(stands, p.ID, "remind_later", last, nil, nil, nominal.Add(one(0, moment, -moment, -onboardingtest.Day, onboardingtest.Day)))
		case 3:
			b.Exec(stands, p.ID, []string{"help_flow", "dormant"}[chance.IntN(2)], last, nil, nil, nil)
		default:
			b.Exec(stands, p.ID, "active", last, nil, nil, nil)
		}
		switch chance.IntN(9) {
		case 0:
			b.Exec(`update profiles set opted_out_at = $2 where id = $1`, p.ID, nominal)
		case 1:
			b.Exec(`update profiles set reengagement_opt_out = true where id = $1`, p.ID)
		case 2:
			b.Hold(p)
		case 3:
			b.Activate(p)
		case 4:
			b.Unrecorded(p, "coffee 5")
		}
	}
	return people
}

// decides does what the rules say a daily run does for a person, with no other person and no other code of runs.
func (b *bundle) decides(p people.Profile, trigger rules.Trigger, nominal time.Time) {
	b.T.Helper()
	v, err := b.Store.Engagement().PersonByID(b.T.Context(), onboardingtest.OrgID, p.ID, "")
	require.NoError(b.T, err)
	now := b.Clock.Now()
	m, err := rules.DefaultConfig().Limits.Decide(v.Person, v.Situation, rules.Event{Trigger: trigger, At: nominal, Now: now})
	if err != nil {
		return
	}
	c := engagement.Change{View: v, Cause: "run:" + onboardingtest.NewID(), Moves: []rules.Move{m}, At: now}
	if m.Queue != "" {
		able := rules.Candidate{OptedOut: v.OptedOut, Held: v.Hold, RemindersOff: v.RemindersOff, Session: v.Session, Mode: v.Mode}
		o := rules.Outreach{Type: m.Queue, At: nominal, Zone: v.Zone}
		due, late := o.SendAt(now)
		unwanted := able.Eligible(m.Queue) != "" || late != ""
		if unwanted && m.Queue == rules.Goodbye {
			return
		}
		if !unwanted {
			c.Outreach = []engagement.Outreach{{
				Type: m.Queue, Key: o.Key(p.ID), DueAt: due, LocalDay: rules.LocalDay(nominal, v.Zone), ExpiresAt: o.Expires(),
				MessageKey: map[rules.MessageType]string{rules.Goodbye: catalog.Goodbye, rules.Reminder: catalog.Reminder}[m.Queue],
			}}
		}
	}
	require.NoError(b.T, b.Store.Engagement().Apply(b.T.Context(), c))
}

// written reads the state of a person, with their audit and what is queued for them, without what differs between two databases.
func (b *bundle) written(p people.Profile) []string {
	b.T.Helper()
	all := onboardingtest.List[string](b.Bundle, `select concat_ws(' ', state, last_activity_at, goodbye_sent_at, goodbye_expires_at, remind_at)
		from user_engagement_states where profile_id = $1`, p.ID)
	all = append(all, onboardingtest.List[string](b.Bundle, `select concat_ws(' ', from_state, to_state, trigger, created_at, metadata, supersedes is null)
		from engagement_state_transitions where profile_id = $1 order by id`, p.ID)...)
	all = append(all, onboardingtest.List[string](b.Bundle, `select concat_ws(' ', o.idempotency_key, o.status, o.outcome, o.priority, o.subject, o.payload, o.message_key,
		o.destination, o.local_day, o.scheduled_for, o.next_retry_at, o.expires_at, o.created_at, t.trigger)
		from engagement_outreach o left join engagement_state_transitions t on t.id = o.transition_id
		where o.profile_id = $1 and o.event_type in ('goodbye', 'reminder') order by o.idempotency_key`, p.ID)...)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], p.ID, "the person")
	}
	return all
}

// TestRunIsTheRules: the statements of a run over hundreds of people do to each what the rules do to that person alone.
func TestRunIsTheRules(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "DailyRunDoesWhatTheRulesDoOneByOne", runsToday, func(t *testing.T, b *bundle) {
		const size = 60
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		alone := runsToday(t)
		together, each := b.crowd(seed, size), alone.crowd(seed, size)
		b.Works()
		nominal := rules.DefaultConfig().Newest(rules.Daily, alone.Clock.Now()).Nominal
		for _, trigger := range []rules.Trigger{rules.ReminderDue, rules.GoodbyeTimeout, rules.Inactivity14d} {
			for _, p := range each {
				alone.decides(p, trigger, nominal)
			}
		}
		moved := 0
		for i := range together {
			got := b.written(together[i])
			require.Equal(t, alone.written(each[i]), got, "person %d", i)
			if len(b.Triggers(together[i])) > 1 {
				moved++
			}
		}
		require.Positive(t, moved)
	})
}
