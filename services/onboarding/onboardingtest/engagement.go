package onboardingtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// Did returns the report of an action that a person does now.
func (b *Bundle) Did(p people.Profile, action string, change ...func(*onboardingv1.ReportActionRequest)) *onboardingv1.ReportActionRequest {
	in := &onboardingv1.ReportActionRequest{
		ProfileId: p.ID, Action: action, OccurredAt: timestamppb.New(b.Clock.Now()), Source: "web", IdempotencyKey: NewID(),
	}
	for _, do := range change {
		do(in)
	}
	return in
}

// NLP makes a report one of an action that was read in a person's words.
func NLP(in *onboardingv1.ReportActionRequest) { in.Source = "nlp" }

// InCategory gives a reported expense a category.
func InCategory(category string) func(*onboardingv1.ReportActionRequest) {
	return func(in *onboardingv1.ReportActionRequest) { in.Attributes = map[string]string{"category": category} }
}

// Report reports an action as the host application.
func (b *Bundle) Report(in *onboardingv1.ReportActionRequest) (*onboardingv1.ReportActionResponse, error) {
	ctx := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "app", Role: rpc.RoleApp, OrgID: OrgID})
	return b.Current().People.ReportAction(ctx, in)
}

// Reports reports an action and asserts that it is counted for the first time.
func (b *Bundle) Reports(p people.Profile, action string, change ...func(*onboardingv1.ReportActionRequest)) *onboardingv1.ReportActionResponse {
	b.T.Helper()
	out, err := b.Report(b.Did(p, action, change...))
	require.NoError(b.T, err)
	require.False(b.T, out.GetDuplicate())
	return out
}

// Tier reports every action of a tier.
func (b *Bundle) Tier(p people.Profile, number int, change ...func(*onboardingv1.ReportActionRequest)) (last *onboardingv1.ReportActionResponse) {
	b.T.Helper()
	for _, action := range rules.DefaultConfig().Tiers[number-1] {
		last = b.Reports(p, action, change...)
	}
	return last
}

// Known enrols a person who has written once and has no session.
func (b *Bundle) Known() people.Profile {
	b.T.Helper()
	p := b.Person()
	b.Reply(p, "coffee 5")
	b.In(p, rules.Active)
	return p
}

// Standing moves a known person along triggers, as a run does that saw no open job for them.
func (b *Bundle) Standing(p people.Profile, triggers ...rules.Trigger) people.Profile {
	b.T.Helper()
	for _, trigger := range triggers {
		v := b.Engaged(p)
		v.Situation.OpenJob = false
		at := b.Clock.Now()
		m, err := rules.DefaultConfig().Limits.Decide(v.Person, v.Situation, rules.Event{Trigger: trigger, At: at, Now: at})
		require.NoError(b.T, err)
		c := engagement.Change{View: v, Cause: "run:" + NewID(), Moves: []rules.Move{m}, At: at}
		if m.Queue != "" {
			o := rules.Outreach{Type: m.Queue, At: at}
			c.Outreach = []engagement.Outreach{{
				Type: m.Queue, Key: o.Key(p.ID), MessageKey: catalog.Goodbye, LocalDay: rules.LocalDay(at, nil), DueAt: at, ExpiresAt: o.Expires(),
			}}
		}
		require.NoError(b.T, b.Store.Engagement().Apply(b.T.Context(), c))
	}
	return p
}

// GoodbyeQueued enrols a person who was silent for 14 days. Their goodbye waits in the queue.
func (b *Bundle) GoodbyeQueued() people.Profile {
	b.T.Helper()
	p := b.Known()
	b.Clock.Advance(14 * Day)
	return b.Standing(p, rules.Inactivity14d)
}

// Engaged reads the engagement of a person.
func (b *Bundle) Engaged(p people.Profile) engagement.View {
	b.T.Helper()
	v, err := b.Store.Engagement().Person(b.T.Context(), OrgID, p.Phone, "", NewID())
	require.NoError(b.T, err)
	return v
}

// In asserts the engagement state of a person.
func (b *Bundle) In(p people.Profile, state rules.State) engagement.View {
	b.T.Helper()
	v := b.Engaged(p)
	require.Equal(b.T, state, v.Person.State)
	return v
}

// Triggers lists the engagement transitions of a person, oldest first.
func (b *Bundle) Triggers(p people.Profile) []rules.Trigger {
	b.T.Helper()
	return List[rules.Trigger](b, `select trigger from engagement_state_transitions where profile_id = $1 order by id`, p.ID)
}

// Tells asserts the value of one field of all events of a type about a person.
func (b *Bundle) Tells(p people.Profile, kind, field string, want ...string) {
	b.T.Helper()
	require.Equal(b.T, append([]string{}, want...), List[string](b, `select data ->> $3 from event_outbox where subject = $1 and type = $2 order by id`, p.ID, kind, field))
}

// Outreach counts the outreach of a kind, status and outcome to a person.
func (b *Bundle) Outreach(p people.Profile, kind rules.MessageType, status, outcome string) int {
	b.T.Helper()
	return b.Count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = $2 and status = $3 and outcome = $4`,
		p.ID, string(kind), status, outcome)
}

// Sends works all outreach that is due.
func (b *Bundle) Sends() {
	b.T.Helper()
	_, err := b.Current().Outreach.Drain(b.T.Context())
	require.NoError(b.T, err)
}

// Prefers sets preferences of a person. A user calls as that person.
func (b *Bundle) Prefers(role rpc.Role, p people.Profile, change *onboardingv1.SetPreferencesRequest) (*onboardingv1.Preferences, error) {
	change.ProfileId = p.ID
	ctx := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: p.ID, Role: role, OrgID: OrgID})
	out, err := b.Current().People.SetPreferences(ctx, change)
	return out.GetPreferences(), err
}

// Switches sets reminders of a person, a second after the call before.
func (b *Bundle) Switches(role rpc.Role, p people.Profile, reminders string) error {
	b.Clock.Advance(time.Second)
	_, err := b.Prefers(role, p, &onboardingv1.SetPreferencesRequest{Reminders: reminders})
	return err
}

// Together puts people into one household.
func (b *Bundle) Together(all ...people.Profile) (household string) {
	b.T.Helper()
	household = NewID()
	for _, p := range all {
		require.NoError(b.T, b.Joins(p, household))
	}
	return household
}

// Joins puts a person into a household.
func (b *Bundle) Joins(p people.Profile, household string) error {
	ctx := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "app", Role: rpc.RoleApp, OrgID: OrgID})
	_, err := b.Current().People.SetHousehold(ctx, &onboardingv1.SetHouseholdRequest{ProfileId: p.ID, HouseholdId: household})
	return err
}

// Works does all the work that runs have now.
func (b *Bundle) Works() {
	b.T.Helper()
	Worked(b.T, b.Current())
}

// Worked does all the work that the runs of a process have now.
func Worked(t *testing.T, p *Running) {
	t.Helper()
	for range 20 {
		open, err := p.People.People.WorkRuns(t.Context(), OrgID, time.Minute)
		require.NoError(t, err)
		if !open {
			return
		}
	}
	t.Fatal("the runs do not end")
}

// OnDay sets the clock forward by days, to an hour of that day in UTC.
func (b *Bundle) OnDay(days, hour int) {
	b.T.Helper()
	now := b.Clock.Now()
	then := time.Date(now.Year(), now.Month(), now.Day()+days, hour, 0, 0, 0, time.UTC)
	b.Clock.Advance(then.Sub(now))
}
