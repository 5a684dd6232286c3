package conversation

import (
	"context"
	"errors"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/reading"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// readers are those who may take a text of a person, in the order in which they are asked. The first that takes it follows and answers it.
// Messaging has recorded it before: a STOP is in force, and what may be one holds the person, when the first of them is asked.
func (c *Service) readers() []reader {
	return []reader{
		c.readConsent,    // STOP, START, HELP, what may be an opt-out, and the answer to our question about it
		by(c.Engagement), // a preference, or a choice that a goodbye asks for; every text is activity
		by(c.Goals),      // a reminder that is said, moved or taken back
		c.readReply,      // whatever else is said: an answer to the flow, or to nobody
	}
}

// reader reports whether it has taken a text. Each takes effect once, and repeats nothing when its job is done again.
type reader func(ctx context.Context, t text) (taken bool, err error)

// text is a recorded message, as it is read.
type text struct {
	reply

	job      queue.Job
	recorded Recorded
	view     View // what was read since the job was claimed; empty when nothing was
	own      bool // whether it has words of the person, and is no reaction that repeats our words
}

// taker takes the texts that speak to it and not to the conversation: engagement, and goals.
type taker interface {
	// Taken reports whether a recorded message was for the taker, which has answered it then.
	Taken(ctx context.Context, h Heard) (bool, error)
}

// answer has a recorded message read by one after the other, and returns what the runner is to do with its job.
func (c *Service) answer(ctx context.Context, j queue.Job, m reply, recorded Recorded, view View) error {
	kind, _ := reading.Theirs(m.Message.Body)
	t := text{reply: m, job: j, recorded: recorded, view: view, own: kind == reading.Own}
	for _, read := range c.readers() {
		if taken, err := read(ctx, t); taken || err != nil {
			return Ended(err, c.Now().Sub(j.CreatedAt))
		}
	}
	return nil
}

func (c *Service) readConsent(ctx context.Context, t text) (bool, error) {
	if t.recorded.LiftsHold || t.recorded.Effect == EffectOptOut {
		if err := c.judged(ctx, t.reply, t.recorded); err != nil {
			return false, err
		}
	}
	switch {
	case t.recorded.LiftsHold: // the session was resumed, and the yes may be its answer, too
		t.view = View{}
		return c.readReply(ctx, t)
	case t.recorded.Effect == EffectNone:
		return false, nil
	}
	if t.own { // engagement writes to nobody who is out
		if _, err := c.Engagement.Taken(ctx, t.heard()); err != nil {
			return false, err
		}
	}
	return true, c.inSession(ctx, t, c.consent)
}

func (c *Service) readReply(ctx context.Context, t text) (bool, error) {
	return true, c.inSession(ctx, t, c.follow)
}

// by is the reader of another room. The runner ends the job of what it takes.
func by(other taker) reader {
	return func(ctx context.Context, t text) (taken bool, err error) {
		if t.own {
			taken, err = other.Taken(ctx, t.heard())
		}
		if taken && err == nil {
			err = errNothingToDo
		}
		return taken, err
	}
}

func (t text) heard() Heard {
	at, _ := t.said()
	return Heard{
		OrgID: t.recorded.OrgID, Phone: t.Message.From, MessageID: t.recorded.MessageID, Body: t.Message.Body, At: at,
		Effect: t.recorded.Effect, Preferences: t.recorded.Preferences, JobID: t.job.ID, JobSince: t.job.CreatedAt,
	}
}

// maxDecisions bounds how often a message is decided anew because the session moved meanwhile. Then the job is tried later.
const maxDecisions = 3

// inSession has a text change the session that it is about. The change ends the job. A decision on a session that has moved since is a
// conflict, and taken anew on what is there now. By the view that came with the text only an open session is decided: before the job was
// claimed another one of the person was perhaps at work, and a session that is over does not move when the next one is opened.
func (c *Service) inSession(ctx context.Context, t text, do func(context.Context, View, Cause, reply, Recorded) error) error {
	once := func(view View) error {
		view, err := c.concerned(ctx, t.reply, t.recorded, view)
		if err != nil {
			return err
		}
		if view.Session.ID == "" { // a stranger, or a person who is not activated: kept as a message, answers nothing
			return c.unattended(ctx, t.job, t.recorded)
		}
		ctx, end := c.Spans.Begin(ctx, "onboarding.reply", view.Session.ID)
		defer end()
		return do(ctx, view, Cause{Job: t.job}, t.reply, t.recorded)
	}
	err := people.ErrConflict
	if s := t.view.Session; (s.Status == session.Active || s.Status.Parked()) && s.OrgID == t.recorded.OrgID {
		err = once(t.view)
	}
	for n := 0; n < maxDecisions && errors.Is(err, people.ErrConflict); n++ {
		var view View
		if view, err = c.Store.Conversation(ctx, t.recorded.OrgID, t.Message.From); err == nil {
			err = once(view)
		}
	}
	return err
}
