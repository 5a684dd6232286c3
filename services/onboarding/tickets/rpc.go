package tickets

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
	"paceline.internal/services/onboarding/session"
)

// RPC serves TicketService.
type RPC struct {
	onboardingv1.UnimplementedTicketServiceServer

	Tickets *Service
	Store   *Store
	People  person
	Now     func() time.Time
}

// caller is the sub of the caller's token.
func caller(ctx context.Context) string {
	p, _ := rpc.PrincipalFrom(ctx)
	return p.Subject
}

// ListTickets lists tickets, and counts them.
func (s *RPC) ListTickets(ctx context.Context, in *onboardingv1.ListTicketsRequest) (*onboardingv1.ListTicketsResponse, error) {
	f, err := filter(ctx, in)
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++
	f.Closed = slices.Contains(f.Statuses, Closed)
	list := s.Store.List
	if f.Closed && slices.ContainsFunc(f.Statuses, func(st Status) bool { return st != Closed }) {
		list = s.Store.ListAll
	}
	found, err := list(ctx, f)
	if err != nil {
		return nil, err
	}
	counts, err := s.Store.Counts(ctx, f.OrgID, caller(ctx))
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListTicketsResponse{Counts: &onboardingv1.TicketCounts{
		Open: count(counts.Open), Assigned: count(counts.Assigned), Mine: count(counts.Mine),
	}}
	for _, t := range found[:min(limit, len(found))] {
		out.Tickets = append(out.Tickets, shown(ctx, t))
	}
	if len(found) > limit {
		last := found[limit-1]
		place, err := json.Marshal(Place{At: last.LastTextAt, ID: last.ID})
		if err != nil {
			return nil, err
		}
		out.NextPageToken = rpc.NextPage(in, string(place))
	}
	return out, nil
}

func filter(ctx context.Context, in *onboardingv1.ListTicketsRequest) (f Filter, err error) {
	f = Filter{OrgID: request.Org(ctx), Assignee: in.GetAssignee(), ProfileID: in.GetProfileId(), Reason: session.TicketReason(in.GetReason())}
	if f.Limit, err = request.PageSize(in); err != nil {
		return f, err
	}
	place, err := rpc.PageFrom(in)
	if err == nil && place != "" {
		f.Before = &Place{}
		if json.Unmarshal([]byte(place), f.Before) != nil || !request.IsID(f.Before.ID) {
			err = rpc.ForeignPage()
		}
	}
	if err != nil {
		return f, request.Invalid("%s", err)
	}
	for _, given := range in.GetStatus() {
		if status := Status(given); !slices.Contains([]Status{Open, Assigned, Closed}, status) {
			return f, request.Invalid("status must be open, assigned or closed")
		}
		f.Statuses = append(f.Statuses, Status(given))
	}
	if known := session.TicketReasons(); f.Reason != "" && !slices.Contains(known, in.GetReason()) {
		return f, request.Invalid("reason must be one of %s", strings.Join(known, ", "))
	}
	if f.ProfileID != "" {
		if err := request.ID("profile_id", f.ProfileID); err != nil {
			return f, err
		}
	}
	if in.GetMine() {
		if f.Assignee != "" && f.Assignee != caller(ctx) {
			return f, request.Invalid("mine and another assignee choose nothing; give one of them")
		}
		f.Assignee = caller(ctx)
	}
	return f, nil
}

