package rules_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/engagement/rules"
)

var limits = rules.DefaultConfig().Limits

// start is a Monday.
var start = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// model is the person by the table of the source (section 4.2), with what the design adds: the outcome of the goodbye, and what is
// still open of one that crossed with a message.
type model struct {
	state    rules.State
	active   time.Time // the last activity
	goodbye  string    // queued, flying, accepted, ended; empty for none that matters
	sent     time.Time
	expires  time.Time
	remind   time.Time
	timedOut bool // the newest transition is a timeout, of a goodbye that was accepted
	chosen   time.Time
}

// table is the table, read row by row. What is not in it is refused.
func table() map[rules.State]map[rules.Trigger]rules.State {
	return map[rules.State]map[rules.Trigger]rules.State{
		"active": {"inactivity_14d": "goodbye_sent", "user_message": "active"},
		"goodbye_sent": {
			"user_message": "active", "goodbye_response_1": "help_flow", "goodbye_response_2": "remind_later", "goodbye_response_3": "dormant",
			"goodbye_timeout": "dormant",
		},
		"help_flow":    {"user_message": "active"},
		"remind_later": {"user_message": "active", "reminder_due": "dormant"},
		"dormant":      {"user_message": "active"},
	}
}

// play is a person and their model.
type play struct {
	now     time.Time
	p       rules.Person
	past    rules.Past
	m       model
	history []rules.Audit
}

func begin(t require.TestingT) *play {
	move, err := rules.Begin(rules.Event{Trigger: rules.UserMessage, At: start, Now: start})
	require.NoError(t, err)
	return &play{now: start, p: move.Person, m: model{state: rules.Active, active: start}, history: []rules.Audit{*move.Audit}}
}

func (w *play) situation() rules.Situation {
	return rules.Situation{Newest: w.past, GoodbyeUnsent: w.m.goodbye == "queued", GoodbyeEnded: w.m.goodbye == "ended"}
}

// apply does what the store does.
func (w *play) apply(moves ...rules.Move) {
	for _, m := range moves {
		if m.Audit != nil {
			w.past = rules.Past{Trigger: m.Audit.Trigger, At: m.Audit.At}
			if at := m.Audit.Metadata.GoodbyeSentAt; at != nil {
				w.past.GoodbyeSentAt = *at
			}
			if at := m.Audit.Metadata.GoodbyeExpiresAt; at != nil {
				w.past.GoodbyeExpiresAt = *at
			}
			w.history = append(w.history, *m.Audit)
		}
		w.p = m.Person
	}
}

// write is a message that reached us at an instant and is answered now.
func (w *play) write(t require.TestingT, choice rules.Choice, at time.Time) {
	trigger := []rules.Trigger{"user_message", "goodbye_response_1", "goodbye_response_2", "goodbye_response_3"}[choice]
	inGoodbye := w.m.state == rules.GoodbyeSent && w.m.goodbye != "queued" && !at.Before(w.m.sent)
	beforeTheEnd := w.m.expires.IsZero() || at.Before(w.m.expires)
	afterTimeout := w.m.state == rules.Dormant && w.m.timedOut && !w.m.expires.IsZero() && beforeTheEnd && !at.Before(w.m.sent)
	afterCrossing := w.m.state == rules.Active && w.m.goodbye != "" && beforeTheEnd && !at.Before(w.m.sent)
	taken := choice != rules.NoChoice && (inGoodbye || afterTimeout || afterCrossing)

	moves, got, err := limits.Answer(w.p, w.situation(), choice, at, w.now)
	require.NoError(t, err, "a message is never refused")
	require.Equal(t, taken, got != rules.NoChoice)
	if at.After(w.m.active) {
		w.m.active = at
	}
	w.apply(moves...)
	switch {
	case taken:
		w.m.state = table()[rules.GoodbyeSent][trigger]
		w.m.goodbye, w.m.sent, w.m.expires, w.m.timedOut, w.m.remind, w.m.chosen = "", time.Time{}, time.Time{}, false, time.Time{}, at
		if w.m.state == rules.RemindLater {
			w.m.remind = at.Add(14 * day)
		}
		if w.m.state == rules.HelpFlow {
			w.m.state, w.m.chosen = rules.Active, time.Time{}
		}
	case !w.m.chosen.IsZero() && at.Before(w.m.chosen): // the choice stands
	default:
		if w.m.state != rules.Active {
			crosses := w.m.state == rules.GoodbyeSent && (w.m.goodbye == "flying" || w.m.goodbye == "accepted" && at.Before(w.m.expires.Add(-48*time.Hour)))
			if !crosses {
				w.m.goodbye, w.m.sent, w.m.expires = "", time.Time{}, time.Time{}
			}
			w.m.timedOut = false
		} else if !beforeTheEnd {
			w.m.goodbye, w.m.sent, w.m.expires = "", time.Time{}, time.Time{}
		}
		w.m.state, w.m.remind, w.m.chosen = table()[w.m.state]["user_message"], time.Time{}, time.Time{}
	}
}

