// Package messagingtest plays the messaging service for onboarding's tests: in memory, over real gRPC, with the promises of
// the real one, and with outcomes that a test can script.
package messagingtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// Outcome is the treatment of one attempt by the carrier. The zero value is that it takes the message.
type Outcome int

// The outcomes.
const (
	Accept         Outcome = iota // taken, and the answer arrives
	AcceptLost                    // taken, and the answer is lost on its way to onboarding
	AcceptNoRow                   // taken, and the answer lacks the message
	AcceptNoSID                   // taken, and the answer lacks the carrier's id
	UnknownTaken                  // taken, and in doubt until Settle
	UnknownMissed                 // not taken, and in doubt until Settle; the next attempt sends it
	Throttle                      // not processed
	Reject                        // refused for good
	Unavailable                   // messaging cannot be reached, nothing happens
	UnknownForever                // taken, and in doubt until an operator resolves it
	ParkTaken                     // taken, and an operator has to find out
	ParkMissed                    // not taken, and an operator has to find out
	Misconfigured                 // not processed, because something is wrong with our own account
)

// RejectCode is Twilio's code of a refused message: the number is not valid.
const RejectCode = 21211

// ConfigCode is Twilio's code of a message that our own account may not send: authentication failed.
const ConfigCode = 20003

// RetryAfter is the pause that the answer to an unfinished send names.
const RetryAfter = 3 * time.Second

// Text is one message that the carrier took.
type Text struct {
	MessageID string
	To        string
	Body      string
	Key       string
	At        time.Time
}

// Service is the messaging service. The zero value is not ready; New makes one.
type Service struct {
	messagingv1.UnimplementedMessagingServiceServer
	messagingv1.UnimplementedSenderServiceServer

	orgID string
	ours  string
	now   func() time.Time

	mu        sync.Mutex
	rows      map[string]*row // by key
	inbound   map[string]*messagingv1.RecordInboundResponse
	last      map[string]*messagingv1.RecordInboundRequest // by SID
	stopped   map[string]bool                              // phones that have opted out
	decided   map[string]time.Time                         // of a phone, when the word about consent was said that counts
	holds     map[string]*messagingv1.SetHoldRequest
	words     map[string]string                           // by phone: the message that may be an opt-out and is not judged yet
	silent    map[string]*messagingv1.SetRemindersRequest // by phone: what was said last about reminders
	heard     []*messagingv1.InboundText
	pages     int // of heard that were read
	taken     []Text
	calls     []*messagingv1.SendRequest
	script    func(n int, in *messagingv1.SendRequest) Outcome
	gate      func(in *messagingv1.SendRequest) // called while the carrier is being called
	kept      map[string][]*auditv1.AuditEntry  // by organisation, newest first
	down      bool
	turns     *int          // that ReserveSends still has; nil for any number
	older     bool          // of the release before
	every     time.Duration // between two messages of outreach; zero for no pace
	turn      time.Time     // of the next one
	full      bool          // beneath a cap
	status    *messagingv1.SetOrganisationRequest
	settings  *messagingv1.SetOrganisationSettingsRequest
	lost      bool // what was taken did not reach its person
	forgotten bool // its senders
	barred    bool // what would be sent was refused with a code that no retry mends
}

type row struct {
	message *messagingv1.Message
	body    string
	state   messagingv1.Outcome
	sending bool
	lost    bool      // its outcome never becomes known
	askedAt time.Time // when the last attempt began
	takenAt time.Time // when the carrier took it, known here or not; zero when it did not
}

// New returns a service for the organisation that owns the number ours.
func New(orgID, ours string, now func() time.Time) *Service {
	return &Service{
		orgID: orgID, ours: ours, now: now,
		rows: map[string]*row{}, inbound: map[string]*messagingv1.RecordInboundResponse{}, stopped: map[string]bool{},
		decided: map[string]time.Time{}, holds: map[string]*messagingv1.SetHoldRequest{}, words: map[string]string{},
		silent: map[string]*messagingv1.SetRemindersRequest{}, last: map[string]*messagingv1.RecordInboundRequest{},
	}
}

