package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
)

// RPC serves what is asked and said about the consent of a number.
type RPC struct {
	*Service

	SenderOf func(ctx context.Context, orgID uuid.UUID) (string, error) // an organisation without a sender may keep a ledger, too
	OrgID    uuid.UUID                                                  // of the configured sender
	Now      func() time.Time
}

// GetConsent reads the consent of a number and a page of its ledger, all of which is verified.
func (s *RPC) GetConsent(ctx context.Context, r *messagingv1.GetConsentRequest) (*messagingv1.GetConsentResponse, error) {
	view, err := edge.ViewOf(ctx, s.OrgID)
	if err != nil {
		return nil, err
	}
	phone, err := edge.ReadPhone("phone", r.GetPhone())
	if err != nil {
		return nil, err
	}
	page, err := readLedgerPage(r)
	if err != nil {
		return nil, err
	}
	ledger, err := s.Store.Consent(ctx, view.OrgID, phone, page)
	if err != nil {
		return nil, err
	}
	return &messagingv1.GetConsentResponse{
		Consent: writeConsent(ledger), Events: writeEvents(ledger), Chain: writeChain(ledger), NextPageToken: writeLedgerPlace(r, ledger),
	}, nil
}

// SetConsent records an operator's note.
func (s *RPC) SetConsent(ctx context.Context, r *messagingv1.SetConsentRequest) (*messagingv1.SetConsentResponse, error) {
	view, err := edge.ViewOf(ctx, s.OrgID)
	if err != nil {
		return nil, err
	}
	note, err := s.readNote(ctx, view, r)
	if err != nil {
		return nil, err
	}
	ledger, err := s.Service.SetConsent(ctx, note)
	if err != nil {
		return nil, err
	}
	return &messagingv1.SetConsentResponse{
		Consent: writeConsent(ledger), Events: writeEvents(ledger), Chain: writeChain(ledger), Warning: ledger.Warning(),
	}, nil
}

// SetHold keeps every message from a number, or lets them go again.
func (s *RPC) SetHold(ctx context.Context, r *messagingv1.SetHoldRequest) (*messagingv1.SetHoldResponse, error) {
	hold, err := readHold(r, s.Now())
	if err != nil {
		return nil, err
	}
	return &messagingv1.SetHoldResponse{}, s.Service.SetHold(ctx, hold)
}

// JudgeWords ends the hold by words of a person that may be an opt-out.
func (s *RPC) JudgeWords(ctx context.Context, r *messagingv1.JudgeWordsRequest) (*messagingv1.JudgeWordsResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	phone, err := edge.ReadProfilePhone("phone", r.GetPhone())
	if err != nil {
		return nil, err
	}
	return &messagingv1.JudgeWordsResponse{}, s.Store.JudgeWords(ctx, orgID, phone)
}

// SetReminders records what was said about a person's reminders elsewhere than in a message.
func (s *RPC) SetReminders(ctx context.Context, r *messagingv1.SetRemindersRequest) (*messagingv1.SetRemindersResponse, error) {
	said, err := readReminders(r, s.Now())
	if err != nil {
		return nil, err
	}
	inForce, err := s.Service.SetReminders(ctx, said)
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.SetRemindersResponse{
		Reminders: messagingv1.Switch_SWITCH_ON, Source: string(inForce.Source), SaidAt: timestamppb.New(inForce.SaidAt),
	}
	if inForce.Off {
		answer.Reminders = messagingv1.Switch_SWITCH_OFF
	}
	return answer, nil
}
