package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// flowOf returns the flow of a session: the deployment's own conversation, or the version of a published flow that it began with.
func (c *Service) flowOf(ctx context.Context, r session.Record) (*flow.Flow, error) {
	if r.Flow == "" {
		return c.own(ctx, r)
	}
	f, err := c.Flows.Version(ctx, r.OrgID, r.Flow, r.FlowVersion)
	return &f, err
}

// own returns the deployment's own conversation. Its last reply begins the flow session.Interview where the organisation has published one.
func (c *Service) own(ctx context.Context, r session.Record) (*flow.Flow, error) {
	if r.Token != session.AwaitingInterviewStart {
		return c.Flow.Script(), nil
	}
	f, err := c.Flows.Current(ctx, r.OrgID, session.Interview)
	switch {
	case errors.Is(err, flow.ErrNotFound):
		return c.Flow.Script(), nil
	case errors.Is(err, flow.ErrUnreadable): // it waits for a release that reads it, and this reply does not
		return c.Flow.ScriptWithInterview(), nil
	case err != nil:
		return nil, err
	case f.Steps[f.Start].Kind != flow.If:
		return c.Flow.ScriptWithInterview(), nil
	}
	view, err := c.Store.LoadSession(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if _, sends := f.Next(flow.State{}, view.person(&f), flow.Began{}).Do.(flow.SendText); !sends { // the host application has them
		return c.Flow.Script(), nil
	}
	return c.Flow.ScriptWithInterview(), nil
}

// begins returns the flow of a session whose first text is to be sent, and its position.
func (c *Service) begins(ctx context.Context, v View) (*flow.Flow, flow.State, error) {
	f, err := c.flowOf(ctx, v.Session)
	if err != nil || v.Session.Flow != "" {
		return f, v.Session.At, err
	}
	return f, f.Next(flow.State{}, v.person(f), flow.Began{}).State, nil
}

// render returns a text as a person gets it. The texts of the deployment's own conversation stand in the catalog.
func (c *Service) render(f *flow.Flow, v View, learnt map[string]flow.Value, text session.TextKey) (body string, err error) {
	if v.Session.Flow == "" {
		body, err = c.Catalog.Render(v.Session.CopyVersion, v.Locale, string(text), v.FirstName)
	} else {
		p := v.person(f)
		maps.Copy(p.Fields, learnt)
		body, err = f.Render(string(text), p.Locale, p.FirstName, p.Fields)
	}
	if err != nil {
		return "", fmt.Errorf("render %s: %w", text, err)
	}
	return body, nil
}

// person returns the facts that the conditions and the texts of a flow may use.
func (v View) person(f *flow.Flow) flow.Person {
	name, fields := catalog.ReadableName(v.FirstName), map[string]flow.Value{}
	p := flow.Person{FirstName: name, Locale: v.Locale, TimeZone: v.Zone.String(), Fields: fields}
	for name, field := range f.Fields {
		if value, ok := field.ValueOf(v.Fields[name]); ok { // another flow may have kept another type under the name
			p.Fields[name] = value
		}
	}
	return p
}

// flowPayload names the place of a session at which the job has something to do, and the flow that is to follow it, if one is.
type flowPayload struct {
	SessionID string `json:"session_id"`
	Place     int    `json:"place"`
	Flow      string `json:"flow,omitempty"`
}

// flowSubject is the subject of what a flow does by itself at a place of a session: the person's own jobs do not wait behind it.
func flowSubject(sessionID string, place int) string {
	return fmt.Sprintf("flow:%s:%d", sessionID, place)
}

// followedBy returns the work that a job does for a session by itself; the zero value for every other job.
func followedBy(j queue.Job) (p flowPayload) {
	if j.EventType != EventFlow || json.Unmarshal(j.Payload, &p) != nil {
		return flowPayload{}
	}
	return p
}

// FollowFlow is the job handler that does what no reply and no alarm does: it acts on a silence, calls the host application, or starts the
// flow that follows. A session that has moved on since needs nothing.
func (c *Service) FollowFlow(ctx context.Context, j queue.Job) error {
	var p flowPayload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return Unreadable(j, err)
	}
	ctx, end := c.Spans.Begin(ctx, "onboarding.flow", p.SessionID)
	defer end()
	view, err := c.Store.LoadSession(ctx, p.SessionID)
	if errors.Is(err, ErrNoSession) { // erased
		return nil
	}
	if err != nil && p.Flow != "" { // an outage is not to end the conversation
		return &queue.Snooze{After: holdPause, Cause: err}
	}
	if err != nil {
		return err
	}
	s := view.Session
	switch until, quiet := s.QuietUntil(c.Now()); {
	case p.Flow != "":
		return c.startNext(ctx, view, p.Flow)
	case s.Place() != p.Place:
		return nil
	case s.Status != session.Active: // one that is parked is followed again once it is resumed
		return nil
	case view.Hold:
		return c.apart(ctx, view, j, holdPause, people.ErrOnHold)
	case view.SchedulingPaused:
		return c.apart(ctx, view, j, holdPause, errPaused)
	case s.At.Phase == flow.Calling:
		return c.callHost(ctx, view, j)
	case s.At.Phase == flow.Handed: // the session was resumed
		f, err := c.flowOf(ctx, s)
		if err != nil {
			return err
		}
		return c.moveBy(ctx, view, j, f, f.Next(s.At, view.person(f), flow.Closed{How: flow.Resume}), session.TriggerOperator)
	case quiet:
		return c.apart(ctx, view, j, until.Sub(c.Now()), ErrQuietHours)
	}
	if waits, err := c.Store.ReplyWaits(ctx, s, view.Phone); waits || err != nil { // they have answered, and it is no silence
		return c.apart(ctx, view, j, holdPause, cmp.Or(err, errReplyWaits))
	}
	if j.Subject != view.Phone { // in its turn behind what the person wrote last
		return c.continued(ctx, j, "turn:", view.Phone, c.Now())
	}
	return c.silent(ctx, view, j)
}

