package send

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// RPC serves what is asked about messages. The rules in the proto decide who may call what; the view decides which rows they see.
type RPC struct {
	*Service

	Store  *Store
	Ledger *ledger.Store
	Sent   func(orgID, sender uuid.UUID, segments int) // counts what conversations send; may be nil
	Queue  func(ctx context.Context, now time.Time, upTo int) (*overviewv1.QueueGauges, error)
}

func (s *RPC) view(ctx context.Context) (edge.View, error) {
	return edge.ViewOf(ctx, s.Senders.Environment.OrgID)
}

// Send hands one message to Twilio, at most once per organisation and key. An outcome that is younger than the callers there may be is
// shown only to one that understands it.
func (s *RPC) Send(ctx context.Context, r *messagingv1.SendRequest) (*messagingv1.SendResponse, error) {
	request, err := readSend(r)
	if err != nil {
		return nil, err
	}
	result, err := s.Service.Send(ctx, request)
	if err != nil {
		return nil, err
	}
	// An error, as callers of every release come back after one, for as long as it takes.
	if result.Outcome == Capped || result.Outcome == Suspended {
		return nil, &rpc.Error{
			Code: codes.ResourceExhausted, Reason: messagingv1.Reason_REASON_SEND_CAPPED.String(), Domain: edge.Domain, Message: result.Explanation,
			RetryAfter: result.RetryAfter,
		}
	}
	answer := &messagingv1.SendResponse{
		Outcome: writeOutcome(result.Outcome, r.GetUnderstands()), Explanation: result.Explanation,
	}
	if result.Outcome == Accepted && !request.Outreach && !request.Reserved && s.Sent != nil { // those have reserved their segments
		s.Sent(result.Message.OrgID, result.Message.SenderID, result.Message.Segments)
	}
	if m := result.Message; m != nil {
		answer.Message = WriteMessage(*m)
		if now := s.Now(); !m.AcceptedAt.IsZero() {
			answer.AcceptedAgo, answer.AskedAgo = durationpb.New(now.Sub(m.AcceptedAt)), durationpb.New(now.Sub(m.AskedSince()))
		}
	}
	if result.RetryAfter > 0 {
		answer.RetryAfter = durationpb.New(result.RetryAfter)
	}
	return answer, nil
}

var purposeForm = regexp.MustCompile(`^[a-z_]{0,40}$`)

func readSend(r *messagingv1.SendRequest) (request Request, err error) {
	request = Request{
		Key: r.GetIdempotencyKey(), CorrelationID: r.GetCorrelationId(), HoldVersion: r.GetHoldVersion(), Purpose: r.GetPurpose(),
	}
	if request.OrgID, err = edge.ReadID("org_id", r.GetOrgId()); err != nil {
		return Request{}, err
	}
	if request.ProfileID, err = edge.ReadOptionalID("profile_id", r.GetProfileId()); err != nil {
		return Request{}, err
	}
	// To have the library read the number again took 20 to 40 us of every step; Twilio refuses what its country no longer assigns.
	if request.To, err = edge.ReadProfilePhone("to", r.GetTo()); err != nil {
		return Request{}, err
	}
	if request.Body, err = sms.NewBody(r.GetBody()); err != nil {
		return Request{}, fmt.Errorf("body: %w", err)
	}
	if request.UnknownPolicy, err = ReadPolicy(r.GetUnknownPolicy()); err != nil {
		return Request{}, err
	}
	if request.Consent, err = readGiven(r.GetConsent()); err != nil {
		return Request{}, err
	}
	if !purposeForm.MatchString(request.Purpose) {
		return Request{}, edge.Invalid("purpose", "must have at most 40 characters of a to z and _")
	}
	switch r.GetMessageClass() {
	case messagingv1.MessageClass_MESSAGE_CLASS_UNSPECIFIED, messagingv1.MessageClass_MESSAGE_CLASS_CONVERSATION:
	case messagingv1.MessageClass_MESSAGE_CLASS_OUTREACH:
		request.Outreach = true
	case messagingv1.MessageClass_MESSAGE_CLASS_RESERVED:
		request.Reserved = true
	default:
		return Request{}, edge.Invalid("message_class", "is not one of ours")
	}
	return request, nil
}

// RecordStatus takes one delivery receipt.
func (s *RPC) RecordStatus(ctx context.Context, r *messagingv1.RecordStatusRequest) (*messagingv1.RecordStatusResponse, error) {
	matched, err := s.Service.RecordStatus(ctx, readReceipt(r, s.Now()))
	return &messagingv1.RecordStatusResponse{Matched: matched}, err
}

