package console

import (
	"cmp"
	"context"
	"time"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	mostAssigned = 500              // tickets that are looked through for those that wait too long
	usualLimit   = 60 * time.Minute // of an organisation that has decided nothing
)

// waitingTickets lists tickets that need an answer: tickets without an assignee, and tickets that wait beyond the limit. Those for words of
// distress are on top, however many newer ones there are.
func (c *Console) waitingTickets(ctx context.Context, most int32) (needs []need, next string, err error) {
	out, err := c.tickets(ctx, &onboardingv1.ListTicketsRequest{Status: []string{"open"}, PageSize: most})
	if err != nil {
		return nil, "", err
	}
	late, more, err := c.lateTickets(ctx, out.GetCounts())
	if err != nil {
		return nil, "", err
	}
	loud, err := c.distressed(ctx, "unassigned")
	if err != nil {
		return nil, "", err
	}
	for i, t := range late {
		if i >= int(most) && t.GetReason() != "distress" {
			more = "more"
			continue
		}
		loud = append(loud, t)
	}
	listed := map[string]bool{}
	for _, t := range append(loud, out.GetTickets()...) {
		if listed[t.GetTicketId()] {
			continue
		}
		listed[t.GetTicketId()] = true
		needs = append(needs, need{
			Kind: "ticket", ID: t.GetTicketId(), At: t.GetLastTextAt().AsTime(), Profile: t.GetProfileId(), Ticket: t,
			Open: root + "/inbox/" + t.GetTicketId(),
		})
	}
	return needs, cmp.Or(out.GetNextPageToken(), more), nil
}

// lateTickets lists assigned tickets that wait beyond the organisation's limit. more is not empty when some tickets were not read.
func (c *Console) lateTickets(
	ctx context.Context, counts *onboardingv1.TicketCounts,
) (late []*onboardingv1.Ticket, more string, err error) {
	if counts.GetAssigned() == 0 {
		return nil, "", nil
	}
	set, err := c.services.Onboarding.GetSettings(ctx, &onboardingv1.GetSettingsRequest{})
	if err != nil {
		return nil, "", err
	}
	limit := cmp.Or(time.Duration(set.GetSettings().GetTicketLimitMinutes())*time.Minute, usualLimit)
	out, err := c.tickets(ctx, &onboardingv1.ListTicketsRequest{Status: []string{"assigned"}, PageSize: mostAssigned})
	for _, t := range out.GetTickets() {
		if t.GetWaitsSince() != nil && c.now().Sub(t.GetWaitsSince().AsTime()) > limit {
			late = append(late, t)
		}
	}
	return late, out.GetNextPageToken(), err
}
