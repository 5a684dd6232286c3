package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
)

const (
	// confirmWithin sets how long after a STOP it may be confirmed, 47 CFR 64.1200(a)(12): one message, which says nothing else. A STOP that
	// was found later than that is not confirmed any more.
	confirmWithin = 5 * time.Minute
	// helpWithin sets how long a call for help is worth an answer.
	helpWithin = time.Hour
	// HelpPause sets how soon a second call for help of one person is answered. A machine that answers our answer gets no third.
	HelpPause = 10 * time.Minute
	// askWithin is the time within which a person is asked about words that may be an opt-out. Later an operator reads them first.
	askWithin = time.Hour
	// StopPause sets how soon a second opt-out of one person is confirmed: a person who opts in and out must not make us send.
	StopPause = 6 * time.Hour

	// ReplyInterval sets how often due replies are looked for without being woken.
	ReplyInterval = 3 * time.Second
	replyBatch    = 64
	replyCalls    = 8
	// replyLease sets how long a process has a reply that it claimed. Sending is safe without the lease; it saves a second call.
	replyLease = time.Minute
)

// ReplyKind is the subject of a reply.
type ReplyKind string

// The kinds.
const (
	ConfirmStop ReplyKind = "stop"
	GiveHelp    ReplyKind = "help"
	AskWhether  ReplyKind = "ask" // the texts are to stop, of a person who is held by words that may say so
)

// Reply is our answer to a person's words about consent: Twilio answers its own English words by itself, but no others.
// It is stored together with the person's message and sent after it.
type Reply struct {
	MessageID uuid.UUID // the person's message
	OrgID     uuid.UUID
	ProfileID uuid.UUID
	Phone     sms.Phone
	Kind      ReplyKind
	Body      string
	Key       string
	CreatedAt time.Time
	ExpiresAt time.Time
	DueAt     time.Time     // when it is tried next; zero once it is settled
	Outcome   string        // how it ended; empty before
	SentAs    *send.Message // what Twilio took; nil before
}

// The ends of a reply that was not sent; another ends with the outcome of its send.
const (
	replyExpired = "expired"
	replyRefused = "refused"
)

// LogValue names the reply and shows neither a number nor words.
func (r Reply) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("message_id", r.MessageID.String()), slog.String("kind", string(r.Kind)), slog.String("outcome", r.Outcome),
	)
}

// settled returns the reply as it stands after its send was asked for. What is in doubt is asked about until it is not: the claim
// itself lets nothing pass after ExpiresAt.
func (r Reply) settled(result send.Result, now time.Time) Reply {
	switch result.Outcome {
	case send.Accepted, send.AlreadyAccepted:
		r.Outcome, r.DueAt, r.SentAs = string(send.Accepted), time.Time{}, result.Message
	case send.OptedOut, send.RemindersOff, send.Rejected, send.Parked, send.GivenUp:
		r.Outcome, r.DueAt = string(result.Outcome), time.Time{}
	case send.InFlight, send.Unknown, send.Held, send.Suspended, send.Capped: // no hold and no cap holds it; a suspension the question
		r.DueAt = now.Add(result.RetryAfter)
	case send.Throttled, send.Paced:
		if r.DueAt = now.Add(result.RetryAfter); !r.DueAt.Before(r.ExpiresAt) {
			r.Outcome, r.DueAt = replyExpired, time.Time{}
		}
	}
	return r
}

// request is the send of a reply: at most once, whichever process asks and however often. One that confirms an opt-out passes where
// nothing else does, as long as that opt-out is the last line of the ledger. A safety hold keeps none of them back.
func (r Reply) request() (send.Request, error) {
	body, err := sms.NewBody(r.Body)
	if err != nil {
		return send.Request{}, fmt.Errorf("body: %w", err)
	}
	request := send.Request{
		OrgID: r.OrgID, ProfileID: r.ProfileID, To: r.Phone, Body: body, Key: r.Key, CorrelationID: r.MessageID.String(), DespiteHold: true,
	}
	if r.Kind == ConfirmStop {
		request.Confirms = r.MessageID
	}
	if r.Kind != GiveHelp { // one confirmation or question may be lost; two may not be sent
		request.UnknownPolicy = send.NeverDuplicate
	}
	return request, nil
}