// apart has what a flow does by itself wait under its own subject, so that what the person writes meanwhile does not wait behind it.
func (c *Service) apart(ctx context.Context, view View, j queue.Job, after time.Duration, cause error) error {
	if j.Subject != view.Phone {
		return &queue.Snooze{After: after, Cause: cause}
	}
	return c.continued(ctx, j, "waits:", flowSubject(view.Session.ID, view.Session.Place()), c.Now().Add(after))
}

// errPaused is a flow that waits for the end of the pause of its organisation.
var errPaused = errors.New("scheduling of the organisation is paused")

// errReplyWaits is a silence at a place where a reply waits to be answered.
var errReplyWaits = errors.New("a reply waits to be answered")

// silent does what the flow asks for where no answer came: it sends a text at once, or goes on.
func (c *Service) silent(ctx context.Context, view View, j queue.Job) error {
	s := view.Session
	f, err := c.flowOf(ctx, s)
	if err != nil {
		return err
	}
	d := f.Next(s.At, view.person(f), flow.Silent{})
	if _, ignored := d.Do.(flow.Ignore); ignored {
		return nil
	}
	if d.State.Reply == "" {
		return c.moveBy(ctx, view, j, f, d, session.TriggerSilence)
	}
	text := f.Due(d.State)
	_, move, err := c.deliver(ctx, order{
		View: view, Flow: f, Text: session.TextKey(text.Text), Key: stepKey(s, text.Key), CorrelationID: j.ID,
		Trigger: session.TriggerSilence, Cause: &Cause{Job: j},
		Then: func(ctx context.Context, sent Sent) (session.Move, error) {
			move := session.AfterText(f, s, view.person(f), d, sent.AcceptedAt, c.Now())
			move.Entries = []session.Entry{move.Advanced(session.TriggerSilence)}
			move.AnswerHeldSince = sent.AskedAt
			return move, c.armed(ctx, view, &move)
		},
	})
	if err == nil {
		c.publish(ctx, view, move)
	}
	if after, waits := waitsLong(err); waits {
		return c.apart(ctx, view, j, after, err)
	}
	return Ended(err, c.Now().Sub(j.CreatedAt))
}

// moveBy moves a session as its flow decided, and ends the job that caused it.
func (c *Service) moveBy(ctx context.Context, view View, j queue.Job, f *flow.Flow, d flow.Decision, trigger session.Trigger) error {
	now := c.Now()
	move := session.Proceed(f, view.Session, d, now, now)
	move.Entries = []session.Entry{move.Advanced(trigger)}
	startsAnew(&move)
	err := c.armed(ctx, view, &move)
	if err == nil {
		err = c.Store.Move(ctx, move, &Cause{Job: j})
	}
	if err == nil {
		c.publish(ctx, view, move)
	}
	return Ended(err, now.Sub(j.CreatedAt))
}