// GetMessage reads one message. For a person, another person's message does not exist.
func (s *RPC) GetMessage(ctx context.Context, r *messagingv1.GetMessageRequest) (*messagingv1.GetMessageResponse, error) {
	m, err := s.message(ctx, r.GetMessageId())
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.GetMessageResponse{Message: WriteMessage(m)}
	return answer, s.addDeliveries(ctx, answer.GetMessage())
}

func (s *RPC) addDeliveries(ctx context.Context, messages ...*messagingv1.Message) error {
	var ids []string
	for _, m := range messages {
		if m.GetStatus() == string(sms.Delivered) {
			ids = append(ids, m.GetMessageId())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	at, err := s.Store.Deliveries(ctx, ids)
	for _, m := range messages {
		m.DeliveredAt = edge.WriteTime(at[m.GetMessageId()])
	}
	return err
}

func (s *RPC) message(ctx context.Context, messageID string) (Message, error) {
	view, err := s.view(ctx)
	if err != nil {
		return Message{}, err
	}
	id, err := edge.ReadID("message_id", messageID)
	if err != nil {
		return Message{}, err
	}
	m, err := s.Store.Message(ctx, view.OrgID, id)
	if err == nil && !view.Includes(m.ProfileID) {
		err = ErrMessageNotFound
	}
	return m, err
}

// GetEvidence shows what is known about whether Twilio has a message.
func (s *RPC) GetEvidence(ctx context.Context, r *messagingv1.GetEvidenceRequest) (*messagingv1.GetEvidenceResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	id, err := edge.ReadID("message_id", r.GetMessageId())
	if err != nil {
		return nil, err
	}
	evidence, err := s.Store.Evidence(ctx, view.OrgID, id)
	if err != nil {
		return nil, err
	}
	return writeEvidence(evidence), nil
}

// ResolveMessage takes an operator's resolution of a message.
func (s *RPC) ResolveMessage(ctx context.Context, r *messagingv1.ResolveMessageRequest) (*messagingv1.ResolveMessageResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	resolution, err := readResolution(view, r)
	if err != nil {
		return nil, err
	}
	m, err := s.Service.Resolve(ctx, resolution)
	if err != nil {
		return nil, err
	}
	return &messagingv1.ResolveMessageResponse{Message: WriteMessage(m)}, nil
}

// ListMessages lists messages, newest first. It reads one more than the page to know whether there is a next one.
func (s *RPC) ListMessages(ctx context.Context, r *messagingv1.ListMessagesRequest) (*messagingv1.ListMessagesResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	query, err := readQuery(view, r)
	if err != nil {
		return nil, err
	}
	size := query.Limit
	query.Limit++
	found, err := s.Store.Messages(ctx, query)
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.ListMessagesResponse{}
	if len(found) > size {
		found = found[:size]
		answer.NextPageToken = edge.WritePlace(r, found[size-1].ID)
	}
	for _, m := range found {
		answer.Messages = append(answer.Messages, WriteMessage(m))
	}
	return answer, s.addDeliveries(ctx, answer.GetMessages()...)
}

// mostReserved bounds the turns of one request, and mostSegments each of them: sms.MaxBody takes fewer.
const mostReserved, mostSegments = 100, 30

// ReserveSends takes the turns of messages, as far as there are any now.
func (s *RPC) ReserveSends(ctx context.Context, r *messagingv1.ReserveSendsRequest) (*messagingv1.ReserveSendsResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	segments := make([]int, len(r.GetSegments()))
	for i, n := range r.GetSegments() {
		if segments[i] = int(n); n < 1 || n > mostSegments {
			return nil, edge.Invalid("segments", fmt.Sprintf("must each be 1 to %d", mostSegments))
		}
	}
	if len(segments) == 0 || len(segments) > mostReserved {
		return nil, edge.Invalid("segments", fmt.Sprintf("must be of 1 to %d messages", mostReserved))
	}
	begun, err := readBegun(r.GetBegun())
	if err != nil {
		return nil, err
	}
	refused, is, err := s.Store.Refused(ctx, orgID, begun, s.Now())
	if err != nil {
		return nil, err
	}
	if is {
		return &messagingv1.ReserveSendsResponse{Refused: &messagingv1.ReserveRefusal{
			ErrorCode: edge.Int32(refused.Code), Messages: edge.Int32(refused.Messages), Explanation: refused.Explanation,
		}}, nil
	}
	n, wait, err := s.Limiter.ReserveSends(ctx, orgID, segments, s.Now())
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.ReserveSendsResponse{Reserved: int32(n)} //nolint:gosec // at most mostReserved
	if wait > 0 {
		answer.RetryAfter = durationpb.New(wait)
	}
	return answer, nil
}

// readBegun reads the conversations of a run.
func readBegun(given []*messagingv1.BegunConversation) ([]Begun, error) {
	if len(given) > mostBegun {
		return nil, edge.Invalid("begun", fmt.Sprintf("must be at most %d conversations", mostBegun))
	}
	begun := make([]Begun, len(given))
	for i, b := range given {
		id, err := edge.ReadID("begun.profile_id", b.GetProfileId())
		if err != nil {
			return nil, err
		}
		if begun[i] = (Begun{ProfileID: id, KeyPrefix: b.GetKeyPrefix()}); b.GetKeyPrefix() == "" {
			return nil, edge.Invalid("begun.key_prefix", "must not be empty")
		}
	}
	return begun, nil
}

// CheckSender reports what an organisation sends from, and whether the person that it asks about has opted out.
func (s *RPC) CheckSender(ctx context.Context, r *messagingv1.CheckSenderRequest) (*messagingv1.CheckSenderResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	sender, err := s.Senders.For(ctx, orgID, "", "")
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.CheckSenderResponse{Sender: sender.From()}
	if answer.Suspended, err = s.Store.Suspended(ctx, orgID); err != nil {
		return nil, err
	}
	if r.GetTo() == "" {
		return answer, nil
	}
	phone, err := edge.ReadPhone("to", r.GetTo())
	if err != nil {
		return nil, err
	}
	state, err := s.Ledger.State(ctx, orgID, phone.String())
	if err != nil {
		return nil, err
	}
	answer.OptedOut, answer.Unrecorded = state == consent.OptedOut, state == ""
	unjudged, err := s.Ledger.Unjudged(ctx, orgID, phone.String())
	answer.UnjudgedMessageId = edge.WriteID(unjudged)
	return answer, err
}

// ExplainSend explains the answer that Send would give now.
func (s *RPC) ExplainSend(ctx context.Context, r *messagingv1.ExplainSendRequest) (*messagingv1.ExplainSendResponse, error) {
	request, err := readSend(r.GetSend())
	if err != nil {
		return nil, err
	}
	e, err := s.Service.Explain(ctx, request)
	return &messagingv1.ExplainSendResponse{Explanation: writeExplanation(e)}, err
}

// ExplainMessage explains the state of a message. A message of another organisation does not exist.
func (s *RPC) ExplainMessage(ctx context.Context, r *messagingv1.ExplainMessageRequest) (*messagingv1.ExplainMessageResponse, error) {
	m, err := s.message(ctx, r.GetMessageId())
	if err != nil {
		return nil, err
	}
	e, err := s.Service.ExplainMessage(ctx, m)
	return &messagingv1.ExplainMessageResponse{Explanation: writeExplanation(e), ProfileId: edge.WriteID(m.ProfileID)}, err
}

func writeExplanation(e Explanation) *explainv1.Explanation {
	out := &explainv1.Explanation{Outcome: string(e.Outcome), Next: e.Next, Advice: e.Advice, NeedsPerson: e.NeedsPerson}
	for _, g := range e.Gates {
		out.Gates = append(out.Gates, &explainv1.Gate{
			Name: g.Name, Passed: g.Passed, Fact: g.Fact, Change: g.Change, Since: edge.WriteTime(g.Since),
		})
	}
	return out
}

const maxEvents = 1000

// ListEvents hands over the events that onboarding does not have.
func (s *RPC) ListEvents(ctx context.Context, r *messagingv1.ListEventsRequest) (*messagingv1.ListEventsResponse, error) {
	rpc.Quiet(ctx)
	if r.GetLimit() < 1 || r.GetLimit() > maxEvents || len(r.GetDone()) > maxEvents {
		return nil, fmt.Errorf("%w: limit must be 1 to %d, and done have no more", sms.ErrInvalid, maxEvents)
	}
	found, err := s.Store.Events(ctx, r.GetDone(), r.GetTypes(), int(r.GetLimit()))
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.ListEventsResponse{}
	for _, e := range found {
		answer.Events = append(answer.Events, &messagingv1.Event{
			Row: e.Row, EventId: e.EventID, OrgId: e.OrgID, Type: e.Type, ProfileId: e.ProfileID, Phone: e.Phone,
			Time: timestamppb.New(e.Time), CausationId: e.CausationID, Data: e.Data,
		})
	}
	return answer, nil
}
