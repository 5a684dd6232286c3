package rules_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/engagement/rules"
)

func decide(t *testing.T, p rules.Person, s rules.Situation, trigger rules.Trigger, at time.Time) rules.Move {
	t.Helper()
	m, err := limits.Decide(p, s, rules.Event{Trigger: trigger, At: at, Now: at.Add(time.Minute)})
	require.NoError(t, err)
	return m
}

func refused(t *testing.T, p rules.Person, s rules.Situation, trigger rules.Trigger, at time.Time, why error) {
	t.Helper()
	m, err := limits.Decide(p, s, rules.Event{Trigger: trigger, At: at, Now: at})
	require.ErrorIs(t, err, why)
	require.Zero(t, m)
}

// left is a person who was sent a goodbye that Twilio accepted at start.
func left() rules.Person {
	return rules.Person{
		State: rules.GoodbyeSent, LastActivityAt: start.Add(-14 * day), GoodbyeSentAt: start.Add(-time.Hour), GoodbyeExpiresAt: start.Add(48 * time.Hour),
	}
}

func TestS4_39_TheFirstMessageBeginsTheRow(t *testing.T) {
	t.Parallel()
	m, err := rules.Begin(rules.Event{Trigger: rules.UserMessage, At: start, Now: start.Add(time.Second)})
	require.NoError(t, err)
	require.Equal(t, rules.Person{State: rules.Active, LastActivityAt: start}, m.Person)
	require.Equal(t, rules.Audit{To: rules.Active, Trigger: rules.UserMessage, At: start, Metadata: rules.Metadata{TriggerSource: "user_message"}}, *m.Audit)
	for _, trigger := range rules.Triggers()[1:] {
		m, err := rules.Begin(rules.Event{Trigger: trigger, At: start})
		require.ErrorIs(t, err, rules.ErrNoRow)
		require.Zero(t, m)
	}
}

func TestS4_59_TheBoundaryIsEnough(t *testing.T) {
	t.Parallel()
	active := rules.Person{State: rules.Active, LastActivityAt: start}
	refused(t, active, rules.Situation{}, rules.Inactivity14d, start.Add(13*day), rules.ErrTooEarly)
	refused(t, active, rules.Situation{}, rules.Inactivity14d, start.Add(14*day-1), rules.ErrTooEarly)
	for _, after := range []time.Duration{14 * day, 15 * day} {
		m := decide(t, active, rules.Situation{}, rules.Inactivity14d, start.Add(after))
		require.Equal(t, rules.GoodbyeSent, m.Person.State)
		require.Equal(t, int(after/day), m.Audit.Metadata.DaysInactive)
	}

	refused(t, left(), rules.Situation{}, rules.GoodbyeTimeout, start.Add(47*time.Hour), rules.ErrTooEarly)
	refused(t, left(), rules.Situation{}, rules.GoodbyeTimeout, start.Add(48*time.Hour-1), rules.ErrTooEarly)
	require.Equal(t, rules.Dormant, decide(t, left(), rules.Situation{}, rules.GoodbyeTimeout, start.Add(48*time.Hour)).Person.State)

	later := rules.Person{State: rules.RemindLater, LastActivityAt: start, RemindAt: start.Add(14 * day)}
	refused(t, later, rules.Situation{}, rules.ReminderDue, start.Add(14*day-1), rules.ErrTooEarly)
	require.Equal(t, rules.Dormant, decide(t, later, rules.Situation{}, rules.ReminderDue, start.Add(14*day)).Person.State)
}

func TestAGoodbyeExpiresOnlyAfterItsAcceptance(t *testing.T) {
	t.Parallel()
	active := rules.Person{State: rules.Active, LastActivityAt: start.Add(-20 * day)}
	m, err := limits.Decide(active, rules.Situation{}, rules.Event{Trigger: rules.Inactivity14d, At: start, Now: start.Add(time.Minute)})
	require.NoError(t, err)
	require.Equal(t, rules.Person{
		State: rules.GoodbyeSent, LastActivityAt: active.LastActivityAt, GoodbyeSentAt: start.Add(time.Minute),
	}, m.Person, "nothing expires yet")
	require.Equal(t, rules.Goodbye, m.Queue)
	require.Empty(t, m.Withdraw)
	require.Equal(t, rules.Metadata{TriggerSource: "scheduler", DaysInactive: 20}, m.Audit.Metadata)
	refused(t, m.Person, rules.Situation{}, rules.GoodbyeTimeout, start.Add(30*day), rules.ErrInFlight)
}

