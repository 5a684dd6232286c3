package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// explainWait explains a session in which no step is due: it waits for the person's reply. Before the person can reply, our last text has
// to reach them, and a hold has to end; the gate of the step says so, and its outcome stays what an execution would say. The gates of that
// text follow those of the step.
func (c *Service) explainWait(ctx context.Context, v View, gates []Gate, also Circumstances) (Explanation, error) {
	r := v.Session
	at := slices.IndexFunc(gates, func(g Gate) bool { return g.Outcome == string(session.SkipStale) && !g.Passed })
	if at < 0 || r.Status != session.Active || r.Mode != session.Onboarding {
		return explained(v, gates, outcomeSent), nil
	}
	step := &gates[at]
	text, sent, err := c.onItsWay(ctx, v)
	if errors.Is(err, people.ErrUnavailable) {
		step.Fact += "; messaging does not answer, so it is not known whether our last text has reached the person"
	} else if err != nil {
		return Explanation{}, err
	}
	next := ""
	switch {
	case text != "":
		fact := factOf(sent)
		if g, is := notDelivered(sent); is {
			fact = g.Fact
		}
		step.Fact += fmt.Sprintf("; %s has not reached the person: %s", text, fact)
		step.Change = sent.Advice + "; then the person replies"
		next = strings.TrimSpace(fmt.Sprintf("First %s has to reach the person. %s", text, sent.Next))
	case v.Hold && also.HeldReplies > 0:
		step.Fact += ", which has come and waits for the end of the hold"
		step.Change = releaseOf(r.ProfileID)
		next = "The newest of the replies that wait is answered once the hold is lifted."
	case v.Hold:
		step.Change = "the person replies; " + releaseOf(r.ProfileID) + " lets that be answered"
	}
	e := explained(v, append(gates, sent.Gates...), outcomeSent)
	e.NeedsPerson = text != "" && sent.NeedsPerson
	if e.Outcome == string(session.SkipStale) && next != "" {
		e.Next = next
	}
	return e, nil
}

// waiting returns a note of the number of replies that wait for the end of a hold.
func waiting(v View, also Circumstances) string {
	if !v.Hold || also.HeldReplies == 0 {
		return ""
	}
	return "; replies that wait for its end: " + strconv.Itoa(also.HeldReplies)
}

// factOf returns what was found by the gate that decides; of a text that Twilio refuses until a person acts, why it does.
func factOf(e Explanation) string {
	for _, g := range e.Gates {
		if !g.Passed || e.NeedsPerson && g.Name == gateBackoff {
			return g.Fact
		}
	}
	return "it is not sent yet"
}

// onItsWay is the text that was to be sent where the session stands and is not known to have reached Twilio, and what messaging says of
// it; empty for none. That is an answer of which an attempt was made, or the opening, which every session begins with.
func (c *Service) onItsWay(ctx context.Context, v View) (text string, e Explanation, err error) {
	r := v.Session
	f, err := c.flowOf(ctx, r)
	if err != nil {
		return "", Explanation{}, err
	}
	at, err := session.Position(f, r)
	if err != nil {
		return "", Explanation{}, err
	}
	for _, a := range f.Answers(at) {
		e, err := c.explainSend(ctx, v, session.TextKey(a.Text), session.ReplyKey(r, a))
		if err != nil || waitsForCarrier(e.Outcome) || e.Outcome == outcomeSent && e.NeedsPerson {
			return nameOf(session.TextKey(a.Text)), e, err
		}
	}
	if r.Place() > 0 {
		return c.lostText(ctx, v, f, at)
	}
	f, at, err = c.begins(ctx, v)
	if err != nil {
		return "", Explanation{}, err
	}
	e, err = c.explainSend(ctx, v, session.TextKey(f.Due(at).Text), stepKey(r, at.Key))
	switch {
	case err != nil:
		return "", Explanation{}, err
	case e.Outcome == string(session.SkipAlreadySent), e.Outcome == "key_reused": // it was attempted under another name of the person
		return "", Explanation{}, nil
	}
	if e.Outcome == outcomeSent && !e.NeedsPerson {
		e.Advice = "its job, which sends it, in quiet hours after their end"
		e.Next = "Its job sends it, in quiet hours after their end."
	}
	return "the opening", e, nil
}

