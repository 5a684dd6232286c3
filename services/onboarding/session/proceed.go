package session

import (
	"maps"
	"slices"
	"strings"
	"time"

	"paceline.internal/services/onboarding/flow"
)

// Proceed returns the move by which a session follows a decision of its flow that sends nothing now. Delays count from an instant; now
// is the time of the move. An alarm has no id yet.
func Proceed(f *flow.Flow, r Record, d flow.Decision, from, now time.Time) Move {
	m := Stay(r, now)
	m.Position, m.Paused, m.NextStep = d.State, d.State.Paused, ""
	for _, name := range slices.Sorted(maps.Keys(d.Save)) {
		m.Learnt = append(m.Learnt, Field{Name: name, Value: d.Save[name], Private: f.Fields[name].Private})
	}
	m.Token = Token(f.Steps[d.State.Step].State)
	switch do := d.Do.(type) {
	case flow.SendText:
		m.Token, m.NextStep = AwaitingBurst, StepID(do.Step)
		m.Alarm = new(NewAlarm("", r, m.NextStep, 1, CauseDue, from.Add(do.After)))
	case flow.Await:
		if do.Silence > 0 {
			m.SilentAt = from.Add(do.Silence)
		}
	case flow.CallHost:
		m.Calls = true
	case flow.OpenTicket:
		m.Status, m.Reason, m.Settled = Stuck, HandedOver+do.Reason+"; answer them, "+ThenResume(r.ID), true
		m.Ticket = &do
	case flow.StartFlow:
		m.Status, m.Reason, m.Starts = Closed, "the flow "+do.Flow+" follows", do.Flow
		if r.Flow == "" { // onboarding ends with the interview, whoever holds it
			m.Mode = Interviewing
		}
	case flow.Finished:
		if r.Flow != "" { // the built-in conversation has but one
			m.Outcome = do.Outcome
		}
		if do.Host {
			m.Mode = Interviewing
		} else {
			m.Status, m.Reason = Closed, ended+do.Outcome
		}
	case flow.Defer, flow.Ignore:
	}
	return m
}

// ended begins the reason of a session that its flow has closed, and the detail of the entry that says so.
const ended = "ended: "

// HandedOver begins the reason of a session that waits for an operator because its flow says so.
const HandedOver = "the flow hands the person over: "

// WithPerson begins the reason of a session that waits because a person of the organisation has the conversation.
const WithPerson = "a person of the organisation has the conversation: "

// ForTicket returns the reason of a session that waits for a ticket.
func ForTicket(ticketID string) string {
	return WithPerson + "answer them, then close the ticket: POST /v1/tickets/" + ticketID + ":close"
}

// WaitsForTicket reports whether a session is parked until a ticket is closed; an empty id stands for any ticket. A session that its flow
// handed over waits for whichever ticket its person has.
func WaitsForTicket(r Record, ticketID string) bool {
	switch {
	case r.Status != Stuck:
		return false
	case strings.HasPrefix(r.Reason, HandedOver):
		return true
	case ticketID == "":
		return strings.HasPrefix(r.Reason, WithPerson)
	}
	return r.Reason == ForTicket(ticketID)
}

// AfterText returns the move of a session after Twilio took the text that was due in a position: what was saved with it is kept, too.
func AfterText(f *flow.Flow, r Record, person flow.Person, sent flow.Decision, accepted, now time.Time) Move {
	person.Fields = maps.Clone(person.Fields)
	if person.Fields == nil {
		person.Fields = map[string]flow.Value{}
	}
	maps.Copy(person.Fields, sent.Save)
	next := f.Next(sent.State, person, flow.Taken{})
	if next.Save == nil {
		next.Save = sent.Save // a text that was taken saves nothing by itself
	}
	return Proceed(f, r, next, accepted, now)
}

// AfterStep returns the move of a session after Twilio took the text of its due step. Where the session waits for an answer then, the last
// reply since asked answers it.
func AfterStep(f *flow.Flow, r Record, person flow.Person, at flow.State, accepted, asked, now time.Time) Move {
	m := AfterText(f, r, person, flow.Decision{State: at}, accepted, now)
	trigger := TriggerBurstFinished
	if m.NextStep != "" {
		trigger = TriggerStepSent
	} else {
		m.AnswerHeldSince = asked
	}
	m.Entries = []Entry{m.Advanced(trigger)}
	m.Entries[0].Step = r.NextStep
	return m
}

// Advanced returns the timeline entry of a move by a flow.
func (m Move) Advanced(trigger Trigger) Entry {
	e := Entry{At: m.At, Kind: KindAdvanced, From: m.From.Token, To: m.Token, Trigger: trigger}
	switch {
	case m.Status.Parked():
		e.Kind, e.Detail = KindParked, m.Reason
	case m.Starts != "":
		e.Detail = m.Starts // session.completed tells it
	case m.Outcome != "" && m.Status != Closed: // of a closed one the detail is the next flow: ShowOutcome adds its outcome
		e.Detail = ended + m.Outcome
	}
	return e
}

// ShowOutcome adds the outcome of a flow to the entry of its end, in a session that it closed: the reason of the session has it.
func ShowOutcome(r Record, timeline []Entry) {
	if r.Status != Closed || !strings.HasPrefix(r.Reason, ended) {
		return
	}
	for i, e := range slices.Backward(timeline) {
		if e.Kind == KindAdvanced {
			timeline[i].Detail = r.Reason
			return
		}
	}
}