func TestSilenceEndsTheGoodbyeSilently(t *testing.T) {
	t.Parallel()
	m := decide(t, left(), rules.Situation{}, rules.GoodbyeTimeout, start.Add(50*time.Hour))
	require.Equal(t, rules.Person{State: rules.Dormant, LastActivityAt: left().LastActivityAt}, m.Person)
	require.Empty(t, m.Queue)
	metadata, err := json.Marshal(m.Audit.Metadata)
	require.NoError(t, err)
	require.JSONEq(t, `{"trigger_source": "scheduler", "days_inactive": 16, "response_type": "timeout", "hours_waited": 50, "accepted": true,
		"goodbye_sent_at": "2026-11-16T11:00:00Z", "goodbye_expires_at": "2026-11-18T12:00:00Z"}`, string(metadata))

	never := left()
	never.GoodbyeExpiresAt = time.Time{}
	m = decide(t, never, rules.Situation{GoodbyeEnded: true}, rules.GoodbyeTimeout, start)
	require.Equal(t, rules.Dormant, m.Person.State, "it was rejected, refused or it expired")
	require.False(t, *m.Audit.Metadata.Accepted)
	require.Equal(t, 1, *m.Audit.Metadata.HoursWaited)
	_, taken := rules.Choosable(m.Person, rules.Situation{Newest: rules.Past{Trigger: rules.GoodbyeTimeout, At: start, GoodbyeSentAt: never.GoodbyeSentAt}}, start)
	require.False(t, taken, "there was never a choice")
}

// What a run decided is not done while a message of the person waits to be worked.
func TestAMessageThatIsBeingWorkedComesFirst(t *testing.T) {
	t.Parallel()
	open := rules.Situation{OpenJob: true, GoodbyeEnded: true}
	refused(t, rules.Person{State: rules.Active, LastActivityAt: start}, open, rules.Inactivity14d, start.Add(20*day), rules.ErrOpenJob)
	refused(t, left(), open, rules.GoodbyeTimeout, start.Add(20*day), rules.ErrOpenJob)
	refused(t, rules.Person{State: rules.RemindLater}, open, rules.ReminderDue, start.Add(20*day), rules.ErrOpenJob)
	returned := decide(t, left(), rules.Situation{OpenJob: true, GoodbyeUnsent: true}, rules.UserMessage, start)
	require.Equal(t, rules.Person{State: rules.Active, LastActivityAt: start}, returned.Person)
	require.Equal(t, []rules.MessageType{rules.Goodbye, rules.Reminder}, returned.Withdraw)
	refused(t, returned.Person, rules.Situation{}, rules.Inactivity14d, start.Add(14*day-1), rules.ErrTooEarly)
}

func TestEachChoiceLeadsWhereItSays(t *testing.T) {
	t.Parallel()
	at := start.Add(25 * time.Hour)
	for _, tt := range []struct {
		name     string
		choice   rules.Choice
		states   []rules.State
		queue    rules.MessageType
		remindAt time.Time
		response rules.Response
	}{
		{name: "ConfusedBeginsAgain", choice: rules.ChoiceConfused, states: []rules.State{rules.HelpFlow, rules.Active}, queue: rules.HelpRestart, response: "confused"},
		{name: "BusyIsRemindedIn14Days", choice: rules.ChoiceBusy, states: []rules.State{rules.RemindLater}, remindAt: at.Add(14 * day), response: "busy"},
		{name: "AllGoodIsLeftAlone", choice: rules.ChoiceAllGood, states: []rules.State{rules.Dormant}, response: "all_good"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			moves, choice, err := limits.Answer(left(), rules.Situation{}, tt.choice, at, at.Add(time.Second))
			require.NoError(t, err)
			require.Equal(t, tt.choice, choice)
			require.Len(t, moves, len(tt.states))
			for i, m := range moves {
				require.Equal(t, tt.states[i], m.Person.State)
				require.Equal(t, at, m.Person.LastActivityAt)
				require.Equal(t, i == 0 && tt.choice == rules.ChoiceConfused, m.ResetProgress)
			}
			first := moves[0]
			require.Equal(t, tt.queue, first.Queue)
			require.Equal(t, tt.remindAt, first.Person.RemindAt)
			require.Equal(t, tt.response, first.Audit.Metadata.ResponseType)
			require.Equal(t, 1, *first.Audit.Metadata.DaysSinceGoodbye)
			require.Equal(t, 15, first.Audit.Metadata.DaysInactive)
			require.Equal(t, "user_message", first.Audit.Metadata.TriggerSource)
			require.Empty(t, first.Audit.Metadata.Supersedes)
		})
	}
}

