package session_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	script "paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// person plays a session by the decisions alone, and keeps what it saw.
type person struct {
	flow  session.Flow
	s     session.Snapshot
	sent  []session.StepID // of the burst that runs
	edges []session.Edge
	held  int
	r     session.Record // of which only the turns count here
	keys  []string       // of all direct messages
}

func activate(flow session.Flow) *person {
	return &person{
		flow:  flow,
		s:     session.Snapshot{Status: session.Active, Mode: session.Onboarding, Token: session.AwaitingOpeningResponse},
		edges: []session.Edge{{To: session.AwaitingOpeningResponse, Trigger: session.TriggerActivation}},
	}
}

func (p *person) move(to session.Token, trigger session.Trigger, paused bool) {
	p.edges = append(p.edges, session.Edge{From: p.s.Token, To: to, Trigger: trigger})
	p.s.Token, p.s.Paused = to, paused
	p.r.Turn++
}

// key returns what a direct message would be sent under now.
func (p *person) key(text session.TextKey) string {
	return session.DirectKey(profileID, sessionID, text, p.r.Place())
}

func (p *person) record() session.Record {
	return session.Record{Status: p.s.Status, Mode: p.s.Mode, Token: p.s.Token, NextStep: p.s.NextStep, Paused: p.s.Paused}
}

func (p *person) decision(intent session.Intent) (session.Decision, error) {
	return session.OnReply(p.flow.Script(), p.record(), p.s.Held, script.Person{}, script.Said{}, intent)
}

// detour parks the session and resumes it.
func (p *person) detour(t require.TestingT, status session.Status) {
	p.s.Status = status
	view := stepView{ProfileID: profileID, Snapshot: p.s}
	ok, _ := session.MayExecute(view.ProfileID, view.Snapshot, session.NewStepPayload(profileID, sessionID, p.s.NextStep))
	require.False(t, ok, "nothing is sent while it is parked")
	ok, resume, _ := session.MayReplay(view.ProfileID, view.Snapshot, session.NewStepPayload(profileID, sessionID, p.s.NextStep))
	require.Equal(t, status == session.Stuck && p.s.NextStep != "", ok)
	require.Equal(t, ok, resume)
	decision, err := p.decision(session.Advance)
	require.NoError(t, err)
	if p.s.Mode == session.Onboarding {
		require.Equal(t, session.Defer{}, decision, "a reply to a parked session is kept")
	}
	p.r.Turn, p.r.Detours = p.r.Turn+1, p.r.Detours+1
	m := session.Resume(session.Record{Status: status, Token: p.s.Token, NextStep: p.s.NextStep, Mode: p.s.Mode}, session.TriggerOperator, time.Time{})
	require.Equal(t, []any{p.s.Token, p.s.NextStep, p.s.Mode}, []any{m.Token, m.NextStep, m.Mode})
	p.s.Status = m.Status
	p.r.Turn, p.r.Detours = p.r.Turn+1, p.r.Detours+1
}

func (p *person) reply(t require.TestingT, intent session.Intent) {
	decision, err := p.decision(intent)
	require.NoError(t, err)
	switch d := decision.(type) {
	case session.Follow:
		if text, sends := d.Do.(script.SendText); sends && text.Direct {
			key := p.key(session.TextKey(text.Text))
			require.NotContains(t, p.keys, key, "a message that is due again has a key of its own")
			p.keys = append(p.keys, key)
			move := session.AfterText(p.flow.Script(), p.record(), script.Person{}, d.Decision, time.Time{}, time.Time{})
			p.move(move.Token, session.TriggerOf(intent), move.Paused)
			return
		}
		move := session.Proceed(p.flow.Script(), p.record(), d.Decision, time.Time{}, time.Time{})
		p.move(move.Token, session.TriggerOf(intent), move.Paused)
		p.s.NextStep, p.s.Mode = move.NextStep, move.Mode
		if move.NextStep != "" {
			p.sent = nil
		}
	case session.Defer:
		p.held++
	case session.Ignore:
		require.Equal(t, session.SkipInterviewing, d.Reason)
	}
}

