package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/google/uuid"

	"paceline.internal/platform/outbox"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// StepRoute names the callbacks to which QStash delivers the alarms of steps: two callbacks of the gateway.
var StepRoute = qstash.Route{Path: "/api/onboarding/step", FailurePath: "/api/onboarding/step/failed", Label: "onboarding-step"}

// newOutbox is the outbox of the steps' alarms: what they are to QStash, to logs and to traces.
func (c *Service) newOutbox() *outbox.Outbox[session.Alarm] {
	return &outbox.Outbox[session.Alarm]{
		Name: "step_alarms", Rows: c.Outbox, QStash: c.QStash, Job: stepJob, Rings: c.rings, Scheduled: c.scheduled,
		Attrs: func(a session.Alarm) []any { return []any{"step_id", string(a.StepID), "session_id", a.SessionID} },
		Begin: func(ctx context.Context, a session.Alarm) (context.Context, func()) {
			return c.Spans.Begin(ctx, "onboarding.alarm", a.SessionID)
		},
		Reach: c.QStashReach, Disabled: c.SchedulingDisabled, Log: c.Log, Now: c.Now,
	}
}

// scheduled logs that the step before it scheduled a step, with the delay that the flow has between them. A step with an alarm that is
// set again was logged before; the first of a burst follows a reply and not a step.
func (c *Service) scheduled(ctx context.Context, a session.Alarm) {
	f := c.Flow.Script()
	if before := f.Before(string(a.StepID)); before != "" && a.Generation == 1 {
		c.Log.LogAttrs(ctx, slog.LevelInfo, "onboarding.step_next_scheduled", slog.String("step_id", before),
			slog.String("session_id", a.SessionID), slog.String("next_step_id", string(a.StepID)),
			slog.Int64("delay_ms", f.Steps[string(a.StepID)].After.Milliseconds()))
	}
}

// stepJob returns what QStash delivers. Its identity is onboarding-{session_id}-{step_id}-{generation}. The session is the episode, so
// that a second run is never taken for the first; a new generation is a new alarm, which must not be lost in the window of the one before
// it.
func stepJob(a session.Alarm) (qstash.Job, error) {
	body, err := a.Payload().Encode()
	if err != nil {
		return qstash.Job{}, fmt.Errorf("encode alarm: %w", err)
	}
	id, err := qstash.NewDedupID("onboarding", a.SessionID, string(a.StepID), strconv.Itoa(a.Generation))
	return qstash.Job{
		OrgID: a.OrgID, Lost: a.Cause == session.CauseOverdue, Route: StepRoute, DedupID: id, Body: body, Due: a.DueAt,
	}, err
}

// rings reports whether this process rings an alarm itself.
func (c *Service) rings(a session.Alarm) bool {
	return c.Timer != nil && !a.LeaseUntil.IsZero() && c.Timer.Set(a)
}

// Overdue is a session with a due step that was not executed although its alarm was published.
type Overdue struct {
	Session    session.Record
	Generation int // of the newest alarm
	Repeats    int // how many alarms in a row the sweeper has set
	Failed     int // how many of them because the one before brought nothing
	// Unavailable says that since the newest alarm was delivered a step of the session has come to a messaging service that could not be
	// reached.
	Unavailable bool
}

// Sweeper finds the sessions with an overdue step, and sets its alarm again or parks them.
func (c *Service) Sweeper(policy outbox.Policy) *outbox.Sweeper[Overdue] {
	s := &outbox.Sweeper[Overdue]{Policy: policy, Unpublished: c.Outbox.NotifyUnpublished, Log: c.Log, Now: c.Now}
	s.Overdue = func(ctx context.Context, limit int) ([]Overdue, error) {
		return c.Store.Overdue(ctx, limit, policy.MaxGenerations-1, policy.Grace, c.Now())
	}
	s.Mend = func(ctx context.Context, o Overdue) error {
		if err := c.mend(ctx, o, policy); err != nil {
			return fmt.Errorf("session %s: %w", o.Session.ID, err)
		}
		return nil
	}
	s.Locked = func(ctx context.Context, o Overdue) {
		c.Log.WarnContext(ctx, "onboarding.overdue_session_locked", "session_id", o.Session.ID)
	}
	return s
}

// mend sets the next alarm, due now, or parks the session. A session that has moved on meanwhile needs neither. An alarm that came to a
// messaging service that could not be reached is not counted: no conversation has failed, the outage ends by itself, and however long
// it takes, the session stays open, late and visibly so.
func (c *Service) mend(ctx context.Context, o Overdue, policy outbox.Policy) error {
	r, now := o.Session, c.Now()
	c.Log.WarnContext(ctx, "onboarding.step_overdue", "step_id", string(r.NextStep), "session_id", r.ID, "generation", o.Generation,
		"repeats", o.Repeats, "unavailable", o.Unavailable)
	if o.Unavailable || o.Failed+1 < policy.MaxGenerations {
		cause := session.CauseOverdue
		if o.Unavailable {
			cause = session.CauseOutage
		}
		a := session.NewAlarm(uuid.Must(uuid.NewV7()).String(), r, r.NextStep, o.Generation+1, cause, now) // the relay's
		return c.Store.Rearm(ctx, r, a, now.Add(policy.Rest(o.Repeats+1)-policy.Grace), now)
	}
	reason := fmt.Sprintf("%d alarms in a row for %s brought nothing; see the timeline, the dead letters and the log for why, mend that, %s",
		o.Failed+1, r.NextStep, session.ThenResume(r.ID))
	err := c.Store.Park(ctx, session.Park(r, now, session.Stuck, session.TriggerQStash, "", reason))
	if errors.Is(err, people.ErrConflict) {
		return nil
	}
	return err
}
