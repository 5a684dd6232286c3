package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/signin"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	ticketsShown = 50
	answersShown = 100
)

// inboxPage is the data of pages/inbox.html: the list, and what is open of it.
type inboxPage struct {
	View    string
	Views   []inboxView
	Tickets []*onboardingv1.Ticket
	Loud    []*onboardingv1.Ticket // those of them that stand on top, whatever their time
	Next    string                 // the address of the next page; empty on the last
	Open    *openTicket
	Part    string     // list, thread or person: the column that a phone shows
	at      url.Values // the view and the page of the list
}

// Query leads to a ticket in the same list: what a link has on top, by its key and value, and the view and the page.
func (p inboxPage) Query(more ...string) string {
	query := maps.Clone(p.at)
	for i := 0; i+1 < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// inboxView is one way to choose tickets.
type inboxView struct {
	Name  string
	Count int32 // -1 where it is not counted
}

// openTicket is a ticket with its conversation and its person.
type openTicket struct {
	*onboardingv1.Ticket
	personPage

	Thread  []threadItem // oldest first
	Replies []*onboardingv1.SavedReply
	Key     string // of the answer and the note that the forms make: a second press makes no second one
	Draft   string
	Mine    bool
}

// threadItem is one thing of a conversation: a text, a note, or an answer that is no text yet. One of them is set.
type threadItem struct {
	At     time.Time
	Text   *bubble
	Note   *onboardingv1.Note
	Answer *onboardingv1.Answer
	Author string // who wrote a text by hand
	Starts bool   // a new day, by the reader's clock
}

// views are the ways to choose tickets, by the name in the address.
func views(counts *onboardingv1.TicketCounts) []inboxView {
	return []inboxView{
		{"all", counts.GetOpen() + counts.GetAssigned()}, {"mine", counts.GetMine()}, {"unassigned", counts.GetOpen()}, {"closed", -1},
	}
}

// ticketsOf asks for the tickets of a view.
func ticketsOf(view, token string) *onboardingv1.ListTicketsRequest {
	in := &onboardingv1.ListTicketsRequest{PageSize: ticketsShown, PageToken: token}
	switch view {
	case "mine":
		in.Mine = true
	case "unassigned":
		in.Status = []string{"open"}
	case "closed":
		in.Status = []string{"closed"}
	}
	return in
}

// tickets asks for tickets. An onboarding of the release before has none.
func (c *Console) tickets(ctx context.Context, in *onboardingv1.ListTicketsRequest) (*onboardingv1.ListTicketsResponse, error) {
	out, err := c.services.Tickets.ListTickets(ctx, in)
	if status.Code(err) == codes.Unimplemented {
		return &onboardingv1.ListTicketsResponse{}, nil
	}
	return out, err
}

// inbox lists the conversations that wait for a person of the organisation, and shows the one of the address.
func (c *Console) inbox(r *http.Request) (page, error) {
	shown := inboxPage{View: cmp.Or(r.Form.Get("view"), "all"), Part: "list", at: url.Values{}}
	for _, key := range []string{"view", "page"} {
		if value := r.Form.Get(key); value != "" && value != "all" {
			shown.at.Set(key, value)
		}
	}
	group, ctx := errgroup.WithContext(r.Context())
	if shown.View != "closed" && r.Form.Get("page") == "" {
		group.Go(func() (err error) {
			shown.Loud, err = c.distressed(ctx, shown.View)
			return err
		})
	}
	group.Go(func() error {
		out, err := c.tickets(ctx, ticketsOf(shown.View, r.Form.Get("page")))
		shown.Tickets, shown.Views = out.GetTickets(), views(out.GetCounts())
		if token := out.GetNextPageToken(); token != "" {
			shown.Next = root + "/inbox?" + url.Values{"view": {shown.View}, "page": {token}}.Encode()
		}
		return err
	})
	if id := r.PathValue("ticket"); id != "" {
		shown.Part = "thread"
		group.Go(func() (err error) {
			shown.Open, err = c.ticket(ctx, r, id)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	shown.Tickets = slices.DeleteFunc(shown.Tickets, func(t *onboardingv1.Ticket) bool {
		return slices.ContainsFunc(shown.Loud, func(loud *onboardingv1.Ticket) bool { return loud.GetTicketId() == t.GetTicketId() })
	})
	shown.Tickets = append(shown.Loud, shown.Tickets...)
	if r.Form.Get("part") == "person" {
		shown.Part = "person"
	}
	return page{Name: "inbox", Title: "inbox.title", Topic: topicInbox + shown.Open.person(), Full: true, Body: shown}, nil
}

// mostLoud bounds the tickets that stand on top.
const mostLoud = 200

// distressed lists tickets for words of distress that are not closed. An onboarding of the release before does not choose by reason.
func (c *Console) distressed(ctx context.Context, view string) ([]*onboardingv1.Ticket, error) {
	in := ticketsOf(view, "")
	in.Reason, in.PageSize = "distress", mostLoud
	out, err := c.tickets(ctx, in)
	return slices.DeleteFunc(out.GetTickets(), func(t *onboardingv1.Ticket) bool { return t.GetReason() != in.GetReason() }), err
}

// person is the id of the person of a ticket; empty where none is open.
func (t *openTicket) person() string {
	if t == nil {
		return ""
	}
	return t.Profile.GetProfileId()
}

// ticket reads a ticket and all that its columns show. Only without the ticket or its person there is none.
func (c *Console) ticket(ctx context.Context, r *http.Request, id string) (*openTicket, error) {
	got, err := c.services.Tickets.GetTicket(ctx, &onboardingv1.GetTicketRequest{TicketId: id})
	if err != nil {
		return nil, err
	}
	t := &openTicket{Ticket: got.GetTicket(), Key: rand.Text()}
	t.Mine = t.GetAssignee() == signin.SessionFrom(ctx).Subject
	who, err := c.services.Onboarding.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: t.Ticket.GetProfileId()})
	if err != nil {
		return nil, err
	}
	t.Profile = who.GetProfile()
	var notes []*onboardingv1.Note
	var answers []*onboardingv1.Answer
	c.readParts(ctx, &t.personPage, map[string]part{
		"conversation": c.texts, "consent": c.consentOf, "goals": c.goalCards, "session": c.standing,
		"notes": func(ctx context.Context, _ *personPage) error {
			out, err := c.services.Tickets.ListNotes(ctx, &onboardingv1.ListNotesRequest{TicketId: id})
			notes = out.GetNotes()
			return err
		},
		"answers": func(ctx context.Context, p *personPage) error {
			out, err := c.services.Tickets.ListAnswers(ctx, &onboardingv1.ListAnswersRequest{
				ProfileId: p.Profile.GetProfileId(), PageSize: answersShown,
			})
			answers = out.GetAnswers()
			return err
		},
		"replies": func(ctx context.Context, p *personPage) error {
			if r.Header.Get("HX-Request") != "" { // a page that renews itself leaves its box as it is
				return nil
			}
			out, err := c.services.Tickets.ListSavedReplies(ctx, &onboardingv1.ListSavedRepliesRequest{ProfileId: p.Profile.GetProfileId()})
			t.Replies = out.GetSavedReplies()
			return err
		},
	})
	t.Thread = thread(t.Bubbles, notes, answers, c.zoneOf(r))
	t.draft(r.Form.Get("reply"), r.Form.Get("again"), answers)
	return t, nil
}

// draft begins the answer with the saved reply or the answer that the address names.
func (t *openTicket) draft(reply, again string, answers []*onboardingv1.Answer) {
	for _, s := range t.Replies {
		if s.GetSavedReplyId() == reply {
			t.Draft = cmp.Or(s.GetText(), s.GetBody())
		}
	}
	for _, a := range answers {
		if a.GetAnswerId() == again && a.GetStatus() == "not_sent" { // any other may still go out by itself
			t.Draft = a.GetBody()
		}
	}
}

// thread puts texts, notes and answers in the order of their times. An answer that is a text already gives that text its author.
func thread(texts []bubble, notes []*onboardingv1.Note, answers []*onboardingv1.Answer, place *time.Location) (all []threadItem) {
	authors := map[string]string{}
	for _, a := range answers {
		authors[a.GetMessageId()] = a.GetAuthor()
	}
	there := map[string]bool{}
	for i := range texts {
		id := texts[i].GetMessageId()
		there[id] = true
		all = append(all, threadItem{At: texts[i].At(), Text: &texts[i], Author: authors[id]})
	}
	var oldest time.Time
	if len(texts) > 0 {
		oldest = texts[0].At()
	}
	for _, a := range answers {
		if at := a.GetCreatedAt().AsTime(); !there[a.GetMessageId()] && a.GetStatus() != "sent" && at.After(oldest) {
			all = append(all, threadItem{At: at, Answer: a, Author: a.GetAuthor()})
		}
	}
	for _, n := range notes {
		all = append(all, threadItem{At: n.GetCreatedAt().AsTime(), Note: n, Author: n.GetAuthor()})
	}
	slices.SortStableFunc(all, func(a, b threadItem) int { return a.At.Compare(b.At) })
	last := ""
	for i := range all {
		on := all[i].At.In(place).Format(time.DateOnly)
		all[i].Starts, last = on != last, on
	}
	return all
}

// openByHand opens a ticket for a person, and goes to it.
func (c *Console) openByHand(r *http.Request) (notice, error) {
	got, err := c.services.Tickets.OpenTicket(r.Context(), &onboardingv1.OpenTicketRequest{
		ProfileId: r.PathValue("id"), Detail: r.Form.Get("detail"),
	})
	if err != nil {
		return notice{}, err
	}
	n := said("inbox.opened")
	if !got.GetCreated() {
		n = said("inbox.opened.already")
	}
	n.To = root + "/inbox/" + got.GetTicket().GetTicketId()
	return n, nil
}

// assign gives a ticket to the reader, or takes it from the assignee that the page showed.
func (c *Console) assign(r *http.Request) (notice, error) {
	in := &onboardingv1.AssignTicketRequest{TicketId: r.PathValue("ticket"), From: r.Form.Get("from")}
	if r.Form.Get("take") == "me" {
		in.Assignee = signin.SessionFrom(r.Context()).Subject
	}
	if _, err := c.services.Tickets.AssignTicket(r.Context(), in); err != nil {
		return notice{}, err
	}
	if in.GetAssignee() == "" {
		return said("inbox.released"), nil
	}
	return said("inbox.assigned"), nil
}

// addNote keeps a remark that the person never sees.
func (c *Console) addNote(r *http.Request) (notice, error) {
	key := r.Form.Get("key")
	if key == "" {
		return notice{}, errBadForm
	}
	_, err := c.services.Tickets.AddNote(r.Context(), &onboardingv1.AddNoteRequest{
		TicketId: r.PathValue("ticket"), Body: r.Form.Get("body"), IdempotencyKey: "console:" + key,
	})
	if err != nil {
		return unkept(r, err), err
	}
	n := said("inbox.noted")
	n.Stored = r.PathValue("ticket")
	return n, nil
}

// answer sends what the reader wrote. A text that does not go out says why; it stays in the conversation.
func (c *Console) answer(r *http.Request) (notice, error) {
	key := r.Form.Get("key")
	if key == "" {
		return notice{}, errBadForm
	}
	if r.Form.Get("as") == "note" {
		return c.addNote(r)
	}
	got, err := c.services.Tickets.GetTicket(r.Context(), &onboardingv1.GetTicketRequest{TicketId: r.PathValue("ticket")})
	if err != nil {
		return unkept(r, err), err
	}
	out, err := c.services.Tickets.SendAnswer(r.Context(), &onboardingv1.SendAnswerRequest{
		ProfileId: got.GetTicket().GetProfileId(), Body: r.Form.Get("body"), IdempotencyKey: "console:" + key,
	})
	if err != nil {
		return unkept(r, err), err
	}
	n, now := said("inbox.sent"), out.GetTicket().GetTicketId()
	anew := now != "" && now != r.PathValue("ticket") // the one of the page was closed
	switch status := out.GetAnswer().GetStatus(); {
	case status == "not_sent":
		n = said("inbox.not_sent", out.GetAnswer().GetExplanation()).bad()
	case anew:
		n = said("inbox.anew")
	case status == "sending":
		n = said("inbox.sending")
	}
	n.Stored = r.PathValue("ticket")
	if anew {
		n.To = root + "/inbox/" + now
	}
	return n, nil
}

// unkept gives the form back what was typed, with its key: whatever the error, it may be stored, and then the same key makes no second one.
// Only a key that stands for other words cannot be used again.
func unkept(r *http.Request, err error) notice {
	n := notice{Typed: draftOf(r)}
	if status.Code(err) != codes.AlreadyExists {
		n.Typed["key"] = r.Form.Get("key")
	}
	return n
}

// maxDraft bounds the text that a form gets back when it did not work, in bytes: a cookie has four thousand.
const maxDraft = 1600

func draftOf(r *http.Request) map[string]string {
	if body := r.Form.Get("body"); len(body) <= maxDraft {
		return map[string]string{"body": body}
	}
	return map[string]string{}
}
