package send

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const (
	// MaxKey is the longest idempotency key, in characters.
	MaxKey = 200
	// claimTimeout bounds one try of the claim, which goes on when the caller is gone; claimPause is between two tries, and doubles up to
	// claimPauseMost.
	claimTimeout   = 2 * time.Second
	claimPause     = 50 * time.Millisecond
	claimPauseMost = 500 * time.Millisecond
	// SettleTimeout bounds one try of writing Twilio's answer down, and settleTries is the number of tries, with a
	// pause that doubles: all within SettleBound.
	SettleTimeout = 3 * time.Second
	settleTries   = 3
	settlePause   = 100 * time.Millisecond
)

// AnswerKeys begins the idempotency keys of our answers to words about consent, and StopKeys those that confirm an
// opt-out: the only messages that are asked of Twilio after a STOP.
const (
	AnswerKeys = "consent:"
	StopKeys   = AnswerKeys + "stop:"
	// QuestionKeys begins those that ask whether the texts are to stop, which a suspension keeps back.
	QuestionKeys = AnswerKeys + "ask:"
)

// SettleBound sets how long writing Twilio's answer down may go on after the call, even when the caller is gone.
const SettleBound = 10 * time.Second

// Request asks for one message.
type Request struct {
	OrgID         uuid.UUID
	ProfileID     uuid.UUID // uuid.Nil when the person is not known
	To            sms.Phone
	Body          sms.Body
	Key           string // unique per organisation
	CorrelationID string
	// UnknownPolicy is stored with the first attempt; empty for ConfirmAbsentThenResend.
	UnknownPolicy UnknownPolicy
	// Consent is the record of the recipient's agreement, for the ledger; may be zero.
	Consent consent.Given
	// HoldVersion is the version of the recipient's hold that the caller has read, and found lifted; 0 when it has read none.
	HoldVersion int64
	// Confirms is the person's message with the opt-out that this one confirms; uuid.Nil for every other message.
	Confirms uuid.UUID
	// Purpose is the purpose of the message, where that is known: a person who wants no reminders gets none of the purposes that Remind.
	Purpose string
	// Outreach is a message that its reader did not ask for just now: it waits for its turn before every attempt.
	Outreach bool
	// Reserved is a message that ReserveSends has taken the turn of.
	Reserved bool
	// DespiteHold is for our own answers to words about consent, and only for them: their keys begin with AnswerKeys.
	DespiteHold bool
}

// reminding are the purposes of engagement and of the outbound queue that are reminders.
var reminding = []string{"goodbye", "reminder", "weekly_review", "invite", "post_event"}

// Reminds reports whether the message is one of those that a person who wants no reminders does not get.
func (r Request) Reminds() bool { return slices.Contains(reminding, r.Purpose) }

// Attempt is one try of a request: the claim that it makes on the row.
type Attempt struct {
	Request

	MessageID  uuid.UUID // of the row, if this attempt is the one to insert it
	Sender     senders.Sender
	BodyHash   [sha256.Size]byte
	Segments   int
	Token      uuid.UUID // the fence: an answer settles the row only with it
	At         time.Time
	LeaseUntil time.Time
	Timeout    time.Duration // of one call to Twilio: so long after its lease an abandoned attempt may still be on its way
	Limits     Limits
	Country    string // of the recipient; empty where it is not known
	Refused    error  // why the recipient may not be texted, phone.ErrRefused; nil when they may
}

// Claim is the store's answer to an attempt.
type Claim struct {
	// Won says that the attempt holds Message, and must now be made.
	Won bool
	// Message is the stored row; nil when there is none, which is so only for a recipient who has opted out, is held, or wants no such
	// message.
	Message *Message
	// OptedOut says that the recipient has opted out by now.
	OptedOut bool
	// Held says that the recipient is on a safety hold by now.
	Held bool
	// RemindersOff says that the message is a reminder, and that the recipient wants none by now.
	RemindersOff bool
	// Suspended says that the organisation may not send by now.
	Suspended bool
	// Exceeded has the caps that hold the message by now.
	Exceeded ExceededCaps
}

// ClaimPreview is the result that a claim would have, and since when; zero where nothing is recorded.
type ClaimPreview struct {
	Claim

	Unjudged                                uuid.UUID // words of the person that hold them until an operator has judged them
	ConsentSince, HoldSince, RemindersSince time.Time
	SuspendedSince                          time.Time // of the organisation
	NewestAt                                time.Time // when the newest message to the phone was tried
	// Stopped says that the database went back in time, and that nothing is sent until Twilio's record was read back.
	Stopped bool
}

// open reports whether an attempt may be made now, as far as this was read before a claim.
func (c Claim) open(a Attempt) bool {
	if c.OptedOut || c.Held || c.RemindersOff || c.Suspended || !c.Exceeded.Until().IsZero() {
		return false
	}
	return c.Message == nil || c.Message.Matches(a) && c.Message.Retryable(a.At)
}

