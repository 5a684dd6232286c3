// Package server speaks paceline.messaging.v1: it reads requests, asks send, inbox, outbound or the store, and words the answers.
package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// Config is what a Server works with. Every field is needed.
type Config struct {
	Sending *send.Service
	Inbox   *inbox.Service
	Store   *postgres.Store // what is only read
	Queued  *postgres.Outbound
	Calls   *audit.Log
	Tally   *outbound.Tally // of what Send sends; may be nil
	Sender  send.Sender
	Now     func() time.Time
}

// Server implements MessagingService. Who may call what is decided before it, by the rules in the proto; whose rows they see, in it.
type Server struct {
	messagingv1.UnimplementedMessagingServiceServer
	Config
}

// New makes a Server.
func New(cfg Config) *Server { return &Server{Config: cfg} }

// Send hands one message to Twilio, at most once per organisation and key. An outcome that is younger than the callers there may be is
// shown only to one that understands it.
func (s *Server) Send(ctx context.Context, r *messagingv1.SendRequest) (*messagingv1.SendResponse, error) {
	request, err := readSend(r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	result, err := s.Sending.Send(ctx, request)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	if result.Outcome == send.Capped { // an error, as callers of every release come back after one, for as long as it takes
		return nil, &rpc.Error{
			Code: codes.ResourceExhausted, Reason: messagingv1.Reason_REASON_SEND_CAPPED.String(), Domain: domain, Message: result.Explanation,
			RetryAfter: result.RetryAfter,
		}
	}
	answer := &messagingv1.SendResponse{
		Outcome: writeOutcome(result.Outcome, r.GetUnderstands()), Explanation: result.Explanation,
	}
	if result.Outcome == send.Accepted && !request.Outreach { // outreach has paid
		s.Tally.Add(result.Message.Segments)
	}
	if m := result.Message; m != nil {
		answer.Message = writeMessage(*m)
		if now := s.Now(); !m.AcceptedAt.IsZero() {
			answer.AcceptedAgo, answer.AskedAgo = durationpb.New(now.Sub(m.AcceptedAt)), durationpb.New(now.Sub(m.AskedSince()))
		}
	}
	if result.RetryAfter > 0 {
		answer.RetryAfter = durationpb.New(result.RetryAfter)
	}
	return answer, nil
}

// RecordStatus takes one delivery receipt.
func (s *Server) RecordStatus(ctx context.Context, r *messagingv1.RecordStatusRequest) (*messagingv1.RecordStatusResponse, error) {
	matched, err := s.Sending.RecordStatus(ctx, readReceipt(r, s.Now()))
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.RecordStatusResponse{Matched: matched}, nil
}

// RecordInbound stores a message of a person and applies its consent keywords.
func (s *Server) RecordInbound(ctx context.Context, r *messagingv1.RecordInboundRequest) (*messagingv1.RecordInboundResponse, error) {
	inbound, err := readInbound(r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	m, err := s.Inbox.RecordInbound(ctx, inbound)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := &messagingv1.RecordInboundResponse{
		Message: writeMessage(m), ConsentEffect: writeEffect(m.Effect(r.GetUnderstandsPreferences())), OrgId: m.OrgID.String(),
		LiftsHold: m.LiftsHold,
	}
	if r.GetUnderstandsPreferences() {
		answer.Reminders, answer.Tips = writeSwitch(m.Preferences.Reminders), writeSwitch(m.Preferences.Tips)
	}
	if m.ConsentEffect == consent.OptOut {
		state, err := s.Store.ConsentState(ctx, m.OrgID, m.From)
		if err != nil {
			return nil, refuse(ctx, err)
		}
		answer.ConsentState = string(state)
	}
	return answer, nil
}

// GetMessage reads one message. For a person, another person's message does not exist.
func (s *Server) GetMessage(ctx context.Context, r *messagingv1.GetMessageRequest) (*messagingv1.GetMessageResponse, error) {
	m, err := s.message(ctx, r.GetMessageId())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := &messagingv1.GetMessageResponse{Message: writeMessage(m)}
	if err := s.addDeliveries(ctx, answer.GetMessage()); err != nil {
		return nil, refuse(ctx, err)
	}
	return answer, nil
}

// addDeliveries adds when each of the messages was delivered.
func (s *Server) addDeliveries(ctx context.Context, messages ...*messagingv1.Message) error {
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
		m.DeliveredAt = writeTime(at[m.GetMessageId()])
	}
	return err
}

// message reads a message that the caller may see.
func (s *Server) message(ctx context.Context, messageID string) (send.Message, error) {
	view, err := s.view(ctx)
	if err != nil {
		return send.Message{}, err
	}
	id, err := readID("message_id", messageID)
	if err != nil {
		return send.Message{}, err
	}
	m, err := s.Store.Message(ctx, view.orgID, id)
	if err == nil && !view.includes(m) {
		err = send.ErrMessageNotFound
	}
	return m, err
}

// GetEvidence shows what is known about whether Twilio has a message.
func (s *Server) GetEvidence(ctx context.Context, r *messagingv1.GetEvidenceRequest) (*messagingv1.GetEvidenceResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	id, err := readID("message_id", r.GetMessageId())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	evidence, err := s.Store.Evidence(ctx, view.orgID, id)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return writeEvidence(evidence), nil
}

// ResolveMessage takes an operator's resolution of a message.
func (s *Server) ResolveMessage(ctx context.Context, r *messagingv1.ResolveMessageRequest) (*messagingv1.ResolveMessageResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	resolution, err := readResolution(view, r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	m, err := s.Sending.Resolve(ctx, resolution)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.ResolveMessageResponse{Message: writeMessage(m)}, nil
}

// ListMessages lists messages, newest first. It reads one more than the page to know whether there is a next one.
func (s *Server) ListMessages(ctx context.Context, r *messagingv1.ListMessagesRequest) (*messagingv1.ListMessagesResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	query, err := readQuery(view, r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	size := query.Limit
	query.Limit++
	found, err := s.Store.Messages(ctx, query)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := writePage(r, found, size)
	if err := s.addDeliveries(ctx, answer.GetMessages()...); err != nil {
		return nil, refuse(ctx, err)
	}
	return answer, nil
}

// GetConsent reads the consent of a number and a page of its ledger, all of which is verified.
func (s *Server) GetConsent(ctx context.Context, r *messagingv1.GetConsentRequest) (*messagingv1.GetConsentResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	phone, err := readPhone("phone", r.GetPhone())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	page, err := readLedgerPage(r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	ledger, err := s.Store.Consent(ctx, view.orgID, phone, page)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.GetConsentResponse{
		Consent: writeConsent(ledger), Events: writeEvents(ledger), Chain: writeChain(ledger), NextPageToken: writeLedgerPlace(r, ledger),
	}, nil
}

// SetConsent records an operator's note.
func (s *Server) SetConsent(ctx context.Context, r *messagingv1.SetConsentRequest) (*messagingv1.SetConsentResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	note, err := readNote(view, s.Sender, r, s.Now())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	ledger, err := s.Inbox.SetConsent(ctx, note)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.SetConsentResponse{
		Consent: writeConsent(ledger), Events: writeEvents(ledger), Chain: writeChain(ledger), Warning: ledger.Warning(),
	}, nil
}

// SetHold keeps every message from a number, or lets them go again.
func (s *Server) SetHold(ctx context.Context, r *messagingv1.SetHoldRequest) (*messagingv1.SetHoldResponse, error) {
	hold, err := readHold(r, s.Now())
	if err == nil {
		err = s.Inbox.SetHold(ctx, hold)
	}
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.SetHoldResponse{}, nil
}

// JudgeWords ends the hold by words of a person that may be an opt-out.
func (s *Server) JudgeWords(ctx context.Context, r *messagingv1.JudgeWordsRequest) (*messagingv1.JudgeWordsResponse, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	phone, err := sms.StoredPhone(r.GetPhone()) // see readHold
	if err != nil {
		return nil, refuse(ctx, fmt.Errorf("phone: %w", err))
	}
	if err := s.Inbox.JudgeWords(ctx, orgID, phone); err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.JudgeWordsResponse{}, nil
}

// SetReminders records what was said about a person's reminders elsewhere than in a message.
func (s *Server) SetReminders(ctx context.Context, r *messagingv1.SetRemindersRequest) (*messagingv1.SetRemindersResponse, error) {
	said, err := readReminders(r, s.Now())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	inForce, err := s.Inbox.SetReminders(ctx, said)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := &messagingv1.SetRemindersResponse{
		Reminders: messagingv1.Switch_SWITCH_ON, Source: string(inForce.Source), SaidAt: timestamppb.New(inForce.SaidAt),
	}
	if inForce.Off {
		answer.Reminders = messagingv1.Switch_SWITCH_OFF
	}
	return answer, nil
}

// GetUnfinished finds what is not at its end of a person.
func (s *Server) GetUnfinished(ctx context.Context, r *messagingv1.GetUnfinishedRequest) (*messagingv1.GetUnfinishedResponse, error) {
	answer, err := s.unfinished(ctx, r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return answer, nil
}

func (s *Server) unfinished(ctx context.Context, r *messagingv1.GetUnfinishedRequest) (*messagingv1.GetUnfinishedResponse, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	profileID, err := readID("profile_id", r.GetProfileId())
	if err != nil {
		return nil, err
	}
	phone, err := sms.StoredPhone(r.GetPhone()) // it is a profile's; see readHold
	if err != nil {
		return nil, fmt.Errorf("phone: %w", err)
	}
	found, err := s.Store.Unfinished(ctx, orgID, profileID, phone.String())
	return &messagingv1.GetUnfinishedResponse{MessageId: found.MessageID, MessageStatus: found.Status, TextId: found.TextID}, err
}

// CheckSender reports what an organisation sends from, and whether the person that it asks about has opted out.
func (s *Server) CheckSender(ctx context.Context, r *messagingv1.CheckSenderRequest) (*messagingv1.CheckSenderResponse, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	sender, err := s.Sender.Of(orgID)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := &messagingv1.CheckSenderResponse{Sender: sender}
	if r.GetTo() != "" {
		phone, err := readPhone("to", r.GetTo())
		if err != nil {
			return nil, refuse(ctx, err)
		}
		state, err := s.Store.ConsentState(ctx, orgID, phone.String())
		if err != nil {
			return nil, refuse(ctx, err)
		}
		answer.OptedOut, answer.Unrecorded = state == consent.OptedOut, state == ""
		unjudged, err := s.Store.Unjudged(ctx, orgID, phone.String())
		if err != nil {
			return nil, refuse(ctx, err)
		}
		answer.UnjudgedMessageId = writeID(unjudged)
	}
	return answer, nil
}