// Script decides the outcome of every attempt at the carrier, counted from 0; nil accepts all of them.
func (s *Service) Script(script func(n int, in *messagingv1.SendRequest) Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.calls = script, nil
}

// First is a script that gives the outcomes to the first attempts, one each.
func First(outcomes ...Outcome) func(int, *messagingv1.SendRequest) Outcome {
	return func(n int, _ *messagingv1.SendRequest) Outcome {
		if n < len(outcomes) {
			return outcomes[n]
		}
		return Accept
	}
}

// Gate has wait called during every attempt at the carrier, while its key is in flight.
func (s *Service) Gate(wait func(in *messagingv1.SendRequest)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = wait
}

// SetDown makes every call unavailable, or none any more.
func (s *Service) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// SetBarred has explanations say that Twilio refused what would be sent with a code that no retry mends.
func (s *Service) SetBarred(barred bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.barred = barred
}

// SetLost has explanations say that what was taken did not reach its person.
func (s *Service) SetLost(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = lost
}

// SetOlder has it answer as the releases before did, which keep neither holds nor who wants no reminders, and say neither how long ago a
// message was taken nor, when they are asked for a sender, who has opted out; or as this one again.
func (s *Service) SetOlder(older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.older = older
}

// SetFull has every message wait beneath a cap, or none any more.
func (s *Service) SetFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// SetOrganisation keeps the highest version of the status of the organisation.
func (s *Service) SetOrganisation(
	_ context.Context, in *messagingv1.SetOrganisationRequest,
) (*messagingv1.SetOrganisationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	if in.GetOrgId() == s.orgID && in.GetVersion() > s.status.GetVersion() {
		s.status = in
	}
	return &messagingv1.SetOrganisationResponse{}, nil
}

// SetOrganisationSettings keeps the highest version of what the organisation has decided about sending.
func (s *Service) SetOrganisationSettings(
	_ context.Context, in *messagingv1.SetOrganisationSettingsRequest,
) (*messagingv1.SetOrganisationSettingsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	if in.GetOrgId() == s.orgID && in.GetVersion() >= s.settings.GetVersion() {
		s.settings = in
	}
	return &messagingv1.SetOrganisationSettingsResponse{Version: s.settings.GetVersion()}, nil
}

// Settings returns what the organisation has decided about sending, and its version.
func (s *Service) Settings() (*messagingv1.Sending, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings.GetSending(), s.settings.GetVersion()
}

// ForgetOrganisation keeps that the senders of the organisation are deleted, once it has ended. The first call leaves numbers to be erased.
func (s *Service) ForgetOrganisation(
	_ context.Context, in *messagingv1.ForgetOrganisationRequest,
) (*messagingv1.ForgetOrganisationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	more := false
	if in.GetOrgId() == s.orgID {
		if s.status.GetStatus() != "ended" {
			return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
		}
		more, s.forgotten = !s.forgotten, true
	}
	return &messagingv1.ForgetOrganisationResponse{More: more}, nil
}

// Forgotten reports whether the senders of the organisation are deleted.
func (s *Service) Forgotten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgotten
}

// Status returns the status that the organisation was last set to, and its version.
func (s *Service) Status() (status string, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.GetStatus(), s.status.GetVersion()
}

// SetInterval has messages of outreach wait for their turns, which are as far apart as given; zero has none wait any more.
func (s *Service) SetInterval(every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.every = every
}

// Settle finds out what happened to the messages in doubt, as by a receipt that arrives now.
func (s *Service) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.state == messagingv1.Outcome_OUTCOME_UNKNOWN && !r.lost {
			s.learn(r, s.now())
		}
	}
}

// learn is messaging finding out what happened to a message: if the carrier has it, that counts as accepted at the given time; if
// not, it may be sent.
func (s *Service) learn(r *row, accepted time.Time) {
	if r.takenAt.IsZero() {
		r.state = messagingv1.Outcome_OUTCOME_THROTTLED
		return
	}
	r.adopt(accepted)
}

