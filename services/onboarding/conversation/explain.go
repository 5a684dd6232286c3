package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Gate is one question that decides what happens, and its answer.
type Gate struct {
	Name    string
	Outcome string // what follows if it does not pass
	Passed  bool
	Fact    string // never a text or a phone number
	Since   time.Time
	Change  string // what would change it; empty when it passes
}

// Explanation has the outcome that would follow now, and the reasons for it.
type Explanation struct {
	Outcome     string
	Gates       []Gate // in the order in which they decide
	Next        string // what happens by itself
	Advice      string // what may be done about it
	NeedsPerson bool   // Twilio refuses our text until somebody has done what Advice says

	ProfileID string // of the session's person
}

// Circumstances has what decides about a person apart from their newest session.
type Circumstances struct {
	PausedAt        time.Time // of the newest session; zero when it is not paused
	ConsentRequired bool      // the organisation opens no session without a consent record
	AwaitsOperator  bool      // words of the person wait for an operator
	Pause           *Pause    // of the organisation's scheduling; nil when there is none
	HeldReplies     int       // to the newest session where it stands, which were kept and not answered
	Ticket          Waiting   // of the person; zero for none
	DeadLetter      string    // of the step that is due, if QStash gave its alarm up and the dead letter is open; its id
}

// Waiting is a ticket that somebody is to answer.
type Waiting struct {
	ID    string
	Since time.Time // it is open
}

// Pause says why the alarms of an organisation are not published.
type Pause struct {
	Suspended bool // the organisation is; its operators cannot lift that
	Since     time.Time
	By        string // who paused; empty when that is not known
	Reason    string
}

// Change names the call that ends a pause.
func (p Pause) Change() string {
	if p.Suspended {
		return "those who run this deployment resume the organisation"
	}
	return "POST /v1/scheduling:resume"
}

// Fact returns that scheduling is paused, by whom and why.
func (p Pause) Fact() string {
	if p.Suspended {
		return people.SuspendedBecause + p.Reason
	}
	fact := "scheduling of the organisation is paused"
	if p.By != "" {
		fact += " by " + p.By
	}
	if p.Reason != "" {
		fact += ": " + p.Reason
	}
	return fact
}

// Outcomes of an explanation that no execution has a word for.
const (
	outcomeSent      = "sent"
	outcomeOpened    = "opened"
	outcomeNotDue    = "not_due"
	outcomeNoSender  = "no_sender"
	outcomeTicket    = "ticket_open"
	outcomeSuspended = "organisation_suspended"
)

// gateDelivered is messaging's gate that does not pass where Twilio took a text and it did not reach the person.
const gateDelivered = "send.delivered"

// gateBackoff is messaging's gate of a text that Twilio did not take, and why it did not.
const gateBackoff = "send.backoff"

// ExplainStep explains the result that a session's step would have if its alarm came now: every gate that ExecuteStep asks, in its order,
// and then those of messaging. It changes nothing. ErrNoSession, people.ErrUnavailable.
func (c *Service) ExplainStep(ctx context.Context, orgID, sessionID string) (Explanation, error) {
	view, due, err := c.Store.LoadStep(ctx, sessionID)
	if err == nil && view.Session.OrgID != orgID {
		err = ErrNoSession
	}
	if err != nil {
		return Explanation{}, err
	}
	circumstances, err := c.Store.Circumstances(ctx, orgID, view.Session.ProfileID)
	if err != nil {
		return Explanation{}, err
	}
	gates := c.stepGates(view, circumstances)
	f, err := c.flowOf(ctx, view.Session)
	if err != nil {
		return Explanation{}, err
	}
	if f.Steps[string(view.Session.NextStep)].Text == "" { // none is due, or the flow file has it no more
		return c.explainWait(ctx, view, gates, circumstances)
	}
	at, err := session.Position(f, view.Session)
	if err != nil {
		return Explanation{}, err
	}
	timed, err := c.timeGates(ctx, f, view.Session, at, due)
	if err != nil {
		return Explanation{}, err
	}
	sent, err := c.explainSend(ctx, view, session.TextKey(f.Due(at).Text), stepKey(view.Session, at.Key))
	if err != nil {
		return Explanation{}, err
	}
	e := explained(view, append(gates, timed...), sent.Outcome)
	if e.Outcome == outcomeSent && circumstances.DeadLetter != "" {
		e.Advice = "POST /v1/dead-letters/" + circumstances.DeadLetter + ":replay, which sets the alarm at once"
	}
	if e.Gates = append(e.Gates, sent.Gates...); e.Outcome == sent.Outcome && e.Advice == "" {
		e.Advice = sent.Advice
	}
	if e.NeedsPerson = sent.NeedsPerson; sent.Next != "" && (waitsForCarrier(e.Outcome) || e.NeedsPerson && e.Outcome == outcomeSent) {
		e.Next += " " + sent.Next
	}
	return e, nil
}