// Answer is Twilio's answer to an attempt.
type Answer struct {
	MessageID uuid.UUID
	Token     uuid.UUID
	Outcome   twilio.Outcome
	At        time.Time
}

// OptsOut reports whether Twilio refused because the recipient has opted out there.
func (a Answer) OptsOut() bool {
	return a.Outcome.Status == sms.Rejected && meansOptedOut(a.Outcome.Code)
}

// Send hands one message to Twilio, at most once per organisation and key, whatever is retried, replayed or lost. An error
// means that nothing is known to have been sent; asking again is always safe. It leaves one line in the log and one count per
// answer, which name the message, never the number or the body.
func (s *Service) Send(ctx context.Context, r Request) (Result, error) {
	a, err := s.attempt(ctx, r)
	if err != nil {
		return Result{}, err
	}
	result, err := s.inTurn(ctx, a)
	if err != nil {
		return Result{}, err
	}
	if result.Outcome == Parked {
		if result.Explanation, err = s.explainParked(ctx, *result.Message); err != nil {
			return Result{}, err
		}
	}
	attrs := []slog.Attr{slog.String("outcome", string(result.Outcome)), slog.String("idempotency_key", r.Key)}
	if result.Message != nil {
		attrs = append(attrs, result.Message.Attr())
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.sms_send_answered", attrs...)
	s.Metrics.sent(ctx, result, a.Country)
	return result, nil
}

// inTurn makes the attempt, which of outreach is made in its turn only. The turn is taken before the row is claimed: no attempt
// that waits holds a claim. It is asked for only if an attempt seems to be needed, so that all other answers cost none; an attempt that
// is refused after all, because a cap is full by now or something else has changed between the two, gives it back.
func (s *Service) inTurn(ctx context.Context, a Attempt) (Result, error) {
	if a.Refused != nil {
		return s.refuse(ctx, a)
	}
	reserved := false
	if a.Outreach {
		seen, err := s.Store.Look(ctx, a)
		if err != nil {
			return Result{}, fmt.Errorf("look for the send: %w", err)
		}
		if seen.open(a) {
			if seen.Stopped {
				return Result{}, fmt.Errorf("claim the send: %w", ErrStopped)
			}
			wait, err := s.Limiter.Reserve(ctx, a.Sender, a.Segments, a.At)
			if err != nil {
				return Result{}, fmt.Errorf("reserve a turn: %w", err)
			}
			if wait > 0 {
				return Result{Outcome: Paced, Message: seen.Message, RetryAfter: wait}, nil
			}
			reserved = true
		}
	}
	claim, err := s.claim(ctx, a)
	switch {
	case err != nil:
		return Result{}, err
	case claim.Won:
		return s.transmit(ctx, *claim.Message)
	case reserved:
		if err := s.Limiter.Cancel(ctx, a.Sender, a.Segments); err != nil {
			return Result{}, fmt.Errorf("cancel a turn: %w", err)
		}
	}
	return resultOf(claim, a), nil
}

// refuse answers for a recipient who may not be texted: what is or may be at Twilio already is answered for as ever.
func (s *Service) refuse(ctx context.Context, a Attempt) (Result, error) {
	seen, err := s.Store.Look(ctx, a)
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("look for the send: %w", err)
	case seen.Message != nil && !seen.Message.Matches(a):
		return Result{}, ErrKeyReused
	case seen.Message == nil || seen.Message.Status == sms.Throttled:
		return Result{Outcome: Rejected, Message: seen.Message, Explanation: a.Refused.Error(), Number: true}, nil
	}
	return resultOf(seen.Claim, a), nil
}

// attempt checks the request and makes an attempt of it.
func (s *Service) attempt(ctx context.Context, r Request) (Attempt, error) {
	now := s.Now()
	switch {
	case r.To.IsZero():
		return Attempt{}, fmt.Errorf("%w: to is missing", sms.ErrInvalid)
	case r.Body == "":
		return Attempt{}, fmt.Errorf("%w: body is missing", sms.ErrInvalid)
	case r.Key == "" || utf8.RuneCountInString(r.Key) > MaxKey || Storable(r.Key) != r.Key:
		return Attempt{}, fmt.Errorf("%w: idempotency_key must have 1 to %d characters", sms.ErrInvalid, MaxKey)
	case strings.HasPrefix(r.Key, AnswerKeys) != r.DespiteHold, r.Confirms != uuid.Nil && !r.DespiteHold:
		return Attempt{}, fmt.Errorf("%w: idempotency_key must not begin with %s, which our own answers do", sms.ErrInvalid, AnswerKeys)
	}
	decided, err := s.settingsFor(ctx, r)
	if err != nil {
		return Attempt{}, err
	}
	country, refused := s.checkNumber(r, decided.Numbers)
	from, err := s.Senders.For(ctx, r.OrgID, r.To.String(), country)
	if err != nil {
		return Attempt{}, err
	}
	r.CorrelationID, r.UnknownPolicy = Storable(r.CorrelationID), cmp.Or(r.UnknownPolicy, ConfirmAbsentThenResend)
	return Attempt{
		Request: r, MessageID: uuid.Must(uuid.NewV7()), Sender: from, BodyHash: sha256.Sum256([]byte(r.Body)),
		Segments: sms.Segments(string(r.Body)).Count, Token: uuid.Must(uuid.NewRandom()),
		At: now, LeaseUntil: now.Add(s.Lease), Timeout: s.Timeout, Limits: decided.Caps.of(r), Country: country, Refused: refused,
	}, nil
}