// listed returns when a message that was found in the carrier's list counts as accepted; the list's times are in whole seconds.
func (s *Service) listed(r *row) time.Time {
	at := r.takenAt.Add(time.Second - time.Nanosecond).Truncate(time.Second)
	if now := s.now(); at.After(now) {
		return now
	}
	return at
}

// adopt records that the carrier has the message.
func (r *row) adopt(at time.Time) {
	r.state = messagingv1.Outcome_OUTCOME_ACCEPTED
	r.message.TwilioSid = "SM" + strings.ReplaceAll(r.message.GetMessageId(), "-", "")
	r.message.AcceptedAt, r.message.Status, r.message.ErrorCode = timestamppb.New(at), "accepted", nil
}

// Resolve is an operator's resolution of the message of a key, as ResolveMessage takes it. It reports whether there was one to be
// resolved.
func (s *Service) Resolve(key string, word messagingv1.Resolution) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.rows[key]
	if !known || r.sending || r.state == messagingv1.Outcome_OUTCOME_ACCEPTED {
		return false
	}
	switch word {
	case messagingv1.Resolution_RESOLUTION_SENT:
		if r.takenAt.IsZero() {
			return false // there is no such message in the carrier's list
		}
		r.adopt(s.listed(r))
	case messagingv1.Resolution_RESOLUTION_NOT_SENT:
		r.state = messagingv1.Outcome_OUTCOME_THROTTLED
	case messagingv1.Resolution_RESOLUTION_GIVE_UP:
		r.state = messagingv1.Outcome_OUTCOME_GIVEN_UP
	case messagingv1.Resolution_RESOLUTION_UNSPECIFIED:
	}
	return true
}

// ResolveAll is an operator's resolution of every message that is in doubt, given up or refused: sent, if the carrier has it, else not.
func (s *Service) ResolveAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if !r.sending && r.state != messagingv1.Outcome_OUTCOME_ACCEPTED {
			s.learn(r, s.listed(r))
		}
	}
}

// Report is a receipt of the carrier for the message of a key.
func (s *Service) Report(key, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, known := s.rows[key]; known {
		r.message.Status = status
	}
}

// ListMessages finds the message of a key, or those that the carrier took for a profile; no test uses other filters.
func (s *Service) ListMessages(
	ctx context.Context, in *messagingv1.ListMessagesRequest,
) (*messagingv1.ListMessagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	caller, _ := rpc.PrincipalFrom(ctx)
	r, known := s.rows[in.GetIdempotencyKey()]
	switch {
	case s.down:
		return nil, unavailable()
	case in.GetProfileId() != "" && caller.OrgID == s.orgID:
		answer := &messagingv1.ListMessagesResponse{}
		for _, r := range s.rows {
			if r.message.GetProfileId() == in.GetProfileId() && r.message.GetAcceptedAt() != nil {
				answer.Messages = append(answer.Messages, r.copy())
			}
		}
		slices.SortFunc(answer.GetMessages(), func(a, b *messagingv1.Message) int { return strings.Compare(b.GetMessageId(), a.GetMessageId()) })
		return answer, nil
	case !known || caller.OrgID != s.orgID:
		return &messagingv1.ListMessagesResponse{}, nil
	}
	m := r.copy()
	if m.GetAcceptedAt() == nil {
		m.Status = r.status()
	}
	return &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{m}}, nil
}

// Taken are the messages that the carrier took for a phone, in their order.
func (s *Service) Taken(phone string) []Text {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.taken), func(t Text) bool { return t.To != phone })
}

// Recorded returns how many messages of people were stored.
func (s *Service) Recorded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inbound)
}

// Attempts are the calls of the carrier since the script was set.
func (s *Service) Attempts() []*messagingv1.SendRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

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

