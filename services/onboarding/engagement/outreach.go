package engagement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// OutreachTable is the queue of outreach.
const OutreachTable = "engagement_outreach"

// The outcomes of outreach, as its column has them.
const (
	outcomeSent         = "sent"
	outcomeRejected     = "rejected" // by the carrier, for good
	outcomeGivenUp      = "given_up" // after its last try, or by an operator
	outcomeExpired      = "expired"
	outcomeCapped       = "capped"
	outcomeReturned     = "returned" // the person did something meanwhile
	outcomeOptedOut     = "opted_out"
	outcomeRemindersOff = "reminders_off"
	outcomeIneligible   = "ineligible"
)

// outcomes of the skips; every other skip is ineligible.
var outcomes = map[rules.Skip]string{
	rules.SkipExpired: outcomeExpired, rules.SkipCapped: outcomeCapped, rules.SkipOptedOut: outcomeOptedOut,
	rules.SkipRemindersOff: outcomeRemindersOff,
}

// How long outreach waits for what it cannot go on without.
const (
	soon            = 2 * time.Second  // a decision that was overtaken, a message of the person that is being worked on, messaging
	whileHeld       = 5 * time.Minute  // a safety hold
	whileUnreadable = time.Minute      // a replica of the release that wrote it
	whileInDoubt    = 30 * time.Second // the reconciler of messaging
	longInDoubt     = time.Hour        // an operator, who may take days
)

// firstPause is the pause after the first failed try; each one after that is twice as long.
const firstPause = time.Second

// OutreachBackoff is the pause after the n-th failed try: 1 s, 2 s, 4 s.
func OutreachBackoff(n int) time.Duration { return firstPause << min(n-1, 2) }

// outreachRows keeps outreach; each change is fenced by the lease of the row's job.
type outreachRows interface {
	// Outreach reads a claimed row.
	Outreach(ctx context.Context, j queue.Job, now time.Time) (Due, error)
	// Begin claims a row for sending: it stores what is sent, unless that is stored, and returns what is. A nudge is begun only while the
	// person stands where its transition left them and none of their messages waits; people.ErrConflict, queue.ErrFenced. members are to
	// get it too, each as a separate row.
	Begin(ctx context.Context, d Due, rendered Rendered, group bool, at time.Time) (Rendered, error)
	// Unbegin takes the claim for sending back, of a row of which nothing can have been sent; queue.ErrFenced.
	Unbegin(ctx context.Context, d Due, at time.Time) error
	// End ends a row with its job, and what the end of a goodbye means to where its person stands; queue.ErrFenced.
	End(ctx context.Context, e End) error
}

// Due is a claimed row of outreach.
type Due struct {
	Job          queue.Job
	Type         rules.MessageType
	Key          string
	ProfileID    string // whom it is about
	MemberID     string // the other member of their household that it goes to; empty for none
	TransitionID string // that asked for it; empty for none
	MessageKey   string
	Params       catalog.Params
	Unreadable   error // the parameters are of a release that this one is not
	CreatedAt    time.Time
	ExpiresAt    time.Time
	Begun        bool        // it may have been sent
	Nudges       []time.Time // when whom it goes to was sent others that nudge, for as long as the caps count them
}

// Rendered is a text and its receiver: every try sends the same.
type Rendered struct {
	Phone, Locale, Body string
	Members             []string // the rows that Begin queued for the others of the household
}

// End is the end of a row.
type End struct {
	Due     Due
	Status  string
	Outcome string
	Why     string // of one that failed
	// Of one that was sent: the row in messaging, when the carrier accepted it, and until when a choice that it offers counts.
	MessageID  string
	AcceptedAt time.Time
	OpenUntil  time.Time
	At         time.Time
}

// Fate is the known status of a message.
type Fate struct {
	MessageID  string
	AcceptedAt time.Time // zero unless the carrier has it
	InDoubt    bool      // the carrier may have it, which is found out
	Parked     bool      // the carrier may have it, which an operator has to find out
}

// errNotSent is the reason of a row that failed for good.
type errNotSent struct {
	outcome string
	why     string
}

func (e *errNotSent) Error() string { return e.why }

// Handlers returns the handlers of the queue of outreach.
func (s *Service) Handlers() map[string]queue.Handler {
	all := map[string]queue.Handler{}
	for _, kind := range rules.MessageTypes() {
		all[string(kind)] = s.deliver
	}
	return all
}

// pacedFor is the time that rows are begun one at a time after one had to wait for its turn.
const pacedFor = time.Minute

// Admit lets no row be begun before the next turn, when one had to wait for it, and then for a while one at a time: else all that are due
// would ask for each turn, the urgent ones behind them.
func (s *Service) Admit(_ context.Context, want int) (int, time.Duration, error) {
	switch wait := time.Unix(0, s.turn.Load()).Sub(s.Now()); {
	case wait > 0:
		return 0, wait, nil
	case wait > -pacedFor:
		return min(want, 1), 0, nil
	}
	return want, 0, nil
}

