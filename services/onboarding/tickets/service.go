package tickets

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Config has what a Service works with.
type Config struct {
	Store    store
	Carrier  carrier
	Holds    holds
	Quiet    quiet
	Sessions sessions
	Metrics  *Metrics // nil measures nothing
	Log      *slog.Logger
	Now      func() time.Time
}

// Service is the inbox. It is safe for concurrent use, and several processes may each have one.
type Service struct {
	Config

	// Jobs runs webhook_jobs with the Handlers of this service, so it is made after it.
	Jobs *queue.Runner
}

// New makes a Service; its Jobs are still to be set.
func New(cfg Config) *Service { return &Service{Config: cfg} }

// Handlers returns the handlers of the jobs of the inbox.
func (s *Service) Handlers() map[string]queue.Handler {
	return map[string]queue.Handler{
		conversation.EventTicket: func(ctx context.Context, j queue.Job) error { return s.Sessions.AfterTicket(ctx, j) },
		conversation.EventAnswer: s.sendAnswer,
	}
}

// Opening is a ticket to be opened, or a text that belongs to the one that the person has.
type Opening struct {
	ID        string // of a new one
	OrgID     string
	ProfileID string
	Reason    session.TicketReason
	Detail    string
	Author    string    // who has it at once; empty for nobody
	Text      *Text     // nil without one
	At        time.Time // now
}

// Text is a text of a person that the inbox takes, with the job that carries it.
type Text struct {
	MessageID string
	Body      string
	At        time.Time
	Detail    string    // in the timeline
	Ended     string    // the session that the text came too late for, and that it is noted in; empty for none
	Job       queue.Job // empty when another reader is to end it
}

// OfTicket is the detail of a text that belongs to a ticket which its reader has seen.
const OfTicket = "ticket"

// Take has the inbox take a text of a person: it opens a ticket for the reason, or belongs to the one that there is. It ends the text's
// job in the same transaction. detail stands in the timeline of the session, ended is one that is over. queue.ErrFenced,
// conversation.ErrNothingToDo of a person who was erased, and people.ErrConflict of a text that is unclaimed no more.
func (s *Service) Take(
	ctx context.Context, h conversation.Heard, profileID string, reason session.TicketReason, detail, ended string,
) error {
	_, created, err := s.Store.Open(ctx, Opening{
		ID: newID(), OrgID: h.OrgID, ProfileID: profileID, Reason: reason, At: s.Now(),
		Text: &Text{MessageID: h.MessageID, Body: h.Body, At: h.At, Detail: detail, Ended: ended, Job: h.Job},
	})
	if errors.Is(err, people.ErrNoProfile) { // erased meanwhile
		return conversation.ErrNothingToDo
	}
	if err == nil && created {
		s.Log.InfoContext(ctx, "tickets.opened", "profile_id", profileID, "reason", string(reason))
	}
	return err
}

// HeldForDistress is the reason of the safety hold of a person who wrote words of distress.
const HeldForDistress = "words of distress; read the ticket"

// TakeDistress puts a person on a safety hold before the inbox takes their text. Each part may be done again.
func (s *Service) TakeDistress(ctx context.Context, h conversation.Heard, profileID string) error {
	_, err := s.Holds.Hold(ctx, h.OrgID, profileID, HeldForDistress)
	if errors.Is(err, people.ErrNoProfile) { // erased meanwhile
		return conversation.ErrNothingToDo
	}
	if err != nil && !errors.Is(err, people.ErrHoldNotForwarded) { // it is stored, and forwarded as soon as messaging can be reached
		return err
	}
	return s.Take(ctx, h, profileID, session.Distress, string(session.SkipSafetyHold), "")
}

// OpenByHand opens a ticket, or returns the one that the person has; people.ErrNoProfile, erasure.ErrBegun.
func (s *Service) OpenByHand(ctx context.Context, orgID, profileID, detail string) (Ticket, bool, error) {
	return s.Store.Open(ctx, Opening{
		ID: newID(), OrgID: orgID, ProfileID: profileID, Reason: session.ByOperator, Detail: detail, At: s.Now(),
	})
}

// Closing is the end of a ticket.
type Closing struct {
	OrgID, ID string
	Outcome   Outcome
	At        time.Time
}

// inlineBudget is the time in which a call does the work of its job itself; the queue does it otherwise.
const inlineBudget = 10 * time.Second

// Close closes a ticket, and the conversation goes on as the outcome says: at once if that can be, else by the queue. Closing it again
// changes nothing. ErrNotFound.
func (s *Service) Close(ctx context.Context, orgID, id string, outcome Outcome) (Ticket, error) {
	t, job, err := s.Store.Close(ctx, Closing{OrgID: orgID, ID: id, Outcome: outcome, At: s.Now()})
	if err == nil && job != "" {
		s.try(ctx, job, s.Sessions.AfterTicket)
	}
	return t, err
}

// try runs a job in the caller's time. What is left of it is the queue's.
func (s *Service) try(ctx context.Context, job string, handle queue.Handler) {
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	if err := s.Jobs.Try(ctx, job, handle); err != nil {
		s.Log.WarnContext(ctx, "tickets.left_to_loop", "job_id", job, "error", err)
	}
}

// closedJob is the job that has the session of a ticket go on.
func closedJob(t Ticket, at time.Time) (queue.New, error) {
	job, err := conversation.NewTicketClosed(t.OrgID, "ticket:"+t.ID, conversation.TicketClosed{
		TicketID: t.ID, SessionID: t.SessionID, ProfileID: t.ProfileID, How: flow.Resumption(t.Outcome), At: at,
	}, at)
	return later(job), err
}

// later leaves a job to the call that stores it, for as long as that has for it.
func later(n queue.New) queue.New {
	n.DueAt = n.At.Add(inlineBudget)
	return n
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