// SetHold holds or releases a phone; the later version counts.
func (s *Service) SetHold(ctx context.Context, in *messagingv1.SetHoldRequest) (*messagingv1.SetHoldResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case s.older:
		return s.UnimplementedMessagingServiceServer.SetHold(ctx, in)
	case in.GetVersion() < 1:
		return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	case s.holds[in.GetPhone()].GetVersion() < in.GetVersion():
		s.holds[in.GetPhone()] = in
	}
	return &messagingv1.SetHoldResponse{}, nil
}

// Held reports whether a phone is on hold, or held by words that may be an opt-out.
func (s *Service) Held(phone string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds[phone].GetHeld() || s.words[phone] != ""
}

// JudgeWords ends the hold by words that may be an opt-out.
func (s *Service) JudgeWords(ctx context.Context, in *messagingv1.JudgeWordsRequest) (*messagingv1.JudgeWordsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case s.older:
		return s.UnimplementedMessagingServiceServer.JudgeWords(ctx, in)
	}
	delete(s.words, in.GetPhone())
	return &messagingv1.JudgeWordsResponse{}, nil
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

// RecordInbound stores a message once per SID and applies the consent keywords.
func (s *Service) RecordInbound(_ context.Context, in *messagingv1.RecordInboundRequest) (*messagingv1.RecordInboundResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[in.GetTwilioSid()] = in
	switch stored, known := s.inbound[in.GetTwilioSid()]; {
	case s.down:
		return nil, unavailable()
	case known:
		return s.inForce(stored, in), nil
	case !strings.HasPrefix(in.GetFrom(), "+"):
		return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	case in.GetOrgId() == "" && in.GetTo() != s.ours:
		return nil, refuse(codes.NotFound, messagingv1.Reason_REASON_UNKNOWN_SENDER)
	}
	effect := messagingv1.ConsentEffect_CONSENT_EFFECT_NONE
	switch word := strings.ToUpper(strings.TrimSpace(in.GetBody())); word {
	case "STOP", "START":
		said := in.GetReceivedAt().AsTime()
		if said.Before(s.decided[in.GetFrom()]) {
			effect = messagingv1.ConsentEffect_CONSENT_EFFECT_OVERTAKEN
			break
		}
		s.decided[in.GetFrom()] = said
		effect = messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_IN
		delete(s.stopped, in.GetFrom())
		delete(s.words, in.GetFrom())
		if word == "STOP" {
			effect = messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT
			s.stopped[in.GetFrom()] = true
		}
	case "HELP":
		effect = messagingv1.ConsentEffect_CONSENT_EFFECT_HELP
	case "LEAVE ME ALONE", "STOP SENDING ME REMINDERS":
		effect = messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL
	}
	lifts := false
	if strings.EqualFold(in.GetBody(), "yes") && s.words[in.GetFrom()] != "" && !s.older {
		lifts = true
		delete(s.words, in.GetFrom())
	}
	asked := s.prefer(in)
	answer := &messagingv1.RecordInboundResponse{
		OrgId: s.orgID, ConsentEffect: effect, Reminders: asked[0], Tips: asked[1], LiftsHold: lifts,
		Message: &messagingv1.Message{
			MessageId: uuid.Must(uuid.NewV7()).String(), Direction: "inbound", From: in.GetFrom(), To: in.GetTo(), Body: in.GetBody(),
			TwilioSid: in.GetTwilioSid(), Status: "received", CreatedAt: timestamppb.New(s.now()),
		},
	}
	if effect == messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL && asked == [2]messagingv1.Switch{} && !s.older {
		s.words[in.GetFrom()] = answer.GetMessage().GetMessageId()
	}
	s.inbound[in.GetTwilioSid()] = answer
	return s.inForce(answer, in), nil
}

