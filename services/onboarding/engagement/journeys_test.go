package engagement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

// journey is the acts of a person on the days after their first message, and their state after thirty.
type journey struct {
	name  string
	does  map[int]func(b *bundle, p people.Profile)
	ends  rules.State
	moves []rules.Trigger     // after the first message
	gets  []rules.MessageType // in their order
}

func says(words string) func(b *bundle, p people.Profile) {
	return func(b *bundle, p people.Profile) { b.Reply(p, words) }
}

// TestJourneys plays thirty days, with the runs of each and all that they send.
func TestJourneys(t *testing.T) {
	t.Parallel()
	always := map[int]func(b *bundle, p people.Profile){}
	for day := 2; day <= 30; day += 2 {
		always[day] = says("coffee 5")
	}
	const welcome, weekly = rules.Welcome, rules.WeeklyReview
	for _, j := range []journey{
		{
			name: "S4_78_WhoKeepsWritingStaysActive", does: always, ends: rules.Active,
			gets: []rules.MessageType{welcome, weekly, weekly, weekly, weekly},
		},
		// Also: S4-09, S4-14, S4-17.
		{
			name: "S4_78_WhoAsksForHelpBeginsAgain", ends: rules.Active,
			does:  map[int]func(b *bundle, p people.Profile){15: says("1"), 20: says("lunch 12")},
			moves: []rules.Trigger{rules.Inactivity14d, rules.GoodbyeResponse1, rules.UserMessage},
			gets:  []rules.MessageType{welcome, weekly, rules.Goodbye, rules.HelpRestart, weekly, weekly},
		},
		{
			name: "S4_78_WhoIsBusyIsRemindedOnceAndThenLeftAlone", does: map[int]func(b *bundle, p people.Profile){15: says("2")}, ends: rules.Dormant,
			moves: []rules.Trigger{rules.Inactivity14d, rules.GoodbyeResponse2, rules.ReminderDue},
			gets:  []rules.MessageType{welcome, weekly, rules.Goodbye, rules.Reminder},
		},
		// Also: S4-19.
		{
			name: "S4_78_WhoSaysNothingIsLeftAlone", ends: rules.Dormant,
			moves: []rules.Trigger{rules.Inactivity14d, rules.GoodbyeTimeout},
			gets:  []rules.MessageType{welcome, weekly, rules.Goodbye},
		},
		{
			name: "S4_78_WhoWantsNoRemindersGetsNone", ends: rules.Active,
			does: map[int]func(b *bundle, p people.Profile){0: func(b *bundle, p people.Profile) {
				require.NoError(b.T, b.Switches(rpc.RoleUser, p, "off"))
			}},
			gets: []rules.MessageType{welcome},
		},
	} {
		onboardingtest.Subtest(t, j.name, runsToday, func(t *testing.T, b *bundle) {
			p := b.Known()
			for day := range 31 {
				if day > 0 {
					b.OnDay(1, 10)
				}
				b.Works()
				b.Sends()
				if do := j.does[day]; do != nil {
					do(b, p)
				}
				b.Sends()
			}
			b.In(p, j.ends)
			require.Equal(t, append([]rules.Trigger{rules.UserMessage}, j.moves...), b.Triggers(p))
			require.Equal(t, j.gets, onboardingtest.List[rules.MessageType](b.Bundle, `select event_type from engagement_outreach
				where profile_id = $1 and outcome = 'sent' order by sent_at, id`, p.ID))
			require.Zero(t, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and status in ('pending', 'processing')`, p.ID))
		})
	}
}