// stepGates are the gates that the rows decide.
func (c *Service) stepGates(v View, also Circumstances) []Gate {
	r := v.Session
	alarm := session.StepPayload{ProfileID: r.ProfileID, SessionID: r.ID, StepID: r.NextStep, ExpectedToken: session.AwaitingBurst}
	change := map[session.SkipReason]string{
		session.SkipOptedOut: "the person texts START, then the profile is activated", session.SkipSafetyHold: releaseOf(r.ProfileID),
		session.SkipSessionInactive: reviveOf(r), session.SkipStale: "the person replies", session.SkipPaused: "the person replies",
	}
	words := map[session.SkipReason]Gate{
		session.SkipOptedOut:        {Name: "stop", Fact: "the session is " + string(r.Status), Since: r.UpdatedAt},
		session.SkipSessionInactive: {Name: "session", Fact: "the session is " + string(r.Status) + " and " + string(r.Mode), Since: r.UpdatedAt},
		session.SkipStale:           {Name: "step", Fact: "it waits in " + string(r.Token) + dueStep(r) + gaveUp(also), Since: r.UpdatedAt},
		session.SkipSafetyHold:      {Name: "hold", Fact: held(v.Hold) + waiting(v, also), Since: people.HeldSince(v.HoldVersion)},
		session.SkipPaused: {
			Name: "pause", Fact: pick(r.Paused, "the person asked for later", "the person did not ask for later"), Since: also.PausedAt,
		},
	}
	var gates []Gate
	for _, asked := range session.Gates(r.ProfileID, v.Snapshot(), alarm) {
		g, known := words[asked.Skip]
		if !known { // the alarm that is explained names this session
			continue
		}
		g.Outcome, g.Passed = string(asked.Skip), asked.Passed
		if !g.Passed {
			g.Change = change[asked.Skip]
		}
		gates = append(gates, g)
	}
	return append(append(gates, ticketGate(r, also.Ticket, false)), c.schedulingGate(also.Pause))
}

func dueStep(r session.Record) string {
	if r.NextStep == "" {
		return ": for the person's reply"
	}
	return ", where " + string(r.NextStep) + " is due"
}

// gaveUp names the dead letter of the step that is due.
func gaveUp(also Circumstances) string {
	if also.DeadLetter == "" {
		return ""
	}
	return "; QStash gave its alarm up: dead letter " + also.DeadLetter
}

// pick is one of two facts.
func pick(is bool, then, otherwise string) string {
	if is {
		return then
	}
	return otherwise
}

func held(hold bool) string { return pick(hold, "the person is on a safety hold", "no hold") }

func releaseOf(profileID string) string { return "POST /v1/profiles/" + profileID + ":release" }

// reviveOf returns the call that makes a session active again.
func reviveOf(r session.Record) string {
	switch {
	case r.Status.Parked():
		return r.Reason
	case r.Mode != session.Onboarding:
		return "nothing: onboarding is over"
	}
	return "activate the profile, which opens a new session"
}