// inForce adds to an opt-out whether it still holds, and leaves out what the caller does not read.
func (s *Service) inForce(
	stored *messagingv1.RecordInboundResponse, in *messagingv1.RecordInboundRequest,
) *messagingv1.RecordInboundResponse {
	answer := proto.CloneOf(stored)
	switch asks := answer.GetReminders() != 0 || answer.GetTips() != 0; {
	case s.older || !in.GetUnderstandsPreferences():
		answer.Reminders, answer.Tips = messagingv1.Switch_SWITCH_UNSPECIFIED, messagingv1.Switch_SWITCH_UNSPECIFIED
	case asks:
		answer.ConsentEffect = messagingv1.ConsentEffect_CONSENT_EFFECT_NONE
	}
	if answer.GetConsentEffect() == messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT {
		answer.ConsentState = map[bool]string{true: "opted_out", false: "opted_in"}[s.stopped[in.GetFrom()]]
	}
	return answer
}

// Inbound returns how a message was recorded last, and nil when it never was.
func (s *Service) Inbound(sid string) *messagingv1.RecordInboundRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[sid]
}

// Own makes another number the organisation's.
func (s *Service) Own(number string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours = number
}

// CheckSender knows one organisation.
func (s *Service) CheckSender(_ context.Context, in *messagingv1.CheckSenderRequest) (*messagingv1.CheckSenderResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case in.GetOrgId() != s.orgID:
		return nil, refuse(codes.FailedPrecondition, messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER)
	}
	answer := &messagingv1.CheckSenderResponse{Sender: s.ours}
	if !s.older {
		answer.Suspended = s.status != nil && s.status.GetStatus() != "active"
		answer.OptedOut, answer.UnjudgedMessageId = s.stopped[in.GetTo()], s.words[in.GetTo()]
		answer.Unrecorded = !slices.ContainsFunc(s.calls, func(sent *messagingv1.SendRequest) bool { return sent.GetTo() == in.GetTo() })
	}
	return answer, nil
}

// SetTurns has ReserveSends give so many turns, and then none for an hour.
func (s *Service) SetTurns(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = &n
}

// ReserveSends gives every message a turn, unless SetTurns has set how many there are.
func (s *Service) ReserveSends(_ context.Context, in *messagingv1.ReserveSendsRequest) (*messagingv1.ReserveSendsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	if n := s.refusedOf(in.GetBegun()); n >= 16 {
		return &messagingv1.ReserveSendsResponse{Refused: &messagingv1.ReserveRefusal{
			ErrorCode: ConfigCode, Messages: int32(n), //nolint:gosec // of a request
			Explanation: "Twilio does not know our account; to do: correct TWILIO_AUTH_TOKEN",
		}}, nil
	}
	n := len(in.GetSegments())
	answer := &messagingv1.ReserveSendsResponse{}
	if s.turns != nil {
		if n > *s.turns {
			n, answer.RetryAfter = *s.turns, durationpb.New(time.Hour)
		}
		*s.turns -= n
	}
	answer.Reserved = int32(n) //nolint:gosec // of a request
	return answer, nil
}

// refusedOf counts the newest conversations in a row that were refused because of our account.
func (s *Service) refusedOf(begun []*messagingv1.BegunConversation) (n int) {
	for _, b := range begun {
		for key, r := range s.rows {
			if !strings.HasPrefix(key, b.GetKeyPrefix()) {
				continue
			}
			if r.message.GetErrorCode() != ConfigCode {
				return n
			}
			n++
		}
	}
	return n
}

// GetUnfinished finds a message that is on its way or in doubt; it keeps no queue of texts.
func (s *Service) GetUnfinished(ctx context.Context, in *messagingv1.GetUnfinishedRequest) (*messagingv1.GetUnfinishedResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case s.older:
		return s.UnimplementedMessagingServiceServer.GetUnfinished(ctx, in)
	}
	for _, r := range s.rows {
		if status := r.status(); r.message.GetTo() == in.GetPhone() && slices.Contains([]string{"sending", "unknown", "parked"}, status) {
			return &messagingv1.GetUnfinishedResponse{MessageId: r.message.GetMessageId(), MessageStatus: status}, nil
		}
	}
	return &messagingv1.GetUnfinishedResponse{}, nil
}

// copy returns what leaves the lock.
// status is that of a message which the carrier is not known to have.
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