// nameOf names a text in a sentence.
func nameOf(text session.TextKey) string {
	switch text {
	case session.TextOpening:
		return "the opening"
	case session.TextExplanation:
		return "the explanation"
	case session.TextLater:
		return "the answer to the person's wish for later"
	}
	return string(text)
}

// lostText returns the text that the session awaits a reply to, if Twilio took it and it did not reach the person; else empty. The last of
// the burst is not asked for.
func (c *Service) lostText(ctx context.Context, v View, f *flow.Flow, at flow.State) (name string, e Explanation, err error) {
	texts, key := askedLast(v.Session)
	if v.Session.Flow != "" {
		texts, key = nil, stepKey(v.Session, at.Key)
		for _, text := range f.Sent(at) {
			texts = append(texts, session.TextKey(text))
		}
	}
	for _, text := range texts {
		e, err = c.explainSend(ctx, v, text, key)
		if _, lost := notDelivered(e); err != nil || lost {
			return nameOf(text), e, err
		}
	}
	return "", Explanation{}, nil
}

// askedLast returns the text of the deployment's own conversation that a session awaits a reply to, and its key; none of the burst's last.
func askedLast(r session.Record) (texts []session.TextKey, key string) {
	var text session.TextKey
	switch {
	case r.Paused:
		text = session.TextLater
	case r.Token == session.AwaitingExplanationResponse:
		text = session.TextExplanation
	case r.Token == session.AwaitingOpeningResponse:
		return []session.TextKey{session.TextOpening}, session.OpeningKey(r.ProfileID, r.ID)
	default:
		return nil, ""
	}
	return []session.TextKey{text}, session.DirectKey(r.ProfileID, r.ID, text, r.Place()-1) // it was sent one place before, and led here
}

// notDelivered is the gate of a text that Twilio took and that did not reach the person, if it did not.
func notDelivered(e Explanation) (Gate, bool) {
	at := slices.IndexFunc(e.Gates, func(g Gate) bool { return g.Name == gateDelivered && !g.Passed })
	if at < 0 {
		return Gate{}, false
	}
	return e.Gates[at], true
}

// waitsForCarrier reports whether messaging finds out by itself how a text ends.
func waitsForCarrier(outcome string) bool {
	return outcome == "in_flight" || outcome == "unknown" || outcome == "throttled" || outcome == "capped"
}

// ticketGate says that the flow of a session waits until a ticket is closed. One that no flow waits for stands against an activation alone.
func ticketGate(r session.Record, t Waiting, activation bool) Gate {
	g := Gate{Name: "ticket", Outcome: outcomeTicket, Passed: true, Fact: "the person has no open ticket"}
	if t.ID == "" {
		return g
	}
	g.Fact, g.Since, g.Passed = "the person has ticket "+t.ID+", and no flow waits for it", t.Since, !activation
	if session.WaitsForTicket(r, "") {
		g.Fact, g.Passed = "the flow waits until ticket "+t.ID+" is closed", false
	}
	if !g.Passed {
		g.Change = "answer the person, then POST /v1/tickets/" + t.ID + ":close"
	}
	return g
}

// schedulingGate comes last of what the rows decide: an execution that the session refuses is not put back.
func (c *Service) schedulingGate(p *Pause) Gate {
	g := Gate{Name: "scheduling", Outcome: string(session.SkipSchedulingPaused), Passed: true, Fact: "alarms are published"}
	switch {
	case c.SchedulingDisabled:
		g.Passed, g.Fact, g.Change = false, "ONBOARDING_SCHEDULING_DISABLED is set", "lift ONBOARDING_SCHEDULING_DISABLED"
	case p != nil:
		g.Passed, g.Fact, g.Since, g.Change = false, p.Fact(), p.Since, p.Change()
	}
	return g
}
