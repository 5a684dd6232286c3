package delivery

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
	"paceline.internal/services/messaging/sms"
)

const (
	// ReplyKeys is what the idempotency keys of our own answers to words about consent begin with. Nobody else may use such a key.
	ReplyKeys = "consent:"
	// StopKeys is the part of them that confirms an opt-out: the only texts that are asked of Twilio after a STOP.
	StopKeys = ReplyKeys + "stop:"

	// confirmWithin is how long after a STOP it may be confirmed, 47 CFR 64.1200(a)(12): one text, which says nothing else. A STOP that
	// was found later than that is not confirmed any more.
	confirmWithin = 5 * time.Minute
	// helpWithin is how long a call for help is worth an answer.
	helpWithin = time.Hour
	// HelpPause is how soon a second call for help of one person is answered. A machine that answers our answer gets no third.
	HelpPause = 10 * time.Minute
	// StopPause is how soon a second opt-out of one person is confirmed: whoever goes in and out must not make us text.
	StopPause = 6 * time.Hour

	// ReplyInterval is how often a Responder looks without being woken.
	ReplyInterval = 3 * time.Second
	replyBatch    = 64
	replyCalls    = 8
	// replyLease is how long whoever took a reply has it for themselves. Sending is safe without it; it saves asking twice.
	replyLease = time.Minute
)

// ReplyKind says what a reply is about.
type ReplyKind string

// The kinds.
const (
	ConfirmStop ReplyKind = "stop"
	GiveHelp    ReplyKind = "help"
)

// Reply is one text of ours about consent, which the person's text calls for: Twilio answers its own English words by itself,
// and nobody answers the others. It is stored together with the person's text and sent after it.
type Reply struct {
	MessageID uuid.UUID // the person's text
	OrgID     uuid.UUID
	ProfileID uuid.UUID
	Phone     sms.Phone
	Kind      ReplyKind
	Body      string
	Key       string
	CreatedAt time.Time
	ExpiresAt time.Time
	DueAt     time.Time // when it is tried next; zero once it is settled
	Outcome   string    // how it ended; empty before
	SentAs    *Message  // what Twilio took; nil before
}

// How a reply ends that was not sent; else it ends with the outcome of its send.
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

// settled says what follows for the reply from asking for its text. What is in doubt is asked about until it is not: the claim
// itself lets nothing pass after ExpiresAt.
func (r Reply) settled(result Result, now time.Time) Reply {
	switch result.Outcome {
	case Accepted, AlreadyAccepted:
		r.Outcome, r.DueAt, r.SentAs = string(Accepted), time.Time{}, result.Message
	case OptedOut, Rejected, Parked, GivenUp:
		r.Outcome, r.DueAt = string(result.Outcome), time.Time{}
	case InFlight, Unknown, Held: // a hold does not hold it
		r.DueAt = now.Add(result.RetryAfter)
	case Throttled:
		if r.DueAt = now.Add(result.RetryAfter); !r.DueAt.Before(r.ExpiresAt) {
			r.Outcome, r.DueAt = replyExpired, time.Time{}
		}
	}
	return r
}

// Reply sends a reply, as Send does: at most once, whoever asks and however often. One that confirms an opt-out passes where
// nothing else does, as long as that opt-out is the last line of the ledger. A safety hold keeps none of them back.
func (s *Service) Reply(ctx context.Context, r Reply) (Result, error) {
	body, err := sms.NewBody(r.Body)
	if err != nil {
		return Result{}, fmt.Errorf("body: %w", err)
	}
	request := Request{
		OrgID: r.OrgID, ProfileID: r.ProfileID, To: r.Phone, Body: body, Key: r.Key, CorrelationID: r.MessageID.String(), DespiteHold: true,
	}
	if r.Kind == ConfirmStop {
		request.Confirms = r.MessageID
		request.UnknownPolicy = NeverDuplicate // one confirmation may be lost; two may not be sent
	}
	return s.send(ctx, request)
}

// replyStore keeps the replies. Every method is one transaction; postgres.Store implements it.
type replyStore interface {
	// ClaimReplies takes at most limit replies that are due, and makes them due again at until.
	ClaimReplies(ctx context.Context, now, until time.Time, limit int) ([]Reply, error)
	// SettleReply keeps what has become of a reply, unless it was settled before, and writes a confirmation that was sent into the
	// ledger.
	SettleReply(ctx context.Context, r Reply) error
}

