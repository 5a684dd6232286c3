package tickets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

const (
	// replyWindow is for how long after their text a person may be answered in quiet hours.
	replyWindow = 24 * time.Hour
	// answerLimit is for how long an answer is tried that Twilio or a cap keeps waiting: later it may be out of place.
	answerLimit = time.Hour
	answerPause = 2 * time.Second
	// purpose tells messaging what the message is for.
	purpose = "conversation"
)

// answerJob is the payload of the job that sends an answer.
type answerJob struct {
	AnswerID  string `json:"answer_id"`
	ProfileID string `json:"profile_id"` // an erasure finds the job by it
}

// Send keeps an answer and tries to send it, at most once for its key. The answer is returned as it stands then.
func (s *Service) Send(ctx context.Context, a Answer) (Answer, bool, error) {
	a.ID, a.CreatedAt, a.Status = newID(), s.Now(), Sending
	payload, err := json.Marshal(answerJob{AnswerID: a.ID, ProfileID: a.ProfileID})
	if err != nil {
		return Answer{}, false, fmt.Errorf("encode a job: %w", err)
	}
	subject := "answer:" + a.ID
	job := later(conversation.NewJob(a.OrgID, conversation.SourceInternal, conversation.EventAnswer, subject, subject, payload, a.CreatedAt))
	kept, duplicate, err := s.Store.KeepAnswer(ctx, a, job)
	if err != nil || duplicate {
		return kept, duplicate, err
	}
	s.try(ctx, job.ID, s.sendAnswer)
	now, err := s.Store.Answer(ctx, a.OrgID, a.ID)
	return now, false, err
}

// Recipient is the person of an answer, as they are now.
type Recipient struct {
	Phone       string
	Hold        bool
	HoldVersion int64
	WroteAt     *time.Time // their newest text, of the ticket or in a conversation
	Settled     bool       // the answer
}

// Settlement records the outcome of a try to send an answer.
type Settlement struct {
	Answer      Answer
	Status      AnswerStatus
	Reason      Why
	Explanation string
	RetryAt     time.Time
	MessageID   string
	SentAt      time.Time // of one that was sent
	At          time.Time
}

// sendAnswer is the job handler that sends an answer. Consent, holds and caps are checked by the statement that claims the message.
func (s *Service) sendAnswer(ctx context.Context, j queue.Job) error {
	var p answerJob
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return conversation.Unreadable(j, err)
	}
	a, err := s.Store.Answer(ctx, j.OrgID, p.AnswerID)
	if errors.Is(err, ErrNotFound) { // erased
		return nil
	}
	if err != nil {
		return err
	}
	to, err := s.Store.Recipient(ctx, a)
	switch {
	case errors.Is(err, people.ErrNoProfile):
		return nil
	case err != nil:
		return err
	case to.Settled:
		return nil
	}
	now := s.Now()
	end := Settlement{Answer: a, Status: NotSent, At: now}
	q, _, err := s.Quiet.QuietHours(ctx, a.OrgID, to.Phone, a.ProfileID)
	switch opens := q.Next(now); {
	case errors.Is(err, erasure.ErrBegun):
		end.Reason, end.Explanation = WhyRejected, "the person is being erased"
		return s.unsent(ctx, end)
	case err != nil:
		return err
	case opens.After(now) && (to.WroteAt == nil || now.Sub(*to.WroteAt) > replyWindow) && a.mayWait():
		end.Reason, end.RetryAt = WhyQuietHours, opens
		end.Explanation = "it is night where the person is, and they have not written in the last 24 hours; " +
			"send it when the quiet hours have ended"
		return s.unsent(ctx, end)
	case to.Hold: // messaging is told the version of a hold that was lifted, and this one was not
		end.Reason, end.Explanation = WhySafetyHold, "the person is on a safety hold; release them (POST /v1/profiles/"+a.ProfileID+
			":release) and send it anew: while the ticket is open, the flow sends nothing"
		return s.unsent(ctx, end)
	case now.Sub(j.CreatedAt) > answerLimit && (a.Reason == "" || a.Reason == WhyUnavailable):
		end.Reason, end.Explanation = WhyExpired, "for an hour it could not be handed to messaging; send it anew if it is still wanted"
		return s.unsent(ctx, end)
	}
	sent, err := s.Carrier.Send(ctx, message(a, to))
	if err != nil {
		return s.notHandedOver(ctx, end, err)
	}
	return s.follow(ctx, end, sent, now.Sub(j.CreatedAt))
}

