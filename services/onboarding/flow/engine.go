package flow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Next decides what follows from an event. It never changes its arguments.
func (f *Flow) Next(state State, person Person, happened Event) Decision {
	state.Visits = maps.Clone(state.Visits)
	if state.Visits == nil {
		state.Visits = map[string]int{}
	}
	step, here := f.Steps[state.Step]
	t := turn{flow: f, state: state, person: person}
	switch e := happened.(type) {
	case Began:
		if state.Step == "" {
			return t.enter(f.Start, true)
		}
	case Taken:
		if here && state.Phase == Due {
			return t.taken(step)
		}
	case Said:
		switch {
		case here && state.Phase != Waiting && state.Phase != Ended:
			return Decision{State: state, Do: Defer{}}
		case here && state.Phase == Waiting:
			t.state.Key = ""
			return t.said(step, e)
		}
	case Silent:
		if here && state.Phase == Waiting && step.Silence != nil {
			t.state.Key = ""
			return t.silent(step)
		}
	case Called:
		if here && state.Phase == Calling {
			t.state.Key = ""
			return t.called(step, e)
		}
	case Closed:
		if here && state.Phase != Ended {
			return t.closed(step, e.How)
		}
	}
	return Decision{State: state, Do: Ignore{}}
}

// turn is one decision while it is made.
type turn struct {
	flow   *Flow
	state  State
	person Person
	save   map[string]Value
}

func (t *turn) decide(do Action) Decision { return Decision{State: t.state, Save: t.save, Do: do} }

// enter goes to a step, through conditions, until something is to be done. answering says that a reply led here.
func (t *turn) enter(id string, answering bool) Decision {
	for {
		s := t.flow.Steps[id]
		t.state.Visits[id]++
		t.state.Step, t.state.Reply, t.state.Then, t.state.Unclear, t.state.Silent, t.state.Paused = id, "", "", 0, 0, false
		switch s.Kind {
		case Send, Ask:
			t.state.Phase = Due
			t.state.Before, t.state.Key = t.state.Key, t.key(id)
			return t.decide(t.flow.due(t.state, answering && !s.Scheduled))
		case If:
			id = s.Else
			if s.holdsFor(t.person) {
				id = s.Then
			}
		case Call:
			t.state.Phase = Calling
			return t.decide(CallHost{Step: id, URL: s.URL, Key: t.key(id), Timeout: s.Timeout})
		case HandOver:
			t.state.Phase = Handed
			return t.decide(OpenTicket{Reason: s.Name})
		case Start:
			t.state.Phase = Ended
			return t.decide(StartFlow{Flow: s.Name})
		case End:
			t.state.Phase = Ended
			return t.decide(Finished{Outcome: s.Name, Host: s.Host})
		}
	}
}

// CallKey is the key of the call that a session waits for.
func (f *Flow) CallKey(at State) string {
	t := turn{state: at}
	return t.key(at.Step)
}

// replyKey is the last part of the key of a text that is not a step's own.
func replyKey(step, kind string, count int) string { return fmt.Sprintf("%s:%s:%d", step, kind, count) }

// key is the last part of an idempotency key: the step, and from the second visit on which visit it is.
func (t *turn) key(id string) string {
	if n := t.state.Visits[id]; n > 1 {
		return fmt.Sprintf("%s#%d", id, n)
	}
	return id
}

// taken goes on after a text was taken.
func (t *turn) taken(s Step) Decision {
	switch {
	case t.state.Then != "":
		return t.enter(t.state.Then, false)
	case t.state.Reply == "" && !s.Waits:
		return t.enter(s.Then, false)
	}
	t.state.Reply, t.state.Phase, t.state.Asked = "", Waiting, s.ID
	return t.decide(t.await(s))
}

// await waits at a step, as long as its silence says.
func (t *turn) await(s Step) Await {
	if s.Silence == nil {
		return Await{}
	}
	return Await{Silence: s.Silence.After}
}

// reply sends a text that is not the step's own. The flow waits at the step then, or goes on with another.
func (t *turn) reply(at, text, kind string, count int, direct bool) Decision {
	if at != t.state.Step { // another visit of that step, although its text is not sent again
		t.state.Visits[at]++
		t.state.Unclear, t.state.Silent = 0, 0
	}
	t.state.Step, t.state.Phase, t.state.Reply, t.state.Before = at, Due, text, t.state.Key
	t.state.Key = replyKey(t.key(at), kind, count)
	return t.decide(t.flow.due(t.state, direct))
}

// Before returns the step whose text comes right before that of a step; empty where the step follows an answer.
func (f *Flow) Before(id string) string {
	for _, before := range f.Order {
		if s := f.Steps[before]; s.Kind == Send && !s.Waits && s.Then == id {
			return before
		}
	}
	return ""
}