// claim locks the message row for this attempt, if no other attempt holds it. Once it is asked for, the caller may hang up: a claim that
// is committed and then not made would hold the row until its lease is over and be in doubt from then on. For the same reason a claim that
// the database did not answer is asked for again until the lease is over: the row that has our own token is ours, and no call was made
// under it.
func (s *Service) claim(ctx context.Context, a Attempt) (Claim, error) {
	if err := ctx.Err(); err != nil {
		return Claim{}, fmt.Errorf("claim the send: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Lease)
	defer cancel()
	pause, open := claimPause, false // open: our claim may be committed, or may yet be
	for try := 1; ; try++ {
		trying, cancel := context.WithTimeout(ctx, claimTimeout)
		claim, err := s.Store.Claim(trying, a)
		cancel()
		open = open || errors.Is(err, sms.ErrUnanswered)
		if err == nil {
			return claim, nil
		}
		if again := try == 1 || open; !again || !errors.Is(err, sms.ErrUnavailable) || !process.RestOnMachineClock(ctx, pause, nil) {
			return Claim{}, fmt.Errorf("claim the send: %w", err)
		}
		pause = min(2*pause, claimPauseMost)
		// Under its own id: the insert before may still be on its way, and must collide with this one by its key alone.
		a.MessageID = uuid.Must(uuid.NewV7())
	}
}

// transmit makes the attempt that was claimed and writes the answer down. From here on the caller may hang up: an
// aborted call would leave us not knowing, and an answer that is not written down is lost.
//
// The call is made within the lease. If that does not leave it its whole time, as when the machine was suspended or the database was
// silent, nothing is written to Twilio, and the outcome says so: a STOP may be acknowledged meanwhile, and others take the attempt for
// lost.
func (s *Service) transmit(ctx context.Context, m Message) (Result, error) {
	ctx = context.WithoutCancel(ctx)
	left := s.Timeout
	if m.LeaseUntil.Sub(s.Now()) < left {
		left = 0
	}
	calling, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	outcome := s.hand(calling, m)
	answer := Answer{MessageID: m.ID, Token: m.AttemptToken, Outcome: outcome, At: s.Now()}
	settled, err := s.settle(ctx, m, answer)
	if err != nil {
		return Result{}, fmt.Errorf("write down Twilio's answer (%s, SID %q) about message %s: %w", outcome.Status, outcome.SID, m.ID, err)
	}
	s.settled.notify()
	if twilio.OfAccount(outcome.Code) {
		s.Log.WarnContext(ctx, "messaging.account_refused", "org_id", m.OrgID, "sender_id", m.SenderID, "code", outcome.Code)
		s.Metrics.accounts.Add(ctx, 1)
	}
	switch {
	case outcome.Status == sms.Accepted && settled.SID == outcome.SID:
		return Result{Outcome: Accepted, Message: &settled}, nil
	case outcome.Status == sms.Accepted:
		s.Log.ErrorContext(ctx, "messaging.sms_answer_not_adopted", slog.String("answered_sid", outcome.SID), settled.Attr())
	case answer.OptsOut() && !settled.Accepted():
		return Result{Outcome: OptedOut, Message: &settled}, nil
	}
	return resultOfRow(&settled, answer.At), nil
}

// hand gives a message to its account at Twilio. Without the credentials nothing is asked of Twilio, and the outcome says so.
func (s *Service) hand(ctx context.Context, m Message) twilio.Outcome {
	through, err := carrierOf(ctx, s.Senders, s.Carrier, m)
	if err != nil {
		s.Log.WarnContext(ctx, "messaging.sender_unusable", "sender_id", m.SenderID, "error", err)
		return twilio.Outcome{Status: sms.Throttled, Reason: "never reached Twilio: the credentials of the sender cannot be had"}
	}
	return through.Send(ctx, twilio.Outgoing{To: m.To, Body: m.Body, StatusCallback: s.callback(m.ID)})
}

// settle tries more than once: the database may be failing over, and Twilio's answer cannot be asked for again.
func (s *Service) settle(ctx context.Context, claimed Message, a Answer) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, SettleBound)
	defer cancel()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var failures []error
	for try := range settleTries {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return Message{}, errors.Join(append(failures, ctx.Err())...)
		}
		trying, cancel := context.WithTimeout(ctx, SettleTimeout)
		m, err := s.Store.Settle(trying, claimed, a)
		cancel()
		if err == nil {
			return m, nil
		}
		failures = append(failures, err)
		pause.Reset(settlePause << try)
	}
	return Message{}, errors.Join(failures...)
}
