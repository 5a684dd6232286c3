package engagement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// maxDecisions bounds how often a message is decided anew because the person moved meanwhile.
const maxDecisions = 3

// wish is a request in the words of a message.
type wish struct {
	preferences conversation.Preferences
	destination rules.Destination // empty for none
	choice      rules.Choice
}

// wishOf reads a message. One that messaging has read as a word about consent asks nothing else.
func wishOf(h conversation.Heard) wish {
	switch {
	case h.Effect != conversation.EffectNone:
		return wish{}
	case h.Preferences.Any():
		return wish{preferences: h.Preferences}
	}
	if to, found := rules.ParseDestination(h.Body); found {
		return wish{destination: to}
	}
	return wish{choice: rules.ParseChoice(h.Body)}
}

func (w wish) prefers() bool { return w.preferences.Any() || w.destination != "" }

// Taken follows a recorded message, and reports whether it was for engagement, which has answered it then: a preference, which always
// takes effect, or a choice while a goodbye asks for one. Everything else is activity, and the conversation answers it; if the activity
// cannot be stored, that is logged, and the reply goes on. Repeating it changes nothing and sends the same answer under the same key.
// Errors: *conversation.Pending, people.ErrConflict, and what the ports return.
func (s *Service) Taken(ctx context.Context, h conversation.Heard) (bool, error) {
	w := wishOf(h)
	taken, err := s.follow(ctx, h, w)
	for n := 1; n < maxDecisions && again(ctx, err, w); n++ {
		taken, err = s.follow(ctx, h, w)
	}
	if err != nil && w == (wish{}) {
		s.Log.WarnContext(ctx, "engagement.activity_lost", "message_id", h.MessageID, "error", err)
		return false, nil
	}
	return taken, err
}

// again reports whether a message is to be decided anew at once: after a conflict, and after any failure of one with a job that would not
// be tried again for it.
func again(ctx context.Context, err error, w wish) bool {
	return ctx.Err() == nil && (errors.Is(err, people.ErrConflict) || err != nil && w == (wish{}))
}

func (s *Service) follow(ctx context.Context, h conversation.Heard, w wish) (taken bool, err error) {
	v, err := s.Store.Person(ctx, h.OrgID, h.Phone, cause(h), h.Job.ID)
	if errors.Is(err, ErrNoPerson) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var answers []string
	if w.prefers() {
		if answers, err = s.prefer(ctx, v, h, w); err != nil {
			return true, err
		}
	}
	if h.Effect == conversation.EffectOptOut || h.Effect == conversation.EffectOptIn {
		out := h.Effect == conversation.EffectOptOut
		if err := s.Store.NoteConsent(ctx, v.OrgID, v.ProfileID, out, h.At, s.Now()); err != nil {
			return false, err
		}
	}
	choice, err := s.move(ctx, v, h, w)
	if err != nil {
		return w.prefers(), err
	}
	if choice != rules.NoChoice {
		answers = []string{confirmations[choice]}
	}
	if len(answers) == 0 || v.silent() {
		return len(answers) > 0, nil
	}
	return true, s.answer(ctx, v, h, answers)
}

// waitOf returns how long it is from a person's choice to be reminded to the reminder: as it was chosen, or else by the rules.
func waitOf(v View, by rules.Config) catalog.Params {
	if newest := v.Situation.Newest; v.Person.State == rules.RemindLater && newest.Trigger == rules.GoodbyeResponse2 {
		return catalog.WaitOf(v.Person.RemindAt.Sub(newest.At))
	}
	return catalog.WaitOf(by.RemindLater)
}

// confirmations answer the choices.
var confirmations = map[rules.Choice]string{
	rules.ChoiceConfused: catalog.GoodbyeConfused, rules.ChoiceBusy: catalog.GoodbyeBusy, rules.ChoiceAllGood: catalog.GoodbyeAllGood,
}

// responses are the transitions of the choices.
var responses = map[rules.Choice]rules.Trigger{
	rules.ChoiceConfused: rules.GoodbyeResponse1, rules.ChoiceBusy: rules.GoodbyeResponse2, rules.ChoiceAllGood: rules.GoodbyeResponse3,
}

func cause(h conversation.Heard) string { return "message:" + h.MessageID }

// move writes what a message does to where its person stands, and returns the choice that it made, now or when it was worked before.
func (s *Service) move(ctx context.Context, v View, h conversation.Heard, w wish) (rules.Choice, error) {
	if trigger := responses[w.choice]; trigger != "" && slices.Contains(v.Done, trigger) {
		return w.choice, nil
	}
	moves, choice, err := s.decide(v, h, w.choice)
	if err != nil || len(moves) == 0 {
		return rules.NoChoice, err
	}
	change := Change{View: v, Cause: cause(h), Moves: moves, At: s.Now()}
	for _, m := range moves {
		change.Events = append(change.Events, eventsOf(v, m)...)
		if m.Queue == rules.HelpRestart {
			s.queue(&change, rules.Outreach{Type: m.Queue, At: h.At}, catalog.HelpRestart, catalog.Params{})
		}
	}
	if w == (wish{}) && h.Effect == conversation.EffectNone {
		s.read(&change, h)
	}
	return choice, s.apply(ctx, change)
}

