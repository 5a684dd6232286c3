package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// consentHead is the newest entry of the ledger about a phone.
type consentHead struct {
	*messagingv1.Consent // nil where nothing is recorded

	Line   *messagingv1.ConsentEvent // the one that decided; nil where the ledger goes on behind its first page
	Head   string                    // of the ledger's chain: another one is another ledger
	Broken bool                      // the ledger is not what was written

	Since         time.Time // of the state: the line that began it, or the newest change where the ledger goes on
	Confirmations []string  // our messages that confirmed an opt-out
}

func (c *Console) consentOf(ctx context.Context, p *personPage) error {
	ledger, err := c.services.Messaging.GetConsent(ctx, &messagingv1.GetConsentRequest{Phone: p.Profile.GetPhone(), PageSize: ledgerLines})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	p.Consent = headOf(ledger)
	return err
}

// headOf reads the newest line that changed something: one of our confirmations confirms the line before it, and our question
// changes nothing.
func headOf(ledger *messagingv1.GetConsentResponse) (head consentHead) {
	if ledger.GetConsent() == nil {
		return head
	}
	head.Consent, head.Head, head.Broken = ledger.GetConsent(), ledger.GetChain().GetHead(), !ledger.GetChain().GetVerified()
	head.Since = head.GetUpdatedAt().AsTime()
	if ledger.GetNextPageToken() != "" {
		return head
	}
	began := false // the state, in a line that was met
	for _, e := range slices.Backward(ledger.GetEvents()) {
		if e.GetSource() == "question" {
			continue
		}
		if e.GetSource() == "confirmation" {
			head.Confirmations = append(head.Confirmations, e.GetMessageId())
			continue
		}
		if head.Line == nil {
			head.Line = e
		}
		if began = began || e.GetState() != head.GetState(); !began {
			head.Since = e.GetAt().AsTime()
		}
	}
	return head
}

// holdCall is longer than a call that holds a person may take.
const holdCall = time.Minute

// heldBy finds who put the hold on, which the audit knows: the newest call that began before the hold took effect. A hold that was set
// otherwise has none.
func (c *Console) heldBy(ctx context.Context, p *personPage) error {
	since := p.Profile.GetState().GetHeldSince()
	if !p.Profile.GetHold() || since == nil {
		return nil
	}
	calls, err := c.services.Onboarding.ListAudit(ctx, &onboardingv1.ListAuditRequest{
		Method: strings.TrimPrefix(onboardingv1.OnboardingService_HoldProfile_FullMethodName, "/"), ProfileId: p.Profile.GetProfileId(),
		Since: timestamppb.New(since.AsTime().Add(-holdCall)), Until: timestamppb.New(since.AsTime().Add(time.Microsecond)), PageSize: 1,
	})
	for _, call := range calls.GetEntries() {
		p.HeldBy = call.GetActor().GetSubject()
	}
	return err
}
