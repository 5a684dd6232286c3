package messagingtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// Send sends at most one message per key.
func (s *Service) Send(_ context.Context, in *messagingv1.SendRequest) (*messagingv1.SendResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer, err := s.unasked(in); answer != nil || err != nil {
		return answer, err
	}
	if wait := s.turn.Sub(s.now()); in.GetMessageClass() == messagingv1.MessageClass_MESSAGE_CLASS_OUTREACH && s.every > 0 {
		if wait > 0 {
			return &messagingv1.SendResponse{Outcome: messagingv1.Outcome_OUTCOME_THROTTLED, RetryAfter: durationpb.New(wait)}, nil
		}
		s.turn = s.now().Add(s.every)
	}
	return s.attempt(in)
}

// unasked is the answer that takes no attempt; nil when one is made.
func (s *Service) unasked(in *messagingv1.SendRequest) (*messagingv1.SendResponse, error) {
	switch r, known := s.rows[in.GetIdempotencyKey()]; {
	case s.down:
		return nil, unavailable()
	case in.GetTo() == "" || in.GetBody() == "" || in.GetIdempotencyKey() == "":
		return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	case in.GetOrgId() != s.orgID:
		return nil, refuse(codes.FailedPrecondition, messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER)
	case known && (r.body != in.GetBody() || r.message.GetTo() != in.GetTo()):
		return nil, refuse(codes.AlreadyExists, messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
	case known && r.sending:
		return waiting(messagingv1.Outcome_OUTCOME_IN_FLIGHT, r), nil
	case known && r.state == messagingv1.Outcome_OUTCOME_ACCEPTED:
		return s.accepted(messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED, r), nil
	case known && r.state == messagingv1.Outcome_OUTCOME_UNKNOWN:
		return waiting(messagingv1.Outcome_OUTCOME_UNKNOWN, r), nil
	case known && r.state == messagingv1.Outcome_OUTCOME_REJECTED:
		return rejected(r), nil
	case known && (r.state == messagingv1.Outcome_OUTCOME_PARKED || r.state == messagingv1.Outcome_OUTCOME_GIVEN_UP):
		return undecided(r), nil
	case s.stopped[in.GetTo()]:
		return &messagingv1.SendResponse{Outcome: messagingv1.Outcome_OUTCOME_OPTED_OUT}, nil
	case !s.older && s.refusesReminder(in):
		if slices.Contains(in.GetUnderstands(), messagingv1.Outcome_OUTCOME_REMINDERS_OFF) {
			return &messagingv1.SendResponse{Outcome: messagingv1.Outcome_OUTCOME_REMINDERS_OFF}, nil
		}
		return &messagingv1.SendResponse{Outcome: messagingv1.Outcome_OUTCOME_OPTED_OUT}, nil
	case s.status.GetStatus() == "suspended" || s.status.GetStatus() == "ended":
		return nil, &rpc.Error{
			Code: codes.ResourceExhausted, Reason: messagingv1.Reason_REASON_SEND_CAPPED.String(), Domain: "paceline.messaging.v1",
			Message: "the organisation is suspended or has ended", RetryAfter: time.Minute,
		}
	case s.full:
		return nil, &rpc.Error{
			Code: codes.ResourceExhausted, Reason: messagingv1.Reason_REASON_SEND_CAPPED.String(), Domain: "paceline.messaging.v1",
			Message: "as much was sent as the cap allows", RetryAfter: RetryAfter,
		}
	case s.holds[in.GetTo()].GetHeld() && s.holds[in.GetTo()].GetVersion() > in.GetHoldVersion(), s.words[in.GetTo()] != "":
		if slices.Contains(in.GetUnderstands(), messagingv1.Outcome_OUTCOME_HELD) {
			return &messagingv1.SendResponse{Outcome: messagingv1.Outcome_OUTCOME_HELD, RetryAfter: durationpb.New(RetryAfter)}, nil
		}
		return &messagingv1.SendResponse{Outcome: messagingv1.Outcome_OUTCOME_THROTTLED, RetryAfter: durationpb.New(RetryAfter)}, nil
	}
	return nil, nil //nolint:nilnil // see above
}

// ExplainSend returns the answer that Send would give, with the one gate that decides.
func (s *Service) ExplainSend(_ context.Context, in *messagingv1.ExplainSendRequest) (*messagingv1.ExplainSendResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, err := s.unasked(in.GetSend())
	outcome := "sent"
	switch reason, _ := rpc.Reason(err); {
	case reason == messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED.String():
		outcome = "key_reused"
	case reason == messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER.String():
		outcome = "no_sender"
	case reason == messagingv1.Reason_REASON_SEND_CAPPED.String() && !s.full:
		outcome = "suspended"
	case err != nil:
		return nil, err
	case answer != nil:
		outcome = strings.ToLower(strings.TrimPrefix(answer.GetOutcome().String(), "OUTCOME_"))
	}
	gate := &explainv1.Gate{Name: "attempt", Passed: outcome == "sent", Fact: "it would be " + outcome}
	if !gate.GetPassed() {
		gate.Change = "something else"
	}
	e := &explainv1.Explanation{Outcome: outcome, Gates: []*explainv1.Gate{gate}, Advice: gate.GetChange()}
	if s.lost && outcome == "already_accepted" {
		e.Gates = append(e.GetGates(), &explainv1.Gate{Name: "delivered", Fact: "code 30005", Change: "another number"})
		e.Advice = "another number"
	}
	if s.barred && outcome == "sent" {
		e.Gates = append(e.GetGates(), &explainv1.Gate{Name: "backoff", Passed: true, Fact: "code 30034"})
		e.NeedsPerson, e.Advice, e.Next = true, "register the number", "Twilio refuses it again."
	}
	return &messagingv1.ExplainSendResponse{Explanation: e}, nil
}

// attempt calls the carrier, with the key in flight and the lock released meanwhile.
func (s *Service) attempt(in *messagingv1.SendRequest) (*messagingv1.SendResponse, error) {
	outcome := Accept
	if s.script != nil {
		outcome = s.script(len(s.calls), in)
	}
	s.calls = append(s.calls, in)
	if outcome == Unavailable {
		return nil, unavailable()
	}
	r, known := s.rows[in.GetIdempotencyKey()] // every attempt uses the same row
	if !known {
		r = &row{body: in.GetBody(), message: &messagingv1.Message{
			MessageId: uuid.Must(uuid.NewV7()).String(), ProfileId: in.GetProfileId(), Direction: "outbound", To: in.GetTo(), Body: in.GetBody(),
			IdempotencyKey: in.GetIdempotencyKey(), CreatedAt: timestamppb.New(s.now()),
		}}
		s.rows[in.GetIdempotencyKey()] = r
	}
	r.sending, r.lost, r.message.ErrorCode, r.askedAt = true, false, nil, s.now()
	if gate := s.gate; gate != nil {
		s.mu.Unlock()
		gate(in)
		s.mu.Lock()
	}
	r.sending = false
	return s.settle(r, outcome)
}

func (s *Service) settle(r *row, outcome Outcome) (*messagingv1.SendResponse, error) {
	switch outcome {
	case Throttle:
		r.state = messagingv1.Outcome_OUTCOME_THROTTLED
		return waiting(r.state, r), nil
	case Misconfigured:
		code := int32(ConfigCode)
		r.message.ErrorCode, r.state = &code, messagingv1.Outcome_OUTCOME_THROTTLED
		answer := waiting(r.state, r)
		answer.Explanation = "Twilio does not know our account; to do: correct TWILIO_AUTH_TOKEN"
		return answer, nil
	case Reject:
		code := int32(RejectCode)
		r.message.ErrorCode, r.state = &code, messagingv1.Outcome_OUTCOME_REJECTED
		return rejected(r), nil
	case UnknownMissed:
		r.state = messagingv1.Outcome_OUTCOME_UNKNOWN
		return waiting(r.state, r), nil
	case ParkMissed:
		r.state = messagingv1.Outcome_OUTCOME_PARKED
		return undecided(r), nil
	case Accept, AcceptLost, AcceptNoRow, AcceptNoSID, UnknownTaken, UnknownForever, ParkTaken, Unavailable:
	}
	s.take(r)
	switch outcome {
	case UnknownTaken, UnknownForever:
		r.state, r.lost = messagingv1.Outcome_OUTCOME_UNKNOWN, outcome == UnknownForever
		return waiting(messagingv1.Outcome_OUTCOME_UNKNOWN, r), nil
	case ParkTaken:
		r.state = messagingv1.Outcome_OUTCOME_PARKED
		return undecided(r), nil
	case Accept, AcceptLost, AcceptNoRow, AcceptNoSID, UnknownMissed, ParkMissed, Throttle, Reject, Unavailable, Misconfigured:
	}
	r.adopt(r.takenAt)
	answer := s.accepted(messagingv1.Outcome_OUTCOME_ACCEPTED, r)
	switch outcome {
	case AcceptLost:
		return nil, unavailable()
	case AcceptNoRow:
		return &messagingv1.SendResponse{Outcome: answer.GetOutcome()}, nil
	case AcceptNoSID:
		return &messagingv1.SendResponse{
			Outcome: answer.GetOutcome(), Message: &messagingv1.Message{MessageId: r.message.GetMessageId(), AcceptedAt: r.message.GetAcceptedAt()},
		}, nil
	case Accept, UnknownTaken, UnknownForever, ParkTaken, UnknownMissed, ParkMissed, Throttle, Reject, Unavailable, Misconfigured:
	}
	return answer, nil
}

// take is the carrier taking the message, whether its answer arrives or not.
func (s *Service) take(r *row) {
	now := s.now()
	r.takenAt = now
	s.taken = append(s.taken, Text{
		MessageID: r.message.GetMessageId(), To: r.message.GetTo(), Body: r.body, Key: r.message.GetIdempotencyKey(), At: now,
	})
}

// status returns the status of a message that the carrier is not known to have.
func (r *row) status() string {
	if r.sending {
		return "sending"
	}
	return map[messagingv1.Outcome]string{
		messagingv1.Outcome_OUTCOME_UNKNOWN: "unknown", messagingv1.Outcome_OUTCOME_PARKED: "parked",
		messagingv1.Outcome_OUTCOME_THROTTLED: "throttled", messagingv1.Outcome_OUTCOME_REJECTED: "rejected",
		messagingv1.Outcome_OUTCOME_GIVEN_UP: "given_up",
	}[r.state]
}

func (r *row) copy() *messagingv1.Message { return proto.CloneOf(r.message) }

func (s *Service) accepted(outcome messagingv1.Outcome, r *row) *messagingv1.SendResponse {
	answer := &messagingv1.SendResponse{Outcome: outcome, Message: r.copy()}
	if !s.older {
		answer.AcceptedAgo = durationpb.New(s.now().Sub(r.message.GetAcceptedAt().AsTime()))
		answer.AskedAgo = durationpb.New(s.now().Sub(r.askedAt))
	}
	return answer
}

func waiting(outcome messagingv1.Outcome, r *row) *messagingv1.SendResponse {
	return &messagingv1.SendResponse{Outcome: outcome, Message: r.copy(), RetryAfter: durationpb.New(RetryAfter)}
}

func rejected(r *row) *messagingv1.SendResponse {
	return &messagingv1.SendResponse{
		Outcome: messagingv1.Outcome_OUTCOME_REJECTED, Message: r.copy(), Explanation: "this is no phone number; correct it",
	}
}

func undecided(r *row) *messagingv1.SendResponse {
	id := r.message.GetMessageId()
	return &messagingv1.SendResponse{
		Outcome: r.state, Message: r.copy(),
		Explanation: "two of Twilio's may be it; to do: see GET /v1/messages/" + id + "/evidence, then POST /v1/messages/" + id + ":resolve",
	}
}

func unavailable() error { return refuse(codes.Unavailable, messagingv1.Reason_REASON_UNAVAILABLE) }

func refuse(code codes.Code, reason messagingv1.Reason) error {
	return &rpc.Error{Code: code, Reason: reason.String(), Domain: "paceline.messaging.v1", Message: reason.String()}
}
