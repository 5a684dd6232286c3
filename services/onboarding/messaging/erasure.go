package messaging

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/people"
)

// MayErase is under which pseudonym a person would be erased; erasure.ErrNoKey, people.ErrUnavailable.
func (c *Client) MayErase(ctx context.Context, p erasure.Person) (string, error) {
	answer, err := c.rpc.ErasePerson(ctx, &messagingv1.ErasePersonRequest{
		OrgId:     p.OrgID,
		ProfileId: p.ProfileID, Phone: p.Phone, OnlyAsk: true,
	})
	return answer.GetPseudonym(), ofErasure(err)
}

// Erase goes on with erasing a person, and says what it waits for; empty when nothing of them is left there.
func (c *Client) Erase(ctx context.Context, e erasure.Erasure) (waitsFor string, err error) {
	answer, err := c.rpc.ErasePerson(ctx, &messagingv1.ErasePersonRequest{OrgId: e.OrgID, ProfileId: e.ProfileID, Phone: e.Phone})
	if err != nil || answer.GetErased() {
		return "", ofErasure(err)
	}
	return fmt.Sprintf("message %s, which is on its way or in doubt", answer.GetWaitsFor()), nil
}

// ExportPerson is everything that messaging keeps about a person; erasure.ErrTooLarge.
func (c *Client) ExportPerson(ctx context.Context, p erasure.Person) (json.RawMessage, error) {
	answer, err := c.rpc.ExportPerson(ctx, &messagingv1.ExportPersonRequest{OrgId: p.OrgID, ProfileId: p.ProfileID, Phone: p.Phone})
	return answer.GetDocument(), ofErasure(err)
}

// ErasedConsent returns the rest of the consent of an erased person.
func (c *Client) ErasedConsent(ctx context.Context, orgID, pseudonym string) (erasure.Consent, error) {
	answer, err := c.rpc.GetErasedLedger(ctx, &messagingv1.GetErasedLedgerRequest{OrgId: orgID, Pseudonym: pseudonym})
	if err != nil {
		return erasure.Consent{}, ofErasure(err)
	}
	var left erasure.Consent
	if at := answer.GetSuppressedAt(); at != nil {
		left.SuppressedAt = at.AsTime()
	}
	for _, l := range answer.GetLedgers() {
		left.Ledgers = append(left.Ledgers, erasure.Ledger{
			ErasedAt: l.GetErasedAt().AsTime(), State: l.GetState(), Length: int(l.GetLength()), Verified: l.GetVerified(), Problem: l.GetProblem(),
		})
	}
	return left, nil
}

func ofErasure(err error) error {
	switch {
	case err == nil:
		return nil
	case reasonOf(err) == messagingv1.Reason_REASON_PSEUDONYM_KEY:
		return erasure.ErrNoKey
	case reasonOf(err) == messagingv1.Reason_REASON_EXPORT_TOO_LARGE:
		return erasure.ErrTooLarge
	case status.Code(err) == codes.Unimplemented: // the release before; its upgrade mends it
		return fmt.Errorf("%w: this release of messaging cannot erase a person", people.ErrUnavailable)
	}
	return translate(err)
}