func TestAnOrdinaryMessageBringsThePersonBack(t *testing.T) {
	t.Parallel()
	at := start.Add(time.Hour)
	moves, choice, err := limits.Answer(left(), rules.Situation{}, rules.NoChoice, at, at)
	require.NoError(t, err)
	require.Equal(t, rules.NoChoice, choice, "the conversation answers it")
	require.Len(t, moves, 1)
	require.Equal(t, rules.Person{State: rules.Active, LastActivityAt: at}, moves[0].Person)
	for _, p := range []rules.Person{
		{State: rules.HelpFlow}, {State: rules.RemindLater, RemindAt: start.Add(day)}, {State: rules.Dormant}, {State: rules.Active},
	} {
		moves, choice, err = limits.Answer(p, rules.Situation{}, rules.ChoiceBusy, at, at)
		require.NoError(t, err)
		require.Equal(t, rules.NoChoice, choice, "no choice is asked for in %s", p.State)
		require.Equal(t, rules.Person{State: rules.Active, LastActivityAt: at}, moves[0].Person)
		require.Equal(t, p.State == rules.Active, moves[0].Audit == nil, "an active person who writes makes no transition")
		require.Empty(t, moves[0].Queue, "a return sends nothing")
	}
}

func TestS4_44_AReturnAfterThreeDaysIsUnprompted(t *testing.T) {
	t.Parallel()
	chosen := start.Add(5 * time.Hour)
	dormant := rules.Person{State: rules.Dormant, LastActivityAt: start}
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{2 * day, false}, {3*day - 1, false}, {3 * day, true}, {30 * day, true}} {
		m := decide(t, dormant, rules.Situation{}, rules.UserMessage, start.Add(tt.after))
		require.Equal(t, tt.want, m.Audit.Metadata.UnpromptedReturn, "%s", tt.after)
		require.Equal(t, int(tt.after/day), m.Audit.Metadata.DaysInactive)
		m = decide(t, dormant, rules.Situation{Newest: rules.Past{Trigger: rules.ReminderDue, At: chosen}}, rules.UserMessage, chosen.Add(tt.after))
		require.Equal(t, tt.want, m.Audit.Metadata.UnpromptedReturn, "counted from when they became dormant")
	}
	m := decide(t, rules.Person{State: rules.Active, LastActivityAt: start}, rules.Situation{}, rules.UserMessage, start.Add(10*day))
	require.Nil(t, m.Audit)
	m = decide(t, left(), rules.Situation{}, rules.UserMessage, start.Add(10*day))
	require.False(t, m.Audit.Metadata.UnpromptedReturn)
}

// A message may be decided after the timeout that it came before.
func TestAChoiceInTimeSupersedesTheTimeout(t *testing.T) {
	t.Parallel()
	timeout := decide(t, left(), rules.Situation{}, rules.GoodbyeTimeout, start.Add(48*time.Hour))
	newest := rules.Past{
		Trigger: timeout.Audit.Trigger, At: timeout.Audit.At,
		GoodbyeSentAt: *timeout.Audit.Metadata.GoodbyeSentAt, GoodbyeExpiresAt: *timeout.Audit.Metadata.GoodbyeExpiresAt,
	}
	now := start.Add(50 * time.Hour)
	for _, tt := range []struct {
		name  string
		at    time.Time
		past  rules.Past
		taken bool
	}{
		{name: "TheLastMomentIsInTime", at: start.Add(48*time.Hour - 1), past: newest, taken: true},
		{name: "TheEndIsTooLate", at: start.Add(48 * time.Hour), past: newest},
		{name: "OlderThanTheGoodbye", at: start.Add(-2 * time.Hour), past: newest},
		{name: "AfterAChoiceNothingIsReopened", at: start.Add(time.Hour), past: rules.Past{Trigger: rules.GoodbyeResponse3, At: start}},
		{name: "AfterTheReminderNothingIsReopened", at: start.Add(time.Hour), past: rules.Past{Trigger: rules.ReminderDue, At: start}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			moves, choice, err := limits.Answer(timeout.Person, rules.Situation{Newest: tt.past}, rules.ChoiceBusy, tt.at, now)
			require.NoError(t, err)
			if !tt.taken {
				require.Equal(t, rules.NoChoice, choice)
				require.Equal(t, rules.Active, moves[0].Person.State)
				return
			}
			require.Equal(t, rules.RemindLater, moves[0].Person.State)
			a := moves[0].Audit
			require.Equal(t, []any{rules.GoodbyeSent, rules.GoodbyeTimeout}, []any{a.From, a.Metadata.Supersedes})
			require.Equal(t, 2, *a.Metadata.DaysSinceGoodbye)
		})
	}
}