func (s *Service) decide(v View, h conversation.Heard, choice rules.Choice) ([]rules.Move, rules.Choice, error) {
	seen := []rules.Move{{Person: v.Person.Seen(h.At)}}
	movesNothing := h.Effect != conversation.EffectNone && h.Effect != conversation.EffectOptIn // STOP, HELP, and what an operator judges
	_, open := rules.Choosable(v.Person, v.Situation, h.At)
	switch {
	case !v.Known && movesNothing:
		return nil, rules.NoChoice, nil
	case !v.Known:
		m, err := rules.Begin(rules.Event{Trigger: rules.UserMessage, At: h.At, Now: s.Now()})
		return []rules.Move{m}, rules.NoChoice, err
	case movesNothing, slices.Contains(v.Done, rules.UserMessage):
		return seen, rules.NoChoice, nil
	case choice != rules.NoChoice && open && v.keeps(): // asked again when the person may be answered
		return seen, rules.NoChoice, nil
	}
	return s.rulesOf(v).Answer(v.Person, v.Situation, choice, h.At, s.Now())
}

// eventsOf returns the events of a move.
func eventsOf(v View, m rules.Move) []Event {
	if m.Audit == nil {
		return nil
	}
	a := *m.Audit
	of := func(kind string, data map[string]any) Event { return Event{Type: kind, Time: a.At, Data: data} }
	events := []Event{of(EventStateChanged, map[string]any{
		"from": string(a.From), "to": string(a.To), "trigger": string(a.Trigger), "days_inactive": a.Metadata.DaysInactive,
		"destination": string(v.Destination),
	})}
	response := map[string]any{"response_type": string(a.Metadata.ResponseType)}
	switch a.Metadata.ResponseType {
	case "":
	case rules.ResponseTimeout:
		response["hours_waited"], response["accepted"] = a.Metadata.HoursWaited, a.Metadata.Accepted
		events = append(events, of(EventGoodbyeResponse, response))
	default:
		response["days_since_goodbye"] = a.Metadata.DaysSinceGoodbye
		events = append(events, of(EventGoodbyeResponse, response))
	}
	if a.Metadata.UnpromptedReturn {
		events = append(events, of(EventUnpromptedReturn, map[string]any{"days_inactive": a.Metadata.DaysInactive}))
	}
	return events
}

// read adds what an ordinary message tells besides that its person is there: an expense, if those are to be recognised, and that it is
// their first, which is greeted, and from which on a member of a household who has not chosen is written to as one. A person who
// ever had a session was greeted by its flow.
func (s *Service) read(c *Change, h conversation.Heard) {
	var expense *rules.Expense
	decided := s.rulesOf(c.View)
	if decided.Recogniser && c.View.Acted == nil {
		expense = rules.RecogniseExpense(h.Body)
	}
	if expense != nil && expense.Confidence >= rules.Confident {
		a := rules.Action{Name: rules.AddExpense, OccurredAt: h.At, Source: rules.SourceNLP, Confidence: expense.Confidence}
		if decided.Check(a, c.At) == nil {
			s.count(c, a, expense.Category)
		}
	}
	if v := c.View; !v.Known {
		if to := rules.FirstDestination(v.Destination, v.DestinationChosen, v.InHousehold); to != v.Destination {
			c.Destination = to
		}
	}
	greeting := rules.Outreach{Type: rules.Welcome, At: h.At}
	switch rules.FirstMessage(!c.View.Known, c.View.Session != "", expense) {
	case rules.GreetExpense:
		s.queue(c, greeting, catalog.WelcomeExpense, catalog.Params{Expense: h.Body})
	case rules.GreetWithExample:
		s.queue(c, greeting, catalog.Welcome, catalog.Params{})
	}
}

// apply writes a change, wakes the worker for the outreach in it, and counts its transitions.
func (s *Service) apply(ctx context.Context, c Change) error {
	if err := s.Store.Apply(ctx, c); err != nil {
		return err
	}
	if len(c.Outreach) > 0 {
		s.Notify()
	}
	s.logQueued(ctx, c)
	for _, m := range c.Moves {
		if m.Audit != nil {
			s.Metrics.moved(ctx, m.Audit.Trigger, 1)
		}
	}
	return nil
}

