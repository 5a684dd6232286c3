// Package inbound takes what vendors send: it stores each callback as a webhook job, once, has a message read by one room after the other,
// finds the messages that no callback brought, and shows the jobs to operators.
package inbound

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/proto/payload"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/request"
)

// RPC serves the callbacks of OnboardingService.
type RPC struct {
	Inbound       *Service
	Conversations *conversation.Store
	Failures      *dedup.Guard // of failure callbacks; a step is guarded by messaging's claim (docs/adr/0010)
	Notify        func()       // wakes the loops for a message that was left to them
	Now           func() time.Time
}

// maxQStashID is far beyond the ids that QStash gives.
const maxQStashID = 200

// qstashID refuses what is no id of QStash: the header that carries one is not part of what QStash signs.
func qstashID(field, value string) error {
	foreign := strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' })
	if value == "" || len(value) > maxQStashID || foreign {
		return request.Invalid("%s must be an id of QStash, at most %d visible ASCII characters", field, maxQStashID)
	}
	return nil
}

// RecordStepFailure keeps a dead letter of QStash, once however often it is reported. A body that is no payload is kept all the
// same.
func (s *RPC) RecordStepFailure(
	ctx context.Context, in *onboardingv1.RecordStepFailureRequest,
) (*onboardingv1.RecordStepFailureResponse, error) {
	if err := cmp.Or(qstashID("delivery_id", in.GetDeliveryId()), qstashID("source_message_id", in.GetSourceMessageId())); err != nil {
		return nil, err
	}
	failed := conversation.DeadLetter{
		SourceMessageID: in.GetSourceMessageId(), DLQID: in.GetDlqId(), Payload: in.GetSourceBody(), Status: int(in.GetStatus()),
		Response: in.GetBody(), Retried: int(in.GetRetried()), At: s.Now(),
	}
	if step, issues := payload.DecodeStep(in.GetSourceBody()); issues == nil && conversation.StepPayload(step).Validate() == nil {
		failed.SessionID, failed.StepID = step.GetSessionId(), step.GetStepId()
	}
	delivery := dedup.Delivery{MessageID: in.GetDeliveryId(), Key: "step-failed:" + failed.SourceMessageID}
	duplicate, err := s.Failures.Do(ctx, delivery, func(ctx context.Context) error { return s.Conversations.AddDeadLetter(ctx, failed) })
	if err != nil {
		return nil, err
	}
	return &onboardingv1.RecordStepFailureResponse{Duplicate: duplicate}, nil
}

// ReceiveMessage takes one message of a person.
func (s *RPC) ReceiveMessage(
	ctx context.Context, in *onboardingv1.ReceiveMessageRequest,
) (*onboardingv1.ReceiveMessageResponse, error) {
	m := Message{
		SID: in.GetTwilioSid(), From: in.GetFrom(), To: in.GetTo(), MessagingServiceSID: in.GetMessagingServiceSid(), Body: in.GetBody(),
		Segments: int(in.GetSegments()), Media: int(in.GetMedia()), OptOutType: in.GetOptOutType(), Account: in.GetAccountSid(),
		OrgID: in.GetOrgId(),
	}
	if m.OrgID != "" {
		if err := request.ID("org_id", m.OrgID); err != nil {
			return nil, err
		}
	}
	if w := in.GetWhatsapp(); w != nil {
		m.SID, m.Channel, m.Type, m.Queued = w.GetMessageId(), "whatsapp", w.GetType(), w.GetOfSeveral()
		m.UserID = w.GetUserId()
		if w.GetSentAt().GetSeconds() > 0 {
			m.SentAt = strconv.FormatInt(w.GetSentAt().GetSeconds(), 10)
		}
	}
	kept, err := s.Inbound.Receive(ctx, m)
	if err != nil {
		return nil, err
	}
	if m.Queued && !kept.Duplicate {
		s.Notify()
	}
	return &onboardingv1.ReceiveMessageResponse{Duplicate: kept.Duplicate, JobId: kept.ID}, nil
}
