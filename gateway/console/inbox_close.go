package console

import (
	"context"
	"net/http"
	"strings"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// withTeam reports whether a session is parked because people of the organisation have the conversation.
func withTeam(s *onboardingv1.Session) bool { return hasTicket(s) || handedOver(s) }

// hasTicket reports whether a session is parked until its ticket is closed.
func hasTicket(s *onboardingv1.Session) bool {
	return s.GetStatus() == "stuck" && strings.HasPrefix(s.GetReason(), "a person of the organisation has the conversation")
}

// handedOver reports whether a session is parked by a hand_over of its flow, which opens a ticket, too. One of a release without tickets
// has none.
func handedOver(s *onboardingv1.Session) bool {
	return s.GetStatus() == "stuck" && strings.HasPrefix(s.GetReason(), "the flow hands the person over: ")
}

// FlowWaits reports whether a flow waits for the ticket. Then the reader who closes the ticket chooses how the flow goes on.
func (t *openTicket) FlowWaits() bool {
	if t.Unread["session"] != "" {
		return t.GetSessionId() != ""
	}
	return withTeam(t.Session)
}

// WentOn reports whether the outcome of the closed ticket had a flow go on or end.
func (t *openTicket) WentOn() bool {
	return t.GetOutcome() == "entered" || t.GetSessionId() != "" && (t.GetOutcome() == "end" || !t.OptedOut())
}

// closeTicket closes a ticket with an outcome: resume, restart or end.
func (c *Console) closeTicket(r *http.Request) (notice, error) {
	wanted := r.Form.Get("outcome")
	waits := c.flowWaits(r.Context(), r.PathValue("ticket"))
	out, err := c.services.Tickets.CloseTicket(r.Context(), &onboardingv1.CloseTicketRequest{
		TicketId: r.PathValue("ticket"), Outcome: wanted,
	})
	if err != nil {
		return notice{}, err
	}
	if done := out.GetTicket().GetOutcome(); done != "" && done != wanted { // by somebody else, who chose before
		return said("inbox.closed.before." + done).bad(), nil
	}
	if waits && wanted == "end" {
		return said("inbox.closed.end"), nil
	}
	who, err := c.services.Onboarding.GetProfile(r.Context(), &onboardingv1.GetProfileRequest{ProfileId: out.GetTicket().GetProfileId()})
	switch {
	case err != nil: // it is closed, and no more is known
		return said("inbox.closed.alone"), nil //nolint:nilerr // see above
	case who.GetProfile().GetState().GetOptedOutAt() != nil:
		return said("inbox.closed.opted_out"), nil
	case who.GetProfile().GetHold():
		return said("inbox.closed.held"), nil
	case !waits:
		return said("inbox.closed.alone"), nil
	}
	return said("inbox.closed." + wanted), nil
}

// flowWaits reports whether a flow waits for a ticket; false where that cannot be read.
func (c *Console) flowWaits(ctx context.Context, id string) bool {
	got, err := c.services.Tickets.GetTicket(ctx, &onboardingv1.GetTicketRequest{TicketId: id})
	if err != nil || got.GetTicket().GetSessionId() == "" {
		return false
	}
	told, err := c.session(ctx, got.GetTicket().GetSessionId())
	return err == nil && withTeam(told.GetSession())
}