// run is a daily run, of now.
func (w *play) run(t require.TestingT, trigger rules.Trigger) {
	due := map[rules.Trigger]bool{
		"inactivity_14d":  w.now.Sub(w.m.active) >= 14*day,
		"goodbye_timeout": w.m.goodbye == "ended" || w.m.goodbye == "accepted" && !w.now.Before(w.m.expires),
		"reminder_due":    !w.now.Before(w.m.remind),
	}[trigger]
	to, known := table()[w.m.state][trigger]
	before := w.p
	move, err := limits.Decide(w.p, w.situation(), rules.Event{Trigger: trigger, At: w.now, Now: w.now})
	if !known || !due {
		var refusal *rules.Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, rules.Refusal{State: w.m.state, Trigger: trigger, Reason: refusal.Reason}, *refusal)
		require.Equal(t, !known, errors.Is(err, rules.ErrTransition))
		require.Zero(t, move)
		require.Equal(t, before, w.p)
		return
	}
	require.NoError(t, err)
	w.apply(move)
	switch trigger {
	case rules.Inactivity14d:
		w.m.goodbye, w.m.sent, w.m.expires = "queued", w.now, time.Time{}
		require.Equal(t, rules.Goodbye, move.Queue)
	case rules.GoodbyeTimeout:
		w.m.timedOut = w.m.goodbye == "accepted"
		w.m.goodbye = ""
		require.Empty(t, move.Queue, "silent by design")
	case rules.ReminderDue:
		w.m.remind = time.Time{}
		require.Equal(t, rules.Reminder, move.Queue)
	case rules.UserMessage, rules.GoodbyeResponse1, rules.GoodbyeResponse2, rules.GoodbyeResponse3:
	}
	w.m.state, w.m.chosen = to, time.Time{}
	if trigger != rules.GoodbyeTimeout {
		w.m.timedOut = false
	}
}

// settle ends the goodbye as Twilio may, and stores that as the store does. A goodbye that is withdrawn is not claimed any more.
func (w *play) settle(outcome string) {
	switch {
	case outcome == "flying" && w.m.goodbye == "queued" && w.m.state == rules.GoodbyeSent:
		w.m.goodbye = outcome
	case outcome == "accepted" && w.m.goodbye == "flying":
		w.m.goodbye, w.m.expires = outcome, w.now.Add(48*time.Hour)
		w.p.GoodbyeExpiresAt = w.m.expires
	case outcome == "ended" && (w.m.goodbye == "flying" || w.m.goodbye == "queued"):
		w.m.goodbye = outcome
		if w.m.state == rules.Active {
			w.m.goodbye, w.m.sent, w.p.GoodbyeSentAt = "", time.Time{}, time.Time{}
		}
	}
}