// timeGates are the gates that let a step wait.
func (c *Service) timeGates(ctx context.Context, f *flow.Flow, r session.Record, at flow.State, due StepDue) ([]Gate, error) {
	now := c.Now()
	quiet := Gate{
		Name: "quiet_hours", Outcome: string(session.SkipQuietHours), Passed: true, Fact: "outside quiet hours, or the burst has begun",
	}
	if until, is := r.QuietUntil(now); is {
		begun, err := c.begun(ctx, f, r, at, due, now)
		if err != nil {
			return nil, err
		}
		if quiet.Passed = begun; !begun {
			quiet.Fact, quiet.Change = "the organisation's quiet hours, by the person's clock", "time: they end at "+until.UTC().Format(time.RFC3339)
			if r.Quiet.ByDefault {
				quiet.Fact = "the default quiet hours of this installation, by the person's clock; the organisation has decided none"
			}
		}
	}
	arrives := Gate{Name: "due", Outcome: outcomeNotDue, Passed: !due.Now.After(now), Fact: "due", Since: due.Now}
	if !arrives.Passed {
		arrives.Fact, arrives.Since, arrives.Change = "not due yet", time.Time{}, "time: the step is due at "+due.Now.UTC().Format(time.RFC3339)
	}
	receipt := Gate{Name: "delivery", Outcome: string(session.SkipAwaitingDelivery), Passed: true, Fact: "no delivery is waited for"}
	if f.Due(at).AfterDelivery > 0 && at.Before != "" {
		until, waits, err := c.deliveryOf(ctx, f, r, at)
		if err != nil {
			return nil, err
		}
		if receipt.Passed = !waits; waits {
			receipt.Fact = "the message before is not known to be delivered"
			receipt.Change = "its receipt, or time: at the latest it goes on at " + until.UTC().Format(time.RFC3339)
		}
	}
	return []Gate{quiet, arrives, receipt}, nil
}

// explainSend asks messaging about a message of a session.
func (c *Service) explainSend(ctx context.Context, v View, text session.TextKey, key string) (Explanation, error) {
	r := v.Session
	f, err := c.flowOf(ctx, r)
	if err != nil {
		return Explanation{}, err
	}
	body, err := c.render(f, v, nil, text)
	if err != nil {
		return Explanation{}, err
	}
	e, err := c.Carrier.Explain(ctx, Message{
		OrgID: r.OrgID, ProfileID: r.ProfileID, To: v.Phone, Body: body, Key: key,
		Unknown: session.UnknownSends(f.UnknownSends), HoldVersion: v.HoldVersion,
	})
	if err != nil {
		return Explanation{}, fmt.Errorf("explain a send: %w", err)
	}
	for i := range e.Gates {
		e.Gates[i].Name = "send." + e.Gates[i].Name
	}
	if e.Outcome == "already_accepted" { // it is not sent again, and the session goes on
		e.Outcome = string(session.SkipAlreadySent)
	}
	return e, nil
}

// explained reads the outcome off the gates; passed is that of all of them.
func explained(v View, gates []Gate, passed string) Explanation {
	e := Explanation{Outcome: passed, Gates: gates, ProfileID: v.Session.ProfileID}
	for _, g := range gates {
		if !g.Passed {
			e.Outcome, e.Advice = g.Outcome, g.Change
			break
		}
	}
	e.Next = nextOf(v.Session, e.Outcome)
	return e
}

// nextOf returns what happens by itself.
func nextOf(r session.Record, outcome string) string {
	switch outcome {
	case outcomeSent:
		return "The alarm of the step is on its way; if it is lost, the sweeper sets it again."
	case outcomeNotDue, string(session.SkipQuietHours), string(session.SkipAwaitingDelivery):
		return "The step's alarm comes then."
	case string(session.SkipSchedulingPaused):
		return "Nothing; what is due when scheduling goes on is published then at once."
	case string(session.SkipAlreadySent):
		return "The next execution of the step moves the session on without sending."
	case string(session.SkipStale):
		if r.Status == session.Active {
			return "The person's next reply leads the conversation on."
		}
	}
	if waitsForCarrier(outcome) {
		return "QStash tries the step again; messaging finds out meanwhile."
	}
	if outcome == outcomeOpened {
		return "An activation sends the opening, in quiet hours after their end."
	}
	return ""
}

