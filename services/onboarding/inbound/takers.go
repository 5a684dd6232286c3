package inbound

import (
	"context"
	"errors"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/reading"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/tickets"
)

// takers lists who may take a text of a person, in the order in which they are asked. The first that takes it follows and answers it.
// Messaging has recorded it before: a STOP is in force, and what may be one holds the person, when the first of them is asked.
func (in *Service) takers() []taker {
	return []taker{
		in.takeConsent,          // STOP, START, HELP, what may be an opt-out, and the answer to our question about it
		in.takeDistress,         // words of distress: a safety hold, and the inbox
		in.takeKeyword,          // a word that enters a published flow, where no conversation is open
		by(in.Engagement.Taken), // a preference, or a choice that a goodbye asks for; every text is activity
		by(in.Goals.Taken),      // a reminder that is said, moved or taken back
		in.takeInbox,            // a person of the organisation, who has the conversation or is asked for
		in.takeReply,            // whatever else is said: an answer to the flow, a text for the host application, or the inbox
	}
}

// taker reports whether it has taken a text. Each takes effect once, and repeats nothing when its job is done again. One that takes a
// text returns nil if it has ended the job itself, with its change, and conversation.ErrNothingToDo if the runner is to end it.
type taker func(ctx context.Context, t text) (taken bool, err error)

// text is a recorded message, as it is read.
type text struct {
	conversation.Reply

	message reply
	view    *conversation.View // read after the job was claimed; empty until then
	own     bool               // whether it has words of the person, and is no reaction that repeats our words
}

// answer has a recorded message read by one after the other, and returns what the runner is to do with its job.
func (in *Service) answer(ctx context.Context, j queue.Job, m reply, recorded Recorded, view conversation.View) error {
	kind, _ := reading.Theirs(m.Message.Body)
	t := text{Reply: m.heard(j, recorded), message: m, view: &view, own: kind == reading.Own}
	for _, take := range in.takers() {
		if taken, err := take(ctx, t); taken || err != nil {
			return conversation.Ended(err, in.Now().Sub(j.CreatedAt))
		}
	}
	return nil
}

func (in *Service) takeConsent(ctx context.Context, t text) (bool, error) {
	if t.LiftsHold || t.Effect == conversation.EffectOptOut {
		if err := in.Conversations.Judged(ctx, t.Reply); err != nil {
			return false, err
		}
	}
	switch {
	case t.LiftsHold: // the session was resumed; where it waits for any reply, the yes is one
		t.view = &conversation.View{}
		return in.takeReply(ctx, t)
	case t.Effect == conversation.EffectNone:
		return false, nil
	}
	if t.own { // engagement writes to nobody who is out
		if _, err := in.Engagement.Taken(ctx, t.Heard); err != nil {
			return false, err
		}
	}
	// Messaging has recorded what they said about consent. What the session makes of it ends the job, so distress is noted before.
	if err := in.noteDistress(ctx, t); err != nil {
		return false, err
	}
	return true, in.inSession(ctx, t)
}

func (in *Service) takeReply(ctx context.Context, t text) (bool, error) {
	return true, in.inSession(ctx, t)
}

// by returns a taker of another room. The runner ends the job of what it takes.
func by(takes func(context.Context, conversation.Heard) (bool, error)) taker {
	return func(ctx context.Context, t text) (taken bool, err error) {
		if t.own {
			taken, err = takes(ctx, t.Heard)
		}
		if taken && err == nil {
			err = conversation.ErrNothingToDo
		}
		return taken, err
	}
}

// maxDecisions bounds how often a message is decided anew because the session moved meanwhile. Then the job is tried later.
const maxDecisions = 3

// inSession has a text change the session that it is about. The change ends the job. A decision on a session that has moved since is a
// conflict, and is made again on what is there now. The view that came with the text is used only if its session is open: another job
// may have opened a session since, and a closed one does not move, so no conflict would tell.
func (in *Service) inSession(ctx context.Context, t text) error {
	once := func(view conversation.View) error {
		view, err := in.concerned(ctx, t, view)
		if err != nil {
			return err
		}
		if t.unclaimed(view) {
			return in.takeUnclaimed(ctx, t, view)
		}
		if taken, err := in.takeAwaited(ctx, t, view); taken || err != nil {
			return err
		}
		return in.Conversations.Answer(ctx, view, t.Reply)
	}
	err := people.ErrConflict
	if s := t.view.Session; (s.Status == session.Active || s.Status.Parked()) && s.OrgID == t.OrgID {
		err = once(*t.view)
	}
	for n := 0; n < maxDecisions && errors.Is(err, people.ErrConflict); n++ {
		var view conversation.View
		if view, err = in.Store.Conversation(ctx, t.OrgID, t.Phone); err == nil {
			err = once(view)
		}
	}
	return err
}

// takeAwaited has the inbox take a text for a ticket that was opened since takeInbox was asked: the session waits for it. While the ticket
// is closed and the session has not gone on yet, the text is held, and considered then.
func (in *Service) takeAwaited(ctx context.Context, t text, view conversation.View) (bool, error) {
	if !t.own || t.Effect != conversation.EffectNone || t.LiftsHold || !session.WaitsForTicket(view.Session, "") {
		return false, nil
	}
	now, err := in.Store.Conversation(ctx, t.OrgID, t.Phone)
	if err != nil || now.TicketID == "" {
		return false, err
	}
	return true, in.Inbox.Take(ctx, t.Heard, now.Session.ProfileID, session.Unclaimed, tickets.OfTicket, "")
}

// concerned is the conversation that a message is about. A reply is about the open one. A word about consent, however late it is worked, is
// about the one that stood when it was said, and not about one that was opened since; but an opt-out that is in force stops whatever
// there is.
func (in *Service) concerned(ctx context.Context, t text, view conversation.View) (conversation.View, error) {
	if view.Session.ID == "" || t.Effect == conversation.EffectNone || !view.Session.CreatedAt.After(t.message.until()) {
		return view, nil
	}
	if t.Effect == conversation.EffectOptOut { // asked again after the session was read: a START and an activation may have come since
		now, err := in.Carrier.Record(ctx, t.message.Message, view, t.At)
		if err != nil || now.InForce {
			return view, err
		}
	}
	view, err := in.Store.ConversationAt(ctx, t.OrgID, t.Phone, t.message.until())
	if errors.Is(err, conversation.ErrNoSession) {
		return conversation.View{}, nil
	}
	return view, err
}