// Answers lists the texts by which a session that waits may answer the next reply.
func (f *Flow) Answers(at State) []SendText {
	s, here := f.Steps[at.Step]
	if !here || at.Phase != Waiting {
		return nil
	}
	var all []SendText
	t := turn{flow: f, state: at}
	add := func(text, kind string, count int) {
		if text != "" {
			all = append(all, SendText{Step: s.ID, Text: text, Key: replyKey(t.key(s.ID), kind, count), Direct: true})
		}
	}
	if s.Negative != nil {
		add(s.Negative.Text, "negative", at.Refused+1)
	}
	if s.Unclear != nil {
		add(s.Unclear.Text, "unclear", at.Unclear+1)
	}
	for _, id := range append(slices.Sorted(maps.Values(s.Branches)), s.Then) {
		if next := f.Steps[id]; next.Text != "" && !next.Scheduled {
			visit := turn{flow: f, state: State{Visits: map[string]int{id: at.Visits[id] + 1}}}
			all = append(all, SendText{Step: id, Text: next.Text, Key: visit.key(id), Direct: true})
		}
	}
	return all
}

// Due returns the text that is due in a state, as an alarm sends it.
func (f *Flow) Due(state State) SendText { return f.due(state, false) }

func (f *Flow) due(state State, direct bool) SendText {
	s := f.Steps[state.Step]
	if state.Reply != "" {
		return SendText{Step: s.ID, Text: state.Reply, Key: state.Key, Direct: direct}
	}
	return SendText{Step: s.ID, Text: s.Text, Key: state.Key, Direct: direct, After: s.After, AfterDelivery: s.AfterDelivery}
}

// said reads an answer.
func (t *turn) said(s Step, said Said) Decision {
	if said.GoesOn && s.Kind == Ask { // it answers us, and not the step, which asks again
		t.state.Key = ""
		return t.enter(s.ID, true)
	}
	value, ok := t.flow.answer(s, said)
	form := ok && s.Expect.Type != Reply && s.Expect.Type != Text // "tomorrow" is a not now, and a day where a day is asked for
	if s.Negative != nil && said.Refused && !form {
		t.state.Paused = true
		t.state.Refused++
		at := s.Negative.WaitAt
		if at == "" {
			at, t.state.Then = s.ID, s.Negative.Then
		}
		return t.reply(at, s.Negative.Text, "negative", t.state.Refused, true)
	}
	if !ok {
		if t.state.Unclear < s.Unclear.Times {
			t.state.Unclear++
			return t.reply(s.ID, s.Unclear.Text, "unclear", t.state.Unclear, true)
		}
		d := t.enter(s.Unclear.Then, true)
		if open, opens := d.Do.(OpenTicket); opens {
			open.Unclear = true
			d.Do = open
		}
		return d
	}
	t.keep(s.Save, value)
	return t.enter(s.branch(value.Text), true)
}

// keep saves a value, for the conditions that follow too.
func (t *turn) keep(field string, value Value) {
	if field == "" {
		return
	}
	t.save = map[string]Value{field: value}
	t.person.Fields = maps.Clone(t.person.Fields)
	if t.person.Fields == nil {
		t.person.Fields = map[string]Value{}
	}
	t.person.Fields[field] = value
}

// branch is the step that follows an answer.
func (s Step) branch(answer string) string {
	if next, has := s.Branches[answer]; has {
		return next
	}
	return s.Then
}

// silent follows a silence.
func (t *turn) silent(s Step) Decision {
	if s.Silence.Text != "" && t.state.Silent < s.Silence.Times {
		t.state.Silent++
		return t.reply(s.ID, s.Silence.Text, "silence", t.state.Silent, false)
	}
	return t.enter(s.Silence.Then, false)
}

// called follows an answer of the host application.
func (t *turn) called(s Step, e Called) Decision {
	if !e.OK {
		return t.enter(s.Failed, false)
	}
	if s.Save != "" && e.Field != nil {
		value, ok := t.flow.Declared().read(s.Save, e.Field)
		if !ok {
			return t.enter(s.Failed, false)
		}
		t.keep(s.Save, value)
	}
	return t.enter(s.branch(e.Branch), false)
}

// closed follows the end of a ticket. What was due, or is being called, still is: then it is Defer.
func (t *turn) closed(s Step, how Resumption) Decision {
	handed := t.state.Phase == Handed
	switch {
	case how == Finish:
		t.state.Phase = Ended
		return t.decide(Finished{Outcome: "closed"})
	case !handed && t.state.Phase != Waiting:
		return t.decide(Defer{})
	case !handed && how == Restart:
		t.state.Key = ""
		return t.enter(s.ID, true)
	case !handed:
		return t.decide(t.await(s))
	}
	t.state.Key = ""
	if how == Restart {
		return t.enter(cmp.Or(t.state.Asked, t.flow.Start), false)
	}
	return t.enter(s.Then, false)
}