func (s *Service) logQueued(ctx context.Context, written ...Change) {
	for _, c := range written {
		for _, o := range c.Outreach {
			if o.ID != "" {
				s.Log.InfoContext(ctx, "engagement.outreach_queued", "outreach_id", o.ID, "profile_id", c.View.ProfileID, "type", string(o.Type),
					"due_at", o.DueAt)
			}
		}
	}
}

// queue adds outreach to a change, if its person may be written to.
func (s *Service) queue(c *Change, o rules.Outreach, key string, params catalog.Params) {
	o.Zone = c.View.Zone
	due, skip := o.SendAt(c.At)
	if skip != "" || c.View.candidate().Eligible(o.Type) != "" || catalog.Check(key, params) != nil {
		return
	}
	c.Outreach = append(c.Outreach, Outreach{
		Type: o.Type, Key: o.Key(c.View.ProfileID), MessageKey: key, Params: params, LocalDay: rules.LocalDay(o.At, o.Zone), DueAt: due,
		ExpiresAt: o.Expires(),
	})
}

// prefer writes the preferences of a message, and returns the texts that confirm them.
func (s *Service) prefer(ctx context.Context, v View, h conversation.Heard, w wish) ([]string, error) {
	var stated []Preference
	var answers []string
	state := func(name PreferenceName, value, answer string) {
		stated = append(stated, Preference{
			OrgID: v.OrgID, ProfileID: v.ProfileID, Name: name, Value: value, Source: "chat", Cause: cause(h), Said: h.At, Now: s.Now(),
		})
		answers = append(answers, answer)
	}
	onOff := func(name PreferenceName, to conversation.Switch, off, on string) {
		switch to {
		case conversation.Off:
			state(name, "off", off)
		case conversation.On:
			state(name, "on", on)
		case conversation.Unsaid:
		}
	}
	onOff(Reminders, w.preferences.Reminders, catalog.RemindersOff, catalog.RemindersOn)
	onOff(Tips, w.preferences.Tips, catalog.TipsOff, catalog.TipsOn)
	switch {
	case w.destination == rules.Group && !v.InHousehold:
		answers = append(answers, catalog.DestinationNone)
	case w.destination == rules.Group:
		state(Destination, string(w.destination), catalog.DestinationHousehold)
	case w.destination == rules.Individual:
		state(Destination, string(w.destination), catalog.DestinationIndividual)
	}
	for _, p := range stated {
		if err := s.Store.Prefer(ctx, p); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// Apologise answers a message with an apology when its job failed for good, once, if it asked something of engagement: a preference, or a
// choice while a goodbye asks for one. It reports false when the message asked nothing, and when nothing may be sent to the person now.
// A failure that is tried again is not apologised for: the person gets the answer as soon as a try succeeds, and two answers to
// one message would contradict each other. Errors: *conversation.Pending, and what the ports return.
func (s *Service) Apologise(ctx context.Context, h conversation.Heard) (bool, error) {
	w := wishOf(h)
	if w == (wish{}) {
		return false, nil
	}
	v, err := s.Store.Person(ctx, h.OrgID, h.Phone, cause(h), h.Job.ID)
	if errors.Is(err, ErrNoPerson) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, open := rules.Choosable(v.Person, v.Situation, h.At)
	if !w.prefers() && !open || v.silent() {
		return false, nil
	}
	return true, s.say(ctx, v, h, answerKey(v, h)+":apology", []string{catalog.Apology})
}

// answerKey is the key of the answer to a message.
func answerKey(v View, h conversation.Heard) string {
	return "engagement:" + v.ProfileID + ":" + h.MessageID
}

// answer sends the answer to a message, once per message. What it confirms has been written: an answer that cannot be sent is logged.
func (s *Service) answer(ctx context.Context, v View, h conversation.Heard, keys []string) error {
	return s.say(ctx, v, h, answerKey(v, h), keys)
}

// say sends texts of the catalog as one message.
func (s *Service) say(ctx context.Context, v View, h conversation.Heard, key string, keys []string) error {
	var texts []string
	for _, name := range keys {
		params := catalog.Params{}
		if name == catalog.GoodbyeBusy {
			params = waitOf(v, s.rulesOf(v))
		}
		text, err := s.render(v, name, params)
		if err != nil {
			return fmt.Errorf("render %s: %w", name, err)
		}
		texts = append(texts, text)
	}
	sent, err := s.Carrier.Send(ctx, conversation.Message{
		OrgID: v.OrgID, ProfileID: v.ProfileID, To: v.Phone, Body: strings.Join(texts, " "),
		Key: key, CorrelationID: h.Job.ID, Unknown: s.Unknown, HoldVersion: v.HoldVersion,
	})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if done, err := sent.Answered(s.Now().Sub(h.Job.CreatedAt)); done || err != nil {
		return err
	}
	s.Log.WarnContext(ctx, "engagement.answer_not_sent", "message_id", h.MessageID, "outcome", int(sent.Outcome), "error_code", sent.Code)
	return nil
}