// ring delivers an alarm for a step, whether it is due or not.
func (p *person) ring(t require.TestingT, step session.StepID) {
	view := stepView{ProfileID: profileID, Snapshot: p.s}
	ok, reason := session.MayExecute(view.ProfileID, view.Snapshot, session.NewStepPayload(profileID, sessionID, step))
	if !ok {
		require.Contains(t, []session.SkipReason{session.SkipStale, session.SkipSessionInactive}, reason)
		return
	}
	_, known := p.flow.Step(step)
	require.True(t, known, "only a step of the flow is due")
	at, err := session.Position(p.flow.Script(), p.record())
	require.NoError(t, err)
	move := session.AfterStep(p.flow.Script(), p.record(), script.Person{}, at, time.Time{}, time.Time{}, time.Time{})
	p.sent = append(p.sent, step)
	p.s.NextStep = move.NextStep
	require.Equal(t, p.s.Token, move.Entries[0].From)
	require.Equal(t, move.Token, move.Entries[0].To)
	p.move(move.Token, move.Entries[0].Trigger, p.s.Paused)
}

func stepIDs(flow session.Flow) []session.StepID {
	var ids []session.StepID
	for _, step := range flow.Steps() {
		ids = append(ids, step.ID)
	}
	return ids
}

func TestSessionKeepsToItsTransitions(t *testing.T) {
	t.Parallel()
	flow := session.DefaultFlow()
	rapid.Check(t, func(t *rapid.T) {
		p := activate(flow)
		t.Repeat(map[string]func(*rapid.T){
			"reply": func(t *rapid.T) {
				p.reply(t, rapid.SampledFrom([]session.Intent{session.Advance, session.Pause}).Draw(t, "intent"))
			},
			"alarm": func(t *rapid.T) {
				p.ring(t, rapid.SampledFrom(append(stepIDs(flow), "onboarding_message_5")).Draw(t, "step"))
			},
			"park and resume": func(t *rapid.T) {
				before, text := p.s, rapid.SampledFrom([]session.TextKey{session.TextExplanation, session.TextLater}).Draw(t, "text")
				key := p.key(text)
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					p.detour(t, rapid.SampledFrom([]session.Status{session.Stuck, session.Undeliverable}).Draw(t, "status"))
				}
				require.Equal(t, before, p.s, "it is where it was")
				require.Equal(t, key, p.key(text), "and what was under way has the key that it had")
			},
			"": func(t *rapid.T) {
				require.Contains(t, session.Tokens(), p.s.Token)
				require.Equal(t, p.s.Token == session.AwaitingBurst, p.s.NextStep != "", "a step is due in the burst and never else")
				require.Equal(t, p.s.Token == session.InterviewActivity01, p.s.Mode == session.Interviewing)
				require.False(t, p.s.Paused && p.s.Token == session.AwaitingBurst, "the burst never starts paused")
				require.Equal(t, stepIDs(flow)[:len(p.sent)], append([]session.StepID{}, p.sent...), "the burst keeps its order")

				edge := p.edges[len(p.edges)-1]
				require.Contains(t, session.Transitions(), edge)
				if slices.Index(session.Tokens(), edge.To) < slices.Index(session.Tokens(), edge.From) {
					require.Equal(t, session.Edge{
						From: session.AwaitingExplanationResponse, To: session.AwaitingOpeningResponse, Trigger: session.TriggerReplyPause,
					}, edge, "the only way back")
				}
			},
		})
	})
}

func TestAdvancingRepliesAlwaysEndInTheInterview(t *testing.T) {
	t.Parallel()
	flow := session.DefaultFlow()
	rapid.Check(t, func(t *rapid.T) {
		p := activate(flow)
		for _, intent := range rapid.SliceOf(rapid.SampledFrom([]session.Intent{session.Advance, session.Pause})).Draw(t, "before") {
			p.reply(t, intent)
		}
		for p.s.Mode == session.Onboarding {
			before := len(p.edges)
			p.ring(t, p.s.NextStep)
			p.reply(t, session.Advance)
			require.Greater(t, len(p.edges), before, "nothing may wait for ever")
		}
		require.Equal(t, session.InterviewActivity01, p.s.Token)
		require.Equal(t, stepIDs(flow), p.sent)
		require.False(t, p.s.Paused)
	})
}

func TestEveryTransitionCanHappen(t *testing.T) {
	t.Parallel()
	p := activate(session.DefaultFlow())
	p.reply(t, session.Pause)
	p.reply(t, session.Advance)
	p.reply(t, session.Pause)
	p.reply(t, session.Advance)
	p.reply(t, session.Advance)
	p.reply(t, session.Pause)
	require.Equal(t, 1, p.held)
	for _, step := range stepIDs(p.flow) {
		p.ring(t, step)
	}
	p.reply(t, session.Pause)
	p.reply(t, session.Advance)
	p.reply(t, session.Advance)
	require.Subset(t, p.edges, session.Transitions())
	require.Subset(t, session.Transitions(), p.edges)
}