// key names an answer to messaging.
func (a Answer) key() string { return "answer:" + a.ID }

// unsent ends an answer that is not to be sent. An earlier try may have sent it, and its process have ended before it was recorded: what
// messaging knows of its key decides.
func (s *Service) unsent(ctx context.Context, end Settlement) error {
	fate, err := s.Carrier.Fate(ctx, end.Answer.OrgID, end.Answer.key())
	switch {
	case errors.Is(err, people.ErrUnavailable):
		return s.notHandedOver(ctx, end, err)
	case err != nil:
		return err
	}
	end.MessageID = fate.MessageID
	switch {
	case !fate.AcceptedAt.IsZero():
		end.Status, end.Reason, end.Explanation, end.RetryAt = Sent, "", "", time.Time{}
		end.SentAt = fate.AcceptedAt
	case fate.InDoubt:
		return s.follow(ctx, end, conversation.Sent{Outcome: conversation.Unknown, MessageID: fate.MessageID}, 0)
	case fate.Parked:
		return s.follow(ctx, end, conversation.Sent{
			Outcome: conversation.Undecided, MessageID: fate.MessageID, Explanation: "an operator has to resolve message " + fate.MessageID,
		}, 0)
	case end.Reason == WhyQuietHours || end.Reason == WhySafetyHold:
		return s.unlessOptedOut(ctx, end)
	}
	return s.settle(ctx, end)
}

// unlessOptedOut ends an answer that quiet hours or a hold keep back. To a person who has opted out waiting or a release would change
// nothing, so the opt-out is the reason.
func (s *Service) unlessOptedOut(ctx context.Context, end Settlement) error {
	a := end.Answer
	to, err := s.Store.Recipient(ctx, a)
	if err != nil {
		return err
	}
	would, err := s.Carrier.Explain(ctx, message(a, to))
	switch {
	case errors.Is(err, people.ErrUnavailable) && end.Reason == WhyQuietHours: // it is night, whether they have opted out or not
	case errors.Is(err, people.ErrUnavailable):
		return s.notHandedOver(ctx, end, err)
	case err != nil:
		return err
	case would.Outcome == string(session.SkipOptedOut):
		end.RetryAt = time.Time{}
		return s.follow(ctx, end, conversation.Sent{Outcome: conversation.OptedOut}, 0)
	}
	return s.settle(ctx, end)
}

// message is an answer as messaging gets it.
func message(a Answer, to Recipient) conversation.Message {
	return conversation.Message{
		OrgID: a.OrgID, ProfileID: a.ProfileID, To: to.Phone, Body: a.Body, Key: a.key(), CorrelationID: a.ID,
		Unknown: session.ConfirmAbsentThenResend, HoldVersion: to.HoldVersion, Purpose: purpose,
	}
}

// mayWait reports whether quiet hours may keep an answer back: not one that Twilio may have, which another try finds out. One that
// messaging could not be asked about may wait; what becomes known of it when messaging is back decides.
func (a Answer) mayWait() bool { return a.Reason != WhyInDoubt && a.Reason != WhyUndecided }

// notHandedOver keeps an answer for another try, unless messaging refuses it for good.
func (s *Service) notHandedOver(ctx context.Context, end Settlement, err error) error {
	switch code := status.Code(err); {
	case errors.Is(err, people.ErrUnavailable):
		end.Status, end.Reason, end.RetryAt = Sending, WhyUnavailable, time.Time{}
		end.Explanation = "messaging cannot be reached; it is tried again"
		return s.wait(ctx, end, answerPause, err)
	case errors.Is(err, people.ErrNoSender):
		end.Reason, end.Explanation = WhyRejected, people.ErrNoSender.Error()
	case code == codes.InvalidArgument || code == codes.FailedPrecondition:
		end.Reason, end.Explanation = WhyRejected, status.Convert(err).Message()
	default:
		return err
	}
	return s.settle(ctx, end)
}