// startsAnew has the alarm of a text that begins something wait for the end of quiet hours.
func startsAnew(move *session.Move) {
	if move.Alarm == nil {
		return
	}
	asked := move.Alarm.DueAt
	if move.Alarm.DueAt = move.From.BurstDue(asked.Sub(move.At), move.At); move.Alarm.DueAt.After(asked) {
		move.Entries = append(move.Entries, session.QuietEntry(move.At, move.Alarm.DueAt, move.Entries[0].Trigger, move.NextStep))
	}
}

// called is the body that the host application gets.
type called struct {
	Flow      string                `json:"flow"`
	Version   string                `json:"version"`
	Step      string                `json:"step"`
	SessionID string                `json:"session_id"`
	ProfileID string                `json:"profile_id"`
	Fields    map[string]flow.Value `json:"fields"`
}

// callHost calls the host application, and again with the same key where the service died before it knew the answer. A call that fails
// takes the branch that the flow has for it.
func (c *Service) callHost(ctx context.Context, view View, j queue.Job) error {
	s := view.Session
	f, err := c.flowOf(ctx, s)
	if err != nil {
		return err
	}
	step := f.Steps[s.At.Step]
	body, err := json.Marshal(called{
		Flow: f.Name, Version: s.FlowVersion, Step: step.ID, SessionID: s.ID, ProfileID: s.ProfileID, Fields: view.person(f).Fields,
	})
	if err != nil {
		return fmt.Errorf("encode a call: %w", err)
	}
	var answer struct {
		Field  any    `json:"field"`
		Branch string `json:"branch"`
	}
	replied, err := c.Host.Call(ctx, s.OrgID, step.URL, s.ID+":"+f.CallKey(s.At), step.Timeout, body)
	if later, ours := errors.AsType[*queue.Snooze](err); ours { // it was not called
		return later
	}
	if err == nil && len(replied) > 0 {
		err = json.Unmarshal(replied, &answer)
	}
	if err == nil {
		err = f.WrongField(step, answer.Field)
	}
	if err != nil {
		c.Log.WarnContext(ctx, "onboarding.call_failed", "session_id", s.ID, "step_id", step.ID, "error", err)
	}
	d := f.Next(s.At, view.person(f), flow.Called{OK: err == nil, Branch: answer.Branch, Field: answer.Field})
	return c.moveBy(ctx, view, j, f, d, session.TriggerCall)
}

// startNext opens a session of the flow that follows one that has ended.
func (c *Service) startNext(ctx context.Context, view View, name string) error {
	s := view.Session
	newest, err := c.Store.Conversation(ctx, s.OrgID, view.Phone)
	if err == nil && newest.Session.ID > s.ID { // it was begun before, and only its answer was lost; or another was
		return nil
	}
	var replied, consent time.Time
	if err == nil {
		replied, err = c.Store.LastReplyAt(ctx, s.ID)
	}
	if err == nil {
		consent, err = c.Store.ConsentChangedAt(ctx, s.OrgID, s.ProfileID)
	}
	if err != nil {
		return &queue.Snooze{After: holdPause, Cause: err}
	}
	if consent.After(s.UpdatedAt) { // they stopped since, and who agreed again begins anew
		return nil
	}
	// Their own texts bound what follows them: no flow starts itself again without an answer.
	onward := s.Flow == "" || !replied.IsZero()
	_, err = c.Begin(ctx, s.OrgID, Start{ProfileID: s.ProfileID, Flow: name, Follows: true, Onward: onward})
	many, limited := errors.AsType[*TooManyActivations](err)
	switch {
	case err == nil, errors.Is(err, people.ErrOptedOut), errors.Is(err, people.ErrNoProfile), errors.Is(err, ErrFlowSendsNothing):
		return nil // also where its conditions are not for this person
	case errors.Is(err, flow.ErrNotFound), c.Now().Sub(s.UpdatedAt) > longestFollow:
		return ForOperator("the flow %s was to follow session %s: %s; start a flow with POST /v1/profiles/%s:activate, then cancel this job",
			name, s.ID, err, s.ProfileID)
	case limited:
		return &queue.Snooze{After: many.RetryAfter, Cause: err}
	}
	// It waits for a hold, a ticket, an operator, a sender, a release that reads the flow, or the end of an outage.
	return &queue.Snooze{After: max(holdPause, c.Now().Sub(s.UpdatedAt)/followPauses), Cause: err}
}

// longestFollow bounds how long a flow that follows another waits to begin, and followPauses how soon it is tried again: later, the longer
// it has waited.
const (
	longestFollow = 7 * 24 * time.Hour
	followPauses  = 20
)