// A message and a goodbye may cross: the person is active, and has been asked.
func TestChoicesOfACrossedGoodbyeAreHonoured(t *testing.T) {
	t.Parallel()
	flying := left()
	flying.GoodbyeExpiresAt = time.Time{}
	crossed := decide(t, flying, rules.Situation{}, rules.UserMessage, start.Add(-time.Minute)).Person
	require.Equal(t, rules.Active, crossed.State)
	require.Equal(t, flying.GoodbyeSentAt, crossed.GoodbyeSentAt)
	accepted := crossed
	accepted.GoodbyeExpiresAt = start.Add(48 * time.Hour)
	after := decide(t, left(), rules.Situation{}, rules.UserMessage, start.Add(-1)).Person
	require.Equal(t, start.Add(48*time.Hour), after.GoodbyeExpiresAt, "also when the acceptance was recorded first")

	for _, p := range []rules.Person{accepted, after} {
		p = decide(t, p, rules.Situation{}, rules.UserMessage, start.Add(time.Hour)).Person // further words change nothing of it
		newest := rules.Past{Trigger: rules.UserMessage, At: start.Add(-time.Minute)}
		moves, choice, err := limits.Answer(p, rules.Situation{Newest: newest}, rules.ChoiceAllGood, start.Add(48*time.Hour-1), start.Add(50*time.Hour))
		require.NoError(t, err)
		require.Equal(t, rules.ChoiceAllGood, choice)
		require.Equal(t, rules.Dormant, moves[0].Person.State)
		require.Equal(t, rules.UserMessage, moves[0].Audit.Metadata.Supersedes)
		moves, choice, err = limits.Answer(p, rules.Situation{Newest: newest}, rules.ChoiceAllGood, start.Add(48*time.Hour), start.Add(50*time.Hour))
		require.NoError(t, err)
		require.Equal(t, rules.NoChoice, choice)
		require.Equal(t, rules.Person{State: rules.Active, LastActivityAt: start.Add(48 * time.Hour)}, moves[0].Person)
	}

	for _, s := range []rules.Situation{{GoodbyeUnsent: true}, {GoodbyeEnded: true}} {
		back := decide(t, flying, s, rules.UserMessage, start).Person
		require.Zero(t, back.GoodbyeSentAt, "nothing is under way that could cross")
	}
	answered := decide(t, left(), rules.Situation{}, rules.UserMessage, start).Person
	require.Zero(t, answered.GoodbyeSentAt, "a message after the acceptance answers it")
}

func TestAChoiceIsJudgedByWhenItReachedUs(t *testing.T) {
	t.Parallel()
	older := left().GoodbyeSentAt.Add(-1)
	moves, choice, err := limits.Answer(left(), rules.Situation{}, rules.ChoiceBusy, older, start)
	require.NoError(t, err)
	require.Equal(t, rules.NoChoice, choice, "they were active then")
	require.Equal(t, rules.Active, moves[0].Person.State)
	queued := left()
	queued.GoodbyeExpiresAt = time.Time{}
	refused(t, queued, rules.Situation{GoodbyeUnsent: true}, rules.GoodbyeResponse1, start, rules.ErrNotOffered)
	refused(t, rules.Person{State: rules.Dormant}, rules.Situation{}, rules.GoodbyeResponse1, start, rules.ErrTransition)

	chosen, _, err := limits.Answer(left(), rules.Situation{}, rules.ChoiceBusy, start.Add(2*time.Hour), start.Add(2*time.Hour))
	require.NoError(t, err)
	newest := rules.Past{Trigger: rules.GoodbyeResponse2, At: start.Add(2 * time.Hour)}
	m := decide(t, chosen[0].Person, rules.Situation{Newest: newest}, rules.UserMessage, start.Add(time.Hour))
	require.Equal(t, chosen[0].Person, m.Person, "an older message does not undo the choice")
	require.Nil(t, m.Audit)
	require.Empty(t, m.Withdraw)
	m = decide(t, chosen[0].Person, rules.Situation{Newest: newest}, rules.UserMessage, start.Add(3*time.Hour))
	require.Equal(t, rules.Active, m.Person.State)
}

func TestActivityNeverGoesBack(t *testing.T) {
	t.Parallel()
	p := rules.Person{State: rules.Dormant, LastActivityAt: start}
	require.Equal(t, p, p.Seen(start.Add(-day)))
	require.Equal(t, rules.Person{State: rules.Dormant, LastActivityAt: start.Add(1)}, p.Seen(start.Add(1)), "STOP and HELP move no state")
	m := decide(t, p, rules.Situation{}, rules.UserMessage, start.Add(-day))
	require.Equal(t, rules.Person{State: rules.Active, LastActivityAt: start}, m.Person)
	require.Zero(t, m.Audit.Metadata.DaysInactive)
}
