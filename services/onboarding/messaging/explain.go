package messaging

import (
	"context"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/conversation"
)

// Explain returns the answer that Send would give to a message now; people.ErrUnavailable.
func (c *Client) Explain(ctx context.Context, m conversation.Message) (conversation.Explanation, error) {
	answer, err := c.rpc.ExplainSend(ctx, &messagingv1.ExplainSendRequest{Send: &messagingv1.SendRequest{
		OrgId: m.OrgID, ProfileId: m.ProfileID, To: m.To, Body: m.Body, IdempotencyKey: m.Key, CorrelationId: m.CorrelationID,
		UnknownPolicy: policies[m.Unknown], MessageClass: class(m), Purpose: m.Purpose, HoldVersion: m.HoldVersion,
	}})
	if err != nil {
		return conversation.Explanation{}, translate(err)
	}
	found := answer.GetExplanation()
	e := conversation.Explanation{
		Outcome: found.GetOutcome(), Next: found.GetNext(), Advice: found.GetAdvice(), NeedsPerson: found.GetNeedsPerson(),
	}
	for _, g := range found.GetGates() {
		gate := conversation.Gate{Name: g.GetName(), Passed: g.GetPassed(), Fact: g.GetFact(), Change: g.GetChange()}
		if at := g.GetSince(); at != nil {
			gate.Since = at.AsTime()
		}
		e.Gates = append(e.Gates, gate)
	}
	return e, nil
}