// Loop repeats Respond, soon after a message was recorded. Any number of processes share the work.
func (s *Service) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once:   s.Respond,
		Failed: func(ctx context.Context, err error) { s.Log.WarnContext(ctx, "messaging.consent_reply", "error", err) },
		Rest:   rest, Every: ReplyInterval, Wake: s.wake,
		Bound: 2 * (s.Send.Timeout + send.SettleBound), // a reply is claimed, sent, written down and settled
	}
}

// Respond sends one batch of the replies that are due, and reports whether there may be more. The errors of single replies are
// joined; each of those is due again a minute later.
func (s *Service) Respond(ctx context.Context) (more bool, err error) {
	now := s.Now()
	due, err := s.Store.ClaimReplies(ctx, now, now.Add(replyLease), replyBatch)
	if err != nil {
		return false, fmt.Errorf("claim replies: %w", err)
	}
	failures := make([]error, len(due)) // each its own place: one failure must not hide or stop the others
	var group errgroup.Group
	group.SetLimit(replyCalls)
	for i, reply := range due {
		group.Go(func() error {
			if err := s.answer(ctx, reply); err != nil {
				failures[i] = fmt.Errorf("reply to %s: %w", reply.MessageID, err)
			}
			process.Progress(ctx)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	return len(due) == replyBatch, errors.Join(failures...)
}

func (s *Service) answer(ctx context.Context, reply Reply) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	reply, err := s.ask(ctx, reply)
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), send.SettleTimeout)
	defer cancel()
	if err := s.Store.SettleReply(settling, reply); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if reply.Outcome != "" {
		s.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.consent_reply_settled", slog.Any("reply", reply))
		s.Metrics.replied(ctx, reply)
	}
	return nil
}

// ask sends it. An answer that came too late for help is no help, and so is a question; a confirmation that is too late is refused by
// the claim, which still finds one that was in time.
func (s *Service) ask(ctx context.Context, reply Reply) (Reply, error) {
	now := s.Now()
	if reply.Kind != ConfirmStop && !now.Before(reply.ExpiresAt) {
		reply.Outcome, reply.DueAt = replyExpired, time.Time{}
		return reply, nil
	}
	var result send.Result
	request, err := reply.request()
	if err == nil {
		result, err = s.Send.Send(ctx, request)
	}
	switch {
	case errors.Is(err, senders.ErrNoSender), errors.Is(err, sms.ErrInvalid), errors.Is(err, send.ErrKeyReused), errors.Is(err, sms.ErrBody):
		reply.Outcome, reply.DueAt = replyRefused, time.Time{}
		return reply, nil
	case err != nil:
		return Reply{}, err
	}
	return reply.settled(result, s.Now()), nil
}

// replyTo is the reply that a message calls for, if any. changed says that it opted the person out just now, held that it begins a hold.
func (e Entry) replyTo(r consent.Reading, current consent.State, changed, held bool) *Reply {
	reply := Reply{
		MessageID: e.ID, OrgID: e.OrgID, ProfileID: e.ProfileID, Phone: e.From, CreatedAt: e.At, DueAt: e.At,
	}
	switch {
	case r.Carrier != consent.Passes: // it answers that itself
		return nil
	case r.Effect == consent.OptOut && changed:
		reply.Kind, reply.Body, reply.ExpiresAt = ConfirmStop, e.Copy.Stopped(r.Locale), e.ReceivedAt.Add(confirmWithin)
	case r.Effect == consent.Help && current != consent.OptedOut:
		reply.Kind, reply.Body, reply.ExpiresAt = GiveHelp, e.Copy.Help(r.Locale), e.ReceivedAt.Add(helpWithin)
	case held:
		reply.Kind, reply.Body, reply.ExpiresAt = AskWhether, e.Copy.Asks(consent.LocaleOf(e.Locale, r.Locale)), e.ReceivedAt.Add(askWithin)
	default:
		return nil
	}
	reply.Key = send.AnswerKeys + string(reply.Kind) + ":" + e.SID
	if e.Elsewhere || len(reply.Key) > send.MaxKey { // an id of WhatsApp's holds the person's number, and keys are logged
		reply.Key = send.AnswerKeys + string(reply.Kind) + ":" + e.ID.String()
	}
	if !e.At.Before(reply.ExpiresAt) {
		return nil
	}
	return &reply
}