// check compares the person with the model, and the audit rows with the table.
func (w *play) check(t require.TestingT) {
	require.Equal(t, w.m.state, w.p.State)
	require.Equal(t, w.m.active, w.p.LastActivityAt)
	require.Equal(t, w.m.remind, w.p.RemindAt)
	require.Equal(t, w.p.State == rules.RemindLater, !w.p.RemindAt.IsZero())
	if w.p.State == rules.GoodbyeSent || w.p.State == rules.Active {
		require.Equal(t, w.m.expires, w.p.GoodbyeExpiresAt)
		require.Equal(t, w.m.sent, w.p.GoodbyeSentAt)
	} else {
		require.Zero(t, w.p.GoodbyeSentAt)
		require.Zero(t, w.p.GoodbyeExpiresAt)
	}
	state := rules.State("")
	for i, a := range w.history {
		if s := a.Metadata.Supersedes; s != "" {
			require.Equal(t, s, w.history[i-1].Trigger, "it supersedes the newest one")
			require.Equal(t, rules.GoodbyeSent, w.history[i-1].From)
			state = rules.GoodbyeSent
		}
		require.Equal(t, state, a.From, "every state is explained by its audit rows")
		if i > 0 {
			require.Contains(t, rules.Transitions(), rules.Edge{From: a.From, Trigger: a.Trigger, To: a.To})
		}
		state = a.To
	}
	require.Equal(t, w.p.State, state)
}

// People are played at every moment, good and bad.
func TestS4_37_S4_43_PeopleKeepToTheTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		choice := rapid.SampledFrom([]rules.Choice{rules.NoChoice, rules.ChoiceConfused, rules.ChoiceBusy, rules.ChoiceAllGood})
		step := rapid.SampledFrom([]time.Duration{time.Nanosecond, time.Hour, day, 47 * time.Hour, 48 * time.Hour, 13 * day, 14 * day, 40 * day})
		t.Repeat(map[string]func(*rapid.T){
			"wait":    func(t *rapid.T) { w.now = w.now.Add(step.Draw(t, "for")) },
			"message": func(t *rapid.T) { w.write(t, choice.Draw(t, "choice"), w.now) },
			"late message": func(t *rapid.T) {
				w.write(t, choice.Draw(t, "choice"), w.now.Add(-step.Draw(t, "late by")))
			},
			"run": func(t *rapid.T) {
				w.run(t, rapid.SampledFrom([]rules.Trigger{rules.Inactivity14d, rules.GoodbyeTimeout, rules.ReminderDue}).Draw(t, "trigger"))
			},
			"carrier": func(t *rapid.T) {
				w.settle(rapid.SampledFrom([]string{"flying", "accepted", "ended"}).Draw(t, "outcome"))
			},
			"drift away": func(t *rapid.T) { // what chance would seldom reach
				w.now = w.now.Add(14 * day)
				w.run(t, rules.Inactivity14d)
				w.settle("flying")
				w.settle("accepted")
			},
			"": func(t *rapid.T) { w.check(t) },
		})
	})
}

// All 35 pairs.
func TestS4_37_OnlyTenTransitionsAreAccepted(t *testing.T) {
	t.Parallel()
	accepted := 0
	for _, from := range rules.States() {
		for _, trigger := range rules.Triggers() {
			want, known := table()[from][trigger]
			got, err := rules.Next(from, trigger)
			if !known {
				require.ErrorIs(t, err, rules.ErrTransition)
				require.ErrorContains(t, err, string(from))
				require.ErrorContains(t, err, string(trigger))
				require.Equal(t, from, got, "refused: unchanged")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, got)
			accepted++
		}
	}
	require.Equal(t, 10+1, accepted, "ten, and the no-op")
	require.Len(t, rules.Transitions(), 10)
	require.Len(t, rules.States(), 5)
	require.Len(t, rules.Triggers(), 7)
	_, err := rules.Next("asleep", rules.UserMessage)
	require.ErrorIs(t, err, rules.ErrTransition)
	for _, e := range rules.Transitions() {
		require.True(t, slices.Contains(rules.States(), e.From) && slices.Contains(rules.States(), e.To))
	}
}