// follow records the outcome of a send.
func (s *Service) follow(ctx context.Context, end Settlement, sent conversation.Sent, age time.Duration) error {
	end.MessageID = sent.MessageID
	switch sent.Outcome {
	case conversation.Accepted, conversation.AlreadyAccepted:
		end.Status, end.SentAt = Sent, sent.AcceptedAt
		return s.settle(ctx, end)
	case conversation.OptedOut:
		end.Reason, end.Explanation = WhyOptedOut, "the person has opted out; only they can opt in again, by texting START"
		return s.settle(ctx, end)
	case conversation.Held: // on no hold a moment ago: by one that has come since, or by words that nobody has judged
		end.Reason, end.Explanation = WhySafetyHold, "messaging holds what is sent to the person: they are on a safety hold by now, or words of "+
			"theirs that may be an opt-out are to be judged; do that and send it anew"
		return s.settle(ctx, end)
	case conversation.KeyReused: // the phone was changed since the first try, which decides
		end.Reason, end.Explanation = WhyRejected, "the person's number was changed since it was first tried; send it anew"
		return s.unsent(ctx, end)
	case conversation.Rejected, conversation.RemindersOff, conversation.GivenUp:
		end.Reason, end.Explanation = WhyRejected, sent.Explanation
		return s.settle(ctx, end)
	case conversation.Undecided:
		end.Status, end.Reason, end.Explanation = Sending, WhyUndecided, sent.Explanation
		return s.wait(ctx, end, answerLimit, errors.New("an operator has to resolve the message"))
	case conversation.InFlight, conversation.Unknown:
		end.Status, end.Reason, end.Explanation = Sending, WhyInDoubt, "it is not known yet whether Twilio took it"
	case conversation.Throttled:
		end.Status, end.Reason, end.Explanation = Sending, WhyThrottled, "Twilio asks to wait; it is tried again"
	case conversation.Capped:
		end.Status, end.Reason = Sending, WhyCapped
		end.Explanation = "as much was sent as the caps allow, or the organisation is suspended; it is tried again"
	}
	if age > answerLimit && end.Reason != WhyInDoubt {
		end.Status, end.Reason, end.Explanation = NotSent, WhyExpired, "for an hour it could not be sent: "+end.Explanation
		return s.settle(ctx, end)
	}
	return s.wait(ctx, end, max(sent.RetryAfter, answerPause), &conversation.Pending{Outcome: sent.Outcome})
}

// wait records why an answer has not gone out yet, and tries it again.
func (s *Service) wait(ctx context.Context, end Settlement, after time.Duration, cause error) error {
	if err := s.settle(ctx, end); err != nil {
		return err
	}
	return &queue.Snooze{After: after, Cause: cause}
}

// GiveUp settles the answer of a job that failed for good or was cancelled: it was sent, it may have been, or it will not be.
func (s *Service) GiveUp(ctx context.Context, j queue.Job, cause error) error {
	var p answerJob
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return nil //nolint:nilerr // left to the list of failed jobs
	}
	a, err := s.Store.Answer(ctx, j.OrgID, p.AnswerID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	fate, err := s.Carrier.Fate(ctx, a.OrgID, a.key())
	if err != nil {
		return err
	}
	why, then := fmt.Sprintf("its job %s failed for good: %v", j.ID, cause), "mend that and send it anew"
	if errors.Is(cause, ErrCancelled) {
		why, then = "an operator has cancelled its job "+j.ID, "send it anew if it is still wanted"
	}
	end := Settlement{Answer: a, At: s.Now(), MessageID: fate.MessageID}
	switch {
	case !fate.AcceptedAt.IsZero():
		end.Status, end.SentAt = Sent, fate.AcceptedAt
	case fate.InDoubt, fate.Parked:
		end.Status, end.Reason = Sending, WhyUndecided
		end.Explanation = fmt.Sprintf("it may have gone out: see message %s; %s", fate.MessageID, why)
	default:
		end.Status, end.Reason = NotSent, WhyRejected
		end.Explanation = why + "; " + then
	}
	return s.settle(ctx, end)
}

func (s *Service) settle(ctx context.Context, end Settlement) error {
	first, opened, err := s.Store.Settle(ctx, end)
	if err != nil {
		return err
	}
	if end.Status == NotSent {
		s.Log.InfoContext(ctx, "tickets.answer_not_sent", "answer_id", end.Answer.ID, "reason", string(end.Reason))
	}
	if first {
		s.Metrics.answered(ctx, end.At.Sub(opened))
	}
	return nil
}