// deliver brings a row of outreach to its end, or says when to come back. Whether it is still wanted is decided anew at each try.
func (s *Service) deliver(ctx context.Context, j queue.Job) error {
	d, err := s.Store.Outreach(ctx, j, s.Now())
	if err != nil {
		return err
	}
	about, err := s.Store.PersonByID(ctx, j.OrgID, d.ProfileID, "")
	to := about
	if err == nil && d.MemberID != "" {
		to, err = s.Store.PersonByID(ctx, j.OrgID, d.MemberID, "")
	}
	if err != nil {
		return err
	}
	outcome, wait := s.wanted(d, about, to)
	switch {
	case outcome != "":
		return s.unsent(ctx, End{Due: d, Status: queue.StatusCancelled, Outcome: outcome})
	case wait > 0:
		return &queue.Snooze{After: wait, Cause: errors.New("it may not be sent yet")}
	case d.Unreadable != nil: // of a newer release; its replicas can read it
		return &queue.Snooze{After: whileUnreadable, Cause: d.Unreadable}
	}
	return s.send(ctx, d, about, to)
}

// wanted returns the reason not to send a row, or the time to wait; neither when it may be sent now.
func (s *Service) wanted(d Due, about, to View) (outcome string, wait time.Duration) {
	now := s.Now()
	at := rules.Daytime(now, to.Zones...)
	if !at.Before(d.ExpiresAt) {
		return outcomeExpired, 0
	}
	if d.MemberID != "" && (about.HouseholdID == "" || about.HouseholdID != to.HouseholdID || about.Destination != rules.Group) {
		return outcomeIneligible, 0
	}
	answersTransition := d.Type == rules.Goodbye || d.Type == rules.Reminder
	if answersTransition && about.TransitionID != d.TransitionID {
		return outcomeReturned, 0
	}
	candidate := to.candidate()
	candidate.Held = false // it may be released before this expires
	if skip := candidate.Eligible(d.Type); skip != "" {
		return cmp.Or(outcomes[skip], outcomeIneligible), 0
	}
	switch {
	case to.Hold, to.Ticket:
		return "", min(whileHeld, d.ExpiresAt.Sub(now))
	case answersTransition && about.Situation.OpenJob:
		return "", soon
	case at.After(now):
		return "", at.Sub(now)
	}
	nudge := rules.Outreach{Type: d.Type, Zone: to.Zone}
	return outcomes[nudge.Capped(now, d.Nudges)], 0
}

// unsent ends a row that was not sent, as far as is known. One that was begun may have been: its status is read first.
func (s *Service) unsent(ctx context.Context, e End) error {
	d := e.Due
	e.At = s.Now()
	if !d.Begun {
		return s.end(ctx, e)
	}
	fate, err := s.Carrier.Fate(ctx, d.Job.OrgID, d.Key)
	switch {
	case errors.Is(err, people.ErrUnavailable):
		return &queue.Snooze{After: soon, Cause: err}
	case err != nil:
		return err
	case !fate.AcceptedAt.IsZero():
		return s.sent(ctx, d, fate.MessageID, fate.AcceptedAt)
	case fate.InDoubt:
		pause := min(max(whileInDoubt, s.Now().Sub(d.CreatedAt)/10), longInDoubt)
		return &queue.Snooze{After: pause, Cause: errors.New("it may have been sent")}
	case fate.Parked: // nothing but an operator moves it, and others of this phone wait behind it
		e.Status, e.Outcome, e.Why = queue.StatusFailed, outcomeGivenUp, "an operator has to resolve message "+fate.MessageID
	}
	return s.end(ctx, e)
}

func (s *Service) send(ctx context.Context, d Due, about, to View) error {
	text, err := s.render(to, d.MessageKey, d.Params)
	switch {
	case errors.Is(err, catalog.ErrUnknownText): // as above
		return &queue.Snooze{After: whileUnreadable, Cause: err}
	case err != nil:
		return &queue.Permanent{Cause: fmt.Errorf("render %s: %w", d.MessageKey, err)}
	}
	resolved, _ := rules.Resolve(about.Destination, about.InHousehold)
	rendered, err := s.Store.Begin(ctx, d, Rendered{Phone: to.Phone, Locale: to.Locale, Body: text}, resolved == rules.Group, s.Now())
	if errors.Is(err, people.ErrConflict) {
		return &queue.Snooze{After: soon, Cause: err}
	}
	if err != nil {
		return err
	}
	for _, id := range rendered.Members {
		s.Log.InfoContext(ctx, "engagement.outreach_queued", "outreach_id", id, "profile_id", d.ProfileID, "type", string(d.Type),
			"due_at", s.Now())
		s.Notify()
	}
	d.Begun = true
	sent, err := s.Carrier.Send(ctx, conversation.Message{
		OrgID: d.Job.OrgID, ProfileID: to.ProfileID, To: rendered.Phone, Body: rendered.Body, Key: d.Key, CorrelationID: d.Job.ID,
		Unknown: s.Unknown, HoldVersion: to.HoldVersion, Outreach: true, Purpose: string(d.Type),
	})
	switch {
	case errors.Is(err, people.ErrNoSender):
		return s.unsent(ctx, End{Due: d, Status: queue.StatusCancelled, Outcome: outcomeIneligible})
	case errors.Is(err, people.ErrUnavailable):
		return &queue.Snooze{After: soon, Cause: err}
	case err != nil:
		return err
	}
	return s.settle(ctx, d, sent)
}