// replies sends one; Service implements it.
type replies interface {
	Reply(ctx context.Context, r Reply) (Result, error)
}

// ResponderConfig is what a Responder works with. Every field is needed.
type ResponderConfig struct {
	Store   replyStore
	Sender  replies
	Timeout time.Duration   // of one call to Twilio
	Wake    <-chan struct{} // rung when there is something to send
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
}

// Responder sends the replies that are due. Any number of them share the work.
type Responder struct {
	ResponderConfig
}

// NewResponder makes a Responder.
func NewResponder(cfg ResponderConfig) *Responder { return &Responder{ResponderConfig: cfg} }

// Loop repeats Once, soon after it is woken.
func (r *Responder) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once:   r.Once,
		Failed: func(ctx context.Context, err error) { r.Log.WarnContext(ctx, "messaging.consent_reply", "error", err) },
		Rest:   rest, Every: ReplyInterval, Wake: r.Wake,
		Bound: 2 * (r.Timeout + SettleBound), // a reply is claimed, sent, written down and settled
	}
}

// Once sends one batch of what is due, and reports whether there may be more. The errors of single replies are joined; each of
// those is due again a minute later.
func (r *Responder) Once(ctx context.Context) (more bool, err error) {
	now := r.Now()
	due, err := r.Store.ClaimReplies(ctx, now, now.Add(replyLease), replyBatch)
	if err != nil {
		return false, fmt.Errorf("claim replies: %w", err)
	}
	failures := make([]error, len(due)) // each its own place: one failure must not hide or stop the others
	var group errgroup.Group
	group.SetLimit(replyCalls)
	for i, reply := range due {
		group.Go(func() error {
			if err := r.answer(ctx, reply); err != nil {
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

func (r *Responder) answer(ctx context.Context, reply Reply) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	reply, err := r.ask(ctx, reply)
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := r.Store.SettleReply(settling, reply); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if reply.Outcome != "" {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.consent_reply_settled", slog.Any("reply", reply))
		r.Metrics.replied(ctx, reply)
	}
	return nil
}

// ask sends it. An answer that came too late for help is no help; a confirmation that is too late is refused by the claim,
// which still tells what became of one that was in time.
func (r *Responder) ask(ctx context.Context, reply Reply) (Reply, error) {
	now := r.Now()
	if reply.Kind == GiveHelp && !now.Before(reply.ExpiresAt) {
		reply.Outcome, reply.DueAt = replyExpired, time.Time{}
		return reply, nil
	}
	result, err := r.Sender.Reply(ctx, reply)
	switch {
	case errors.Is(err, ErrNoSender), errors.Is(err, ErrInvalid), errors.Is(err, ErrKeyReused), errors.Is(err, sms.ErrBody):
		reply.Outcome, reply.DueAt = replyRefused, time.Time{}
		return reply, nil
	case err != nil:
		return Reply{}, err
	}
	return reply.settled(result, r.Now()), nil
}

// replyTo is the reply that a text calls for, if any. changed says that it opted the person out just now.
func (t Text) replyTo(r consent.Reading, current consent.State, changed bool) *Reply {
	reply := Reply{
		MessageID: t.MessageID, OrgID: t.OrgID, ProfileID: t.ProfileID, Phone: t.From, CreatedAt: t.At, DueAt: t.At,
	}
	switch {
	case r.Carrier != consent.Passes: // it answers that itself
		return nil
	case r.Effect == consent.OptOut && changed:
		reply.Kind, reply.Body, reply.ExpiresAt = ConfirmStop, t.Copy.Stopped(r.Locale), t.ReceivedAt.Add(confirmWithin)
	case r.Effect == consent.Help && current != consent.OptedOut:
		reply.Kind, reply.Body, reply.ExpiresAt = GiveHelp, t.Copy.Help(r.Locale), t.ReceivedAt.Add(helpWithin)
	default:
		return nil
	}
	reply.Key = ReplyKeys + string(reply.Kind) + ":" + t.SID
	if t.Elsewhere || len(reply.Key) > maxKey { // an id of WhatsApp's holds the person's number, and keys are logged
		reply.Key = ReplyKeys + string(reply.Kind) + ":" + t.MessageID.String()
	}
	if !t.At.Before(reply.ExpiresAt) {
		return nil
	}
	return &reply
}