// GetTicket reads one ticket.
func (s *RPC) GetTicket(ctx context.Context, in *onboardingv1.GetTicketRequest) (*onboardingv1.GetTicketResponse, error) {
	if err := request.ID("ticket_id", in.GetTicketId()); err != nil {
		return nil, err
	}
	t, err := s.Store.Ticket(ctx, request.Org(ctx), in.GetTicketId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetTicketResponse{Ticket: shown(ctx, t)}, nil
}

// OpenTicket opens a ticket by hand.
func (s *RPC) OpenTicket(ctx context.Context, in *onboardingv1.OpenTicketRequest) (*onboardingv1.OpenTicketResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	detail := strings.TrimSpace(in.GetDetail())
	if utf8.RuneCountInString(detail) > maxDetail || strings.ContainsRune(detail, 0) {
		return nil, request.Invalid("detail must be at most %d characters", maxDetail)
	}
	t, created, err := s.Tickets.OpenByHand(ctx, request.Org(ctx), in.GetProfileId(), detail)
	if err != nil {
		return nil, err
	}
	return &onboardingv1.OpenTicketResponse{Ticket: shown(ctx, t), Created: created}, nil
}

// AssignTicket gives a ticket to an operator, or takes it from one.
func (s *RPC) AssignTicket(ctx context.Context, in *onboardingv1.AssignTicketRequest) (*onboardingv1.AssignTicketResponse, error) {
	if err := request.ID("ticket_id", in.GetTicketId()); err != nil {
		return nil, err
	}
	for field, name := range map[string]string{"assignee": in.GetAssignee(), "from": in.GetFrom()} {
		if utf8.RuneCountInString(name) > maxSubject || strings.ContainsFunc(name, unicode.IsControl) {
			return nil, request.Invalid("%s must be the sub of an operator's token, at most %d characters", field, maxSubject)
		}
	}
	t, err := s.Store.Assign(ctx, request.Org(ctx), in.GetTicketId(), in.GetFrom(), in.GetAssignee(), s.Now())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.AssignTicketResponse{Ticket: shown(ctx, t)}, nil
}

// CloseTicket closes a ticket.
func (s *RPC) CloseTicket(ctx context.Context, in *onboardingv1.CloseTicketRequest) (*onboardingv1.CloseTicketResponse, error) {
	if err := request.ID("ticket_id", in.GetTicketId()); err != nil {
		return nil, err
	}
	outcome := Outcome(in.GetOutcome())
	if !outcome.Known() {
		return nil, request.Invalid("outcome must be resume, restart or end: how the conversation goes on")
	}
	t, err := s.Tickets.Close(ctx, request.Org(ctx), in.GetTicketId(), outcome)
	if err != nil {
		return nil, err
	}
	return &onboardingv1.CloseTicketResponse{Ticket: shown(ctx, t)}, nil
}

// body checks a text of an operator, and returns it with letters and their accents in one.
func body(field, given string, most int) (string, error) {
	text := strings.TrimSpace(letters.Compose(strings.ReplaceAll(given, "\r\n", "\n"))) // as browsers submit it: one more character a line
	switch n := utf8.RuneCountInString(text); {
	case n == 0 || n > most || strings.ContainsRune(text, 0):
		return "", request.Invalid("%s must be 1 to %d characters", field, most)
	case !letters.Visible(text):
		return "", request.Invalid("%s must have a character that can be seen", field)
	}
	return text, nil
}

// sms checks a text that is sent as it is. A longer one would be stored, and refused when it is sent.
func sms(given string) (string, error) {
	text, err := body("body", given, maxBody)
	if err == nil && tooLong(text) {
		err = request.Invalid("body must be 1 to %d characters as SMS counts them, where an emoji is two or more; these are %d",
			maxBody, letters.Units(text))
	}
	return text, err
}

// key checks an idempotency key.
func key(given string) error {
	if n := len(given); n == 0 || n > maxKey || strings.ContainsFunc(given, unicode.IsControl) || !utf8.ValidString(given) {
		return request.Invalid("idempotency_key must be 1 to %d characters; send the same one when you repeat the request", maxKey)
	}
	return nil
}

// count bounds a number for the wire.
func count(n int) int32 { return int32(min(max(n, 0), 1<<30)) }

func shown(ctx context.Context, t Ticket) *onboardingv1.Ticket {
	return &onboardingv1.Ticket{
		TicketId: t.ID, ProfileId: t.ProfileID, FirstName: t.FirstName, Phone: t.Phone, Locale: t.Locale, Status: string(t.Status),
		Reason: string(t.Reason), Detail: t.Detail, Assignee: t.Assignee, OpenedAt: request.Stamp(t.OpenedAt),
		AssignedAt: request.StampOf(t.AssignedAt), FirstAnsweredAt: request.StampOf(t.FirstAnsweredAt), ClosedAt: request.StampOf(t.ClosedAt),
		Outcome: string(t.Outcome), LastText: t.LastText, LastTextAt: request.Stamp(t.LastTextAt), WaitsSince: request.StampOf(t.WaitsSince),
		Texts: count(t.Texts), Answers: count(t.Answers), Notes: count(t.Notes), SessionId: t.SessionID, MessageId: t.MessageID,
		OpenedBy: request.Actor(ctx, t.OpenedBy), ClosedBy: request.Actor(ctx, t.ClosedBy),
	}
}