// settle takes messaging's answer.
func (s *Service) settle(ctx context.Context, d Due, sent conversation.Sent) error {
	cancelled := End{Due: d, Status: queue.StatusCancelled}
	switch sent.Outcome {
	case conversation.Accepted, conversation.AlreadyAccepted:
		return s.sent(ctx, d, sent.MessageID, sent.AcceptedAt)
	case conversation.InFlight, conversation.Unknown, conversation.Throttled, conversation.Held, conversation.Capped:
		if sent.MessageID == "" { // it never left messaging: it waits for its turn, for the release, or for room
			if err := s.Store.Unbegin(ctx, d, s.Now()); err != nil {
				return err
			}
			if sent.Outcome == conversation.Throttled { // a hold or a cap keeps its own recipient waiting, and no other
				s.turn.Store(s.Now().Add(sent.RetryAfter).UnixNano())
			}
		}
		return &queue.Snooze{After: max(sent.RetryAfter, OutreachBackoff(1)), Cause: &conversation.Pending{Outcome: sent.Outcome}}
	case conversation.OptedOut:
		cancelled.Outcome = outcomeOptedOut
		return s.unsent(ctx, cancelled)
	case conversation.RemindersOff:
		cancelled.Outcome = outcomeRemindersOff
		return s.unsent(ctx, cancelled)
	case conversation.Rejected:
		why := fmt.Sprintf("refused with %d: %s", sent.Code, sent.Explanation)
		return &queue.Permanent{Cause: &errNotSent{outcome: outcomeRejected, why: why}}
	case conversation.Undecided, conversation.GivenUp, conversation.KeyReused:
	}
	return &queue.Permanent{Cause: fmt.Errorf("message %s was not sent, as far as is known: %s", sent.MessageID, sent.Explanation)}
}

func (s *Service) sent(ctx context.Context, d Due, messageID string, accepted time.Time) error {
	decided, err := s.rulesFor(ctx, d.Job.OrgID)
	if errors.Is(err, people.ErrLaterRules) { // of a newer release; its replicas can read it
		return &queue.Snooze{After: whileUnreadable, Cause: err}
	}
	if err != nil {
		return err
	}
	return s.end(ctx, End{
		Due: d, Status: queue.StatusCompleted, Outcome: outcomeSent, MessageID: messageID, AcceptedAt: accepted,
		OpenUntil: accepted.Add(decided.GoodbyeTimeout), At: s.Now(),
	})
}

// GiveUp ends a row that failed for good, with what that means to where its person stands.
func (s *Service) GiveUp(ctx context.Context, j queue.Job, cause error) error {
	d, err := s.Store.Outreach(ctx, j, s.Now())
	if err != nil {
		return err
	}
	e := End{Due: d, Status: queue.StatusFailed, Outcome: outcomeGivenUp, Why: cause.Error()}
	if refused, found := errors.AsType[*errNotSent](cause); found {
		e.Outcome = refused.outcome
	}
	if err := s.unsent(ctx, e); !errors.Is(err, queue.ErrEnded) && !errors.Is(err, queue.ErrFenced) {
		return err
	}
	return nil
}

// end returns queue.ErrEnded once the row is at its end.
func (s *Service) end(ctx context.Context, e End) error {
	if err := s.Store.End(ctx, e); err != nil {
		return err
	}
	log := s.Log.With("outreach_id", e.Due.Job.ID, "profile_id", e.Due.ProfileID, "type", string(e.Due.Type), "outcome", e.Outcome)
	switch e.Status {
	case queue.StatusCompleted:
		log.InfoContext(ctx, "engagement.outreach_sent", "message_id", e.MessageID)
	case queue.StatusFailed:
		log.ErrorContext(ctx, "engagement.outreach_failed", "error", e.Why)
	default:
		log.InfoContext(ctx, "engagement.outreach_skipped")
	}
	s.Metrics.ended(ctx, e.Due.Type, e.Outcome)
	return queue.ErrEnded
}
