package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// TicketClosed is the payload of a job that has a session go on after its ticket was closed.
type TicketClosed struct {
	TicketID  string          `json:"ticket_id"`
	SessionID string          `json:"session_id"`
	ProfileID string          `json:"profile_id"` // an erasure finds the job by it
	How       flow.Resumption `json:"how"`
	At        time.Time       `json:"at"`
}

// NewTicketClosed returns the job that has a session go on. It does not wait behind what the person writes: the session's own guards keep
// them apart.
func NewTicketClosed(orgID, key string, p TicketClosed, at time.Time) (queue.New, error) {
	payload, err := json.Marshal(p)
	if err != nil {
		return queue.New{}, fmt.Errorf("encode a job: %w", err)
	}
	return NewJob(orgID, SourceInternal, EventTicket, key, "ticket:"+p.TicketID, payload, at), nil
}

const (
	// strandedAfter leaves the job of a ticket that was just closed to the call that closed it.
	strandedAfter = 20 * time.Second
	// strandedEvery sets how often one that does not help is tried again.
	strandedEvery = 10 * time.Minute
)

// ReviveTickets has sessions go on that wait for a ticket which is closed: the job was cancelled, or has failed. Nobody else would notice,
// because the ticket is gone from the inbox.
func (c *Service) ReviveTickets(ctx context.Context) error {
	now := c.Now()
	found, err := c.Store.Stranded(ctx, now.Add(-strandedAfter))
	for _, s := range found {
		key := fmt.Sprintf("ticket:%s:%d", s.TicketID, now.Sub(s.At)/strandedEvery)
		job, wrong := NewTicketClosed(s.OrgID, key, s.TicketClosed, now)
		if wrong == nil {
			var kept queue.Enqueued
			if kept, wrong = c.Store.Enqueue(ctx, job); wrong == nil && !kept.Duplicate {
				c.Log.WarnContext(ctx, "onboarding.ticket_revived", "session_id", s.SessionID, "ticket_id", s.TicketID)
			}
		}
		err = errors.Join(err, wrong)
	}
	return err
}

// AfterTicket is the job handler that has a session go on after its ticket was closed: where it stood, with its question asked again, or
// not at all. A session that waits for something else by now stays as it is.
func (c *Service) AfterTicket(ctx context.Context, j queue.Job) error {
	var p TicketClosed
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return Unreadable(j, err)
	}
	ctx, end := c.Spans.Begin(ctx, "onboarding.ticket", p.SessionID)
	defer end()
	view, err := c.Store.LoadSession(ctx, p.SessionID)
	if errors.Is(err, ErrNoSession) { // erased
		return nil
	}
	if err != nil {
		return err
	}
	if !session.WaitsForTicket(view.Session, p.TicketID) {
		return nil
	}
	return Ended(c.goOnAfter(ctx, view, j, p), c.Now().Sub(j.CreatedAt))
}

func (c *Service) goOnAfter(ctx context.Context, view View, j queue.Job, p TicketClosed) error {
	s, now := view.Session, c.Now()
	f, err := c.flowOf(ctx, s)
	if err != nil {
		return err
	}
	at, err := session.Position(f, s)
	if err != nil {
		return err
	}
	d := f.Next(at, view.person(f), flow.Closed{How: p.How})
	text, asks := d.Do.(flow.SendText)
	await, waits := d.Do.(flow.Await)
	_, still := d.Do.(flow.Defer)
	unopened := s.Place() == 0 && p.How != flow.Finish // its first text is to come
	switch {
	case still, unopened: // with its alarm, its call or its opening
		return unlessOver(c.Store.ResumeAfterTicket(ctx, s, p, false, time.Time{}, Cause{Job: j}, now))
	case waits:
		var silentAt time.Time
		if await.Silence > 0 {
			silentAt = now.Add(await.Silence)
		}
		return unlessOver(c.Store.ResumeAfterTicket(ctx, s, p, true, silentAt, Cause{Job: j}, now))
	case asks && at.Phase == flow.Waiting:
		return c.askAgain(ctx, view, j, f, d, text, p)
	}
	move := session.Proceed(f, s, d, now, now)
	afterTicket(&move, p)
	startsAnew(&move)
	if err := c.armed(ctx, view, &move); err != nil {
		return err
	}
	if err := c.Store.MoveAfterTicket(ctx, move, p, Cause{Job: j}); err != nil {
		return unlessOver(err)
	}
	c.publish(ctx, view, move)
	return nil
}

// unlessOver returns an error of a session that is to go on after a ticket. There is nothing to do if another ticket decides about it, or
// another session has taken its place.
func unlessOver(err error) error {
	if errors.Is(err, ErrOtherOpen) || errors.Is(err, ErrTicketOpen) {
		return ErrNothingToDo
	}
	return err
}

// askAgain sends the question that a session waits at once more. Its key names the ticket, so that it is sent once for it.
func (c *Service) askAgain(
	ctx context.Context, view View, j queue.Job, f *flow.Flow, d flow.Decision, text flow.SendText, p TicketClosed,
) error {
	s := view.Session
	switch until, quiet := s.QuietUntil(c.Now()); {
	case view.Hold:
		return &queue.Snooze{After: holdPause, Cause: people.ErrOnHold}
	case view.SchedulingPaused:
		return &queue.Snooze{After: holdPause, Cause: errPaused}
	case quiet:
		return &queue.Snooze{After: until.Sub(c.Now()), Cause: ErrQuietHours}
	}
	_, move, err := c.deliver(ctx, order{
		View: view, Flow: f, Text: session.TextKey(text.Text), Key: stepKey(s, "ticket:"+p.TicketID),
		CorrelationID: j.ID, Trigger: session.TriggerOperator, Cause: &Cause{Job: j},
		Then: func(ctx context.Context, sent Sent) (session.Move, error) {
			move := session.AfterText(f, s, view.person(f), d, sent.AcceptedAt, c.Now())
			afterTicket(&move, TicketClosed{How: p.How, At: sent.AskedAt})
			return move, c.armed(ctx, view, &move)
		},
	})
	if err == nil {
		c.publish(ctx, view, move)
	}
	if wait := capped(err); wait != nil {
		return &queue.Snooze{After: max(wait.RetryAfter, holdPause), Cause: err}
	}
	return err
}

// afterTicket makes a move of a parked session active again, unless it ends it or hands its person over once more. The last reply since
// p.At answers what the session waits for: those before it belong to the ticket. A flow that is over now says so, as after any other step.
func afterTicket(move *session.Move, p TicketClosed) {
	entry := session.Entry{
		At: move.At, Kind: session.KindResumed, From: move.From.Token, To: move.Token, Trigger: session.TriggerOperator, Step: move.NextStep,
	}
	move.Anew = true
	switch {
	case p.How == flow.Finish:
		entry.Kind, entry.Detail = session.KindClosed, "the ticket was closed"
	case move.Ticket != nil:
		entry.Kind, entry.Detail = session.KindParked, move.Reason
	case move.Status != session.Closed:
		move.Status, move.Reason = session.Active, ""
		if move.NextStep == "" {
			move.AnswerHeldSince = p.At
		}
	}
	move.Entries = []session.Entry{entry}
	if over := move.Status == session.Closed || move.Mode == session.Interviewing; over && p.How != flow.Finish {
		move.Entries[0].To = move.From.Token
		move.Entries = append(move.Entries, move.Advanced(session.TriggerOperator))
	}
}