// ExplainPerson explains what would happen to a person now: to the step of the open session, by sessionID, or else to an
// activation without a consent record, by the gates that Begin asks in its order. people.ErrNoProfile, people.ErrUnavailable.
func (c *Service) ExplainPerson(ctx context.Context, orgID, profileID string) (e Explanation, sessionID string, err error) {
	p, err := c.Store.Profile(ctx, orgID, profileID)
	if err != nil {
		return e, "", err
	}
	view, err := c.Store.Conversation(ctx, orgID, p.Phone)
	if err != nil {
		return e, "", err
	}
	if r := view.Session; r.ID != "" && r.Status == session.Active {
		e, err = c.ExplainStep(ctx, orgID, r.ID)
		return e, r.ID, err
	}
	also, err := c.Store.Circumstances(ctx, orgID, profileID)
	if err != nil {
		return e, "", err
	}
	_, sender := c.Carrier.CheckSender(ctx, orgID, p.Phone)
	if sender != nil && !errors.Is(sender, people.ErrNoSender) && !errors.Is(sender, people.ErrOptedOut) &&
		!errors.Is(sender, people.ErrAwaitsOperator) && !errors.Is(sender, people.ErrSuspended) {
		return e, "", sender
	}
	return explained(view, activationGates(view, also, sender), outcomeOpened), "", nil
}

// activationGates returns the questions that Begin and OpenSession ask.
func activationGates(v View, also Circumstances, sender error) []Gate {
	r, noSender, optedOut := v.Session, errors.Is(sender, people.ErrNoSender), errors.Is(sender, people.ErrOptedOut)
	unjudged := also.AwaitsOperator || errors.Is(sender, people.ErrAwaitsOperator)
	gates := []Gate{
		{
			Name: "sender", Outcome: outcomeNoSender, Passed: !noSender,
			Fact: pick(noSender, "the organisation has no sender", "the organisation has one"),
		},
		{
			Name: "consent", Outcome: string(session.SkipOptedOut), Passed: !optedOut,
			Fact: pick(optedOut, "the person has opted out", "the person has not opted out"),
		},
		{Name: "hold", Outcome: string(session.SkipSafetyHold), Passed: !v.Hold, Fact: held(v.Hold), Since: people.HeldSince(v.HoldVersion)},
		{Name: "session", Outcome: "session_parked", Passed: !r.Status.Parked(), Fact: "no session waits for an operator"},
		{
			Name: "words", Outcome: "awaits_operator", Passed: !unjudged,
			Fact: pick(unjudged, "words of the person wait for an operator", "no words wait for an operator"),
		},
		{
			Name: "consent_record", Outcome: "consent_record_required", Passed: !also.ConsentRequired,
			Fact: pick(also.ConsentRequired, "the settings require a consent record", "the settings require no consent record"),
		},
	}
	gates = slices.Insert(gates, 4, ticketGate(r, also.Ticket, true))
	if r.Status.Parked() {
		gates[3].Fact, gates[3].Since = "session "+r.ID+" is "+string(r.Status), r.UpdatedAt
	}
	changes := []string{
		people.ErrNoSender.Error(), people.ErrOptedOut.Error(), releaseOf(r.ProfileID),
		(&SessionParked{Session: r}).Error(), gates[4].Change, people.ErrAwaitsOperator.Error(),
		ErrConsentRequired.Error(),
	}
	for i := range gates {
		if !gates[i].Passed {
			gates[i].Change = changes[i]
		}
	}
	if p := also.Pause; p != nil && p.Suspended {
		suspended := Gate{Name: "organisation", Outcome: outcomeSuspended, Fact: p.Fact(), Since: p.Since, Change: p.Change()}
		return append([]Gate{suspended}, gates...)
	}
	return gates
}
