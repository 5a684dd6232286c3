// Package messagingtest plays the messaging service for onboarding's tests: in memory, over real gRPC, with the promises of
// the real one, and with outcomes that a test can script.
package messagingtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
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
	disabled  bool // all its senders are disabled
	refused   bool // the account of one of its senders refuses to be listed
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
