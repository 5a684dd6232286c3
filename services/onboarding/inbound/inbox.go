package inbound

import (
	"context"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/reading/human"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/tickets"
)

// person returns the person who wrote, with their conversation and their ticket, and reads them once. A text without words of the person
// has nobody.
func (in *Service) person(ctx context.Context, t text) (conversation.View, error) {
	if !t.own || t.Phone == "" {
		return conversation.View{}, nil
	}
	if t.view.Session.OrgID != "" {
		return *t.view, nil
	}
	found, err := in.Store.Conversation(ctx, t.OrgID, t.Phone)
	if err == nil {
		*t.view = found
	}
	return found, err
}

// takeDistress takes words of distress, by the organisation's own list: nothing else is to answer them.
func (in *Service) takeDistress(ctx context.Context, t text) (bool, error) {
	who, err := in.person(ctx, t)
	if err != nil || who.Session.ProfileID == "" || !tickets.Distressed(t.Body, who.Distress) {
		return false, err
	}
	return true, in.Inbox.TakeDistress(ctx, t.Heard, who.Session.ProfileID)
}

// noteDistress is takeDistress of a text that is about consent, too. It leaves the job to the taker of that.
func (in *Service) noteDistress(ctx context.Context, t text) error {
	t.Job = queue.Job{}
	_, err := in.takeDistress(ctx, t)
	return err
}

// takeInbox takes a text for a ticket that is open, and one that asks for a person.
func (in *Service) takeInbox(ctx context.Context, t text) (bool, error) {
	who, err := in.person(ctx, t)
	if err == nil && who.TicketID != "" { // it may have been closed while messaging recorded the text
		who, err = in.Store.Conversation(ctx, t.OrgID, t.Phone)
		*t.view = who
	}
	s := who.Session
	if err != nil || s.ProfileID == "" || t.LiftsHold {
		return false, err
	}
	if who.TicketID != "" {
		return true, in.Inbox.Take(ctx, t.Heard, s.ProfileID, session.Unclaimed, tickets.OfTicket, "")
	}
	var more []string
	if s.Status == session.Active && s.Flow != "" {
		f, err := in.Flows.Version(ctx, t.OrgID, s.Flow, s.FlowVersion)
		if err != nil {
			return false, err
		}
		if f.IsChoice(t.Body) { // an occupation may be "agent"
			return false, nil
		}
		more = f.PersonWords()
	}
	if !human.Asked(t.Body, more) {
		return false, nil
	}
	return true, in.Inbox.Take(ctx, t.Heard, s.ProfileID, session.Asked, "asks for a person", "")
}

// unclaimed reports whether nobody else answers a text: the person was never activated, or their conversation has ended and the host
// application does not hold another.
func (t text) unclaimed(view conversation.View) bool {
	s := view.Session
	if !t.own || t.Effect != conversation.EffectNone || t.LiftsHold || t.Place != conversation.AnyPlace || s.ProfileID == "" {
		return false
	}
	return s.ID == "" || s.Status == session.Stopped || s.Status == session.Closed
}

// takeUnclaimed has the inbox take such a text, with a line in the timeline of the conversation that has ended.
func (in *Service) takeUnclaimed(ctx context.Context, t text, view conversation.View) error {
	why := ""
	switch view.Session.Status {
	case session.Stopped:
		why = string(session.SkipOptedOut)
	case session.Closed:
		why = string(session.SkipSessionInactive)
	default:
	}
	return in.Inbox.Take(ctx, t.Heard, view.Session.ProfileID, session.Unclaimed, why, view.Session.ID)
}
