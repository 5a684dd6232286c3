package console

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const ticketID = "01900000-0000-7000-8000-0000000000f1"

// waits has Ana wait for a person: her ticket is open, with a note and an answer that did not go out.
func waits(t *testing.T) (*site, *scripted) {
	t.Helper()
	b, s := meets(t, "operator")
	ticket := &onboardingv1.Ticket{
		TicketId: ticketID, ProfileId: anasID, FirstName: hostile, Status: "open", Reason: "asked", OpenedAt: at(-time.Hour),
		LastText: "I want to talk to a human" + hostile, LastTextAt: at(-2 * time.Minute), WaitsSince: at(-2 * time.Minute), Texts: 1,
	}
	s.says("ListTickets", &onboardingv1.ListTicketsResponse{
		Tickets: []*onboardingv1.Ticket{ticket}, Counts: &onboardingv1.TicketCounts{Open: 1, Assigned: 2, Mine: 2},
	})
	s.says("GetTicket", &onboardingv1.GetTicketResponse{Ticket: ticket})
	s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{
		{MessageId: messageID, ProfileId: anasID, Body: "Which day suits you?", Direction: "outbound", Status: "delivered", CreatedAt: at(-time.Minute)},
		{MessageId: letterID, ProfileId: anasID, Body: "I want to talk to a human", Direction: "inbound", Status: "received", CreatedAt: at(-2 * time.Minute)},
	}})
	s.says("ListNotes", &onboardingv1.ListNotesResponse{Notes: []*onboardingv1.Note{{NoteId: letterID, Body: "called them " + hostile, Author: "bea", CreatedAt: at(0)}}})
	s.says("ListAnswers", &onboardingv1.ListAnswersResponse{Answers: []*onboardingv1.Answer{
		{AnswerId: sessionID, Body: "Hello!", Status: "not_sent", Reason: "quiet_hours", RetryAt: at(time.Hour), Author: "bea", CreatedAt: at(-30 * time.Second)},
		{AnswerId: messageID, MessageId: messageID, Body: "Which day suits you?", Status: "sent", Author: "carl", CreatedAt: at(-time.Minute)},
	}})
	s.says("ListSavedReplies", &onboardingv1.ListSavedRepliesResponse{SavedReplies: []*onboardingv1.SavedReply{
		{SavedReplyId: letterID, Title: "Hours", Body: "Hi {first_name|there}", Text: "Hi Ana", Segments: 1},
	}})
	return b, s
}

func TestInboxPage(t *testing.T) {
	t.Parallel()
	b, _ := waits(t)
	httpStatus, page := b.page(root + "/inbox")
	require.Equal(t, http.StatusOK, httpStatus)
	for _, want := range []string{"Open <small>3</small>", "Mine <small>2</small>", "Unassigned <small>1</small>", "asked for a person", "2 min ago", "Choose a conversation."} {
		require.Contains(t, page, want)
	}
	_, page = b.page(root + "/inbox/" + ticketID)
	if file := os.Getenv("CONSOLE_INBOX_PAGE"); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
	}
	require.Regexp(t, `(?s)I want to talk to a human</p>.*Which day suits you\?</p>.*by carl.*Hello!</p>.*Not sent: quiet hours.*can be sent from.*by bea.*called them .*Note by bea`, page)
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, ">onboarding:awaiting")
	_, page = b.page(root + "/inbox/" + ticketID + "?lang=pt-BR&reply=" + letterID)
	require.Contains(t, page, "pediu uma pessoa")
	require.Contains(t, page, ">Hi Ana</textarea>", "without JavaScript a saved reply comes with the page")
	_, page = b.page(root + "/inbox/" + ticketID + "?again=" + sessionID)
	require.Contains(t, page, ">Hello!</textarea>")
}

func TestWordsOfDistressStandOnTop(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	asked := &onboardingv1.Ticket{TicketId: messageID, ProfileId: anasID, FirstName: "Bia", Status: "open", Reason: "asked", LastTextAt: at(0)}
	distressed := &onboardingv1.Ticket{TicketId: ticketID, ProfileId: anasID, FirstName: "Ana", Status: "open", Reason: "distress", LastTextAt: at(-time.Hour)}
	s.says("ListTickets", &onboardingv1.ListTicketsResponse{Tickets: []*onboardingv1.Ticket{asked, distressed}, Counts: &onboardingv1.TicketCounts{Open: 2}})
	s.says("GetTicket", &onboardingv1.GetTicketResponse{Ticket: distressed})
	_, page := b.page(root + "/inbox/" + ticketID)
	require.Regexp(t, `(?s)<li id="ticket-`+ticketID+`" class="loud">.*<li id="ticket-`+messageID+`">`, page)
	require.Equal(t, 1, strings.Count(page, `<li id="ticket-`+ticketID), "once")
	require.Contains(t, page, "This person may be in danger.")
	_, page = b.page(root + "/inbox?view=closed")
	require.NotRegexp(t, `(?s)`+ticketID+`.*`+messageID, page, "what is closed is in its order")
	_, page = b.page(root)
	require.Contains(t, page, `<a href="/console/inbox"><strong>1</strong> person wrote words of distress</a>`)
	_, page = b.page(root + "/needs?kind=ticket")
	require.Regexp(t, `(?s)`+ticketID+`.*`+messageID, page)
}

func TestWordsOfDistressAreANeedBehindNewerTickets(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	s.answers["ListTickets"] = func(in proto.Message) (proto.Message, error) {
		asked := in.(*onboardingv1.ListTicketsRequest)
		out := &onboardingv1.ListTicketsResponse{Counts: &onboardingv1.TicketCounts{Open: 60, Assigned: 60}}
		last := 59 // the oldest one is for words of distress
		for i := range int(asked.GetPageSize()) {
			ticket := &onboardingv1.Ticket{
				TicketId: fmt.Sprintf("%s-%d", asked.GetStatus()[0], i), ProfileId: anasID, Status: asked.GetStatus()[0], Reason: "asked",
				LastTextAt: at(-time.Duration(i) * time.Minute), WaitsSince: at(-24 * time.Hour),
			}
			if i == last {
				ticket.Reason = "distress"
			}
			if i <= last && asked.GetReason() != "distress" {
				out.Tickets = append(out.Tickets, ticket)
			}
		}
		if asked.GetReason() == "distress" {
			out.Tickets = []*onboardingv1.Ticket{{TicketId: "open-59", ProfileId: anasID, Status: "open", Reason: "distress", LastTextAt: at(-time.Hour)}}
		}
		return out, nil
	}
	for _, address := range []string{"/needs", "/needs?kind=ticket"} {
		_, page := b.page(root + address)
		require.Regexp(t, `(?s)/inbox/(open|assigned)-59".*/inbox/(open|assigned)-59".*/inbox/open-0"`, page)
		require.NotContains(t, page, "/inbox/assigned-58")
	}
}

func TestAnAnswerByHand(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	answers := func(form url.Values) string {
		form.Set("back", root+"/inbox/"+ticketID)
		form.Set("key", "k1")
		return readsAll(t, b.post(root+"/inbox/"+ticketID+"/answer", form))
	}
	s.says("SendAnswer", &onboardingv1.SendAnswerResponse{Answer: &onboardingv1.Answer{Status: "sent"}})
	require.Contains(t, answers(url.Values{"body": {"We call you"}}), `data-stored="draft/ada/`+ticketID+`">Sent.`)
	in := calls[*onboardingv1.SendAnswerRequest](s, "SendAnswer")[0]
	require.Equal(t, []string{anasID, "We call you", "console:k1"}, []string{in.GetProfileId(), in.GetBody(), in.GetIdempotencyKey()})

	s.says("SendAnswer", &onboardingv1.SendAnswerResponse{Answer: &onboardingv1.Answer{Status: "not_sent", Explanation: "the person has opted out"}})
	require.Contains(t, answers(url.Values{"body": {"We call you"}}), "It did not go out: the person has opted out")

	s.refuses("SendAnswer", codes.Unavailable, "try again")
	page := answers(url.Values{"body": {"We call you"}})
	require.Contains(t, page, ">We call you</textarea>", "what was typed is not lost")
	require.Contains(t, page, `name="key" value="k1"`, "and sent again it is the same answer")

	for _, code := range []codes.Code{codes.Internal, codes.FailedPrecondition} { // a read after the insert may fail with any code
		s.refuses("SendAnswer", code, "no")
		s.refuses("AddNote", code, "no")
		require.Contains(t, answers(url.Values{"body": {"We call you"}}), `name="key" value="k1"`)
		require.Contains(t, answers(url.Values{"body": {"a note"}, "as": {"note"}}), `name="key" value="k1"`)
	}
	s.refuses("SendAnswer", codes.AlreadyExists, "the key stands for other words")
	require.NotContains(t, answers(url.Values{"body": {"We call you"}}), `name="key" value="k1"`)
	s.says("AddNote", &onboardingv1.AddNoteResponse{})

	require.Contains(t, answers(url.Values{"body": {"call her at six"}, "as": {"note"}}), "Only your team sees it.")
	require.Equal(t, "call her at six", calls[*onboardingv1.AddNoteRequest](s, "AddNote")[2].GetBody())
}

func TestOnlyWhatIsNotSentIsWrittenAgain(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	for _, tried := range []struct{ reason, words string }{{"", "Being sent"}, {"capped", "Not sent yet: the limit"}, {"undecided", "In doubt: it may have gone out"}} {
		s.says("ListAnswers", &onboardingv1.ListAnswersResponse{Answers: []*onboardingv1.Answer{
			{AnswerId: sessionID, Body: "Hello!", Status: "sending", Reason: tried.reason, CreatedAt: at(0)},
		}})
		_, page := b.page(root + "/inbox/" + ticketID + "?again=" + sessionID)
		require.Contains(t, page, "<strong>"+tried.words)
		require.NotContains(t, page, "Write it again")
		require.NotContains(t, page, "Hello!</textarea>")
	}
}

func TestAnAnswerThatOpensTheConversationAnew(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	s.says("GetTicket", &onboardingv1.GetTicketResponse{Ticket: &onboardingv1.Ticket{TicketId: ticketID, ProfileId: anasID, Status: "closed"}})
	_, page := b.page(root + "/inbox/" + ticketID)
	require.Contains(t, page, "An answer opens it anew")
	s.says("SendAnswer", &onboardingv1.SendAnswerResponse{
		Answer: &onboardingv1.Answer{Status: "sending"}, Ticket: &onboardingv1.Ticket{TicketId: sessionID},
	})
	answer := b.post(root+"/inbox/"+ticketID+"/answer", url.Values{"body": {"Hi"}, "key": {"k1"}, "back": {root + "/inbox/" + ticketID}})
	require.Equal(t, root+"/inbox/"+sessionID, answer.Request.URL.Path)
	require.Contains(t, readsAll(t, answer), "Your answer opened it anew")
}

func TestWhatKeepsAnAnswerBackStandsAtTheBox(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	_, page := b.page(root + "/inbox/" + ticketID)
	require.NotContains(t, page, "does not go out")
	p := ana()
	p.Hold = true
	fields, err := structpb.NewStruct(map[string]any{"pet_name": "Rex" + hostile, "visits": 1200000, "insured": true})
	require.NoError(t, err)
	p.Fields = fields
	s.knows(p)
	s.says("GetConsent", &messagingv1.GetConsentResponse{Consent: &messagingv1.Consent{State: "opted_out"}})
	_, page = b.page(root + "/inbox/" + ticketID)
	require.Regexp(t, `(?s)</ol></div>\s*<p class="notice bad" id="stopped">.*<p class="notice bad" id="on-hold">.*<div class="reply"`, page)
	require.Contains(t, page, "<li>visits: <bdi>1200000</bdi></li>")
	require.Contains(t, page, "<li>insured: <bdi>yes</bdi></li>")
	require.NotContains(t, page, hostile)
}

func TestARenewalReadsWhatItShows(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL+root+"/inbox/"+ticketID, nil)
	require.NoError(t, err)
	r.Header.Set("HX-Request", "true")
	s.mu.Lock()
	clear(s.asked)
	s.mu.Unlock()
	require.Equal(t, http.StatusOK, b.does(r).StatusCode)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.ElementsMatch(t, []string{
		"ListTickets", "GetTicket", "GetProfile", "ListMessages", "GetConsent", "ListGoals", "GetSession", "ExplainSession", "ListNotes", "ListAnswers",
	}, slices.Collect(maps.Keys(s.asked)))
}

func TestWhatWasTypedComesBackToItsPageAlone(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	s.refuses("SendAnswer", codes.Unavailable, "try again")
	s.refuses("GetProfile", codes.Unavailable, "try again")
	failed := readsAll(t, b.post(root+"/inbox/"+ticketID+"/answer", url.Values{"body": {"We call you"}, "key": {"k1"}, "back": {root + "/inbox/" + ticketID + "?view=mine"}}))
	require.NotContains(t, failed, "We call you")
	s.knows(ana())
	_, another := b.page(root + "/inbox/" + sessionID)
	require.NotContains(t, another, "We call you", "it was written to another person")
	_, page := b.page(root + "/inbox/" + ticketID)
	require.Contains(t, page, ">We call you</textarea>")
	require.Contains(t, page, `name="key" value="k1"`)
	_, page = b.page(root + "/inbox/" + ticketID)
	require.NotContains(t, page, "We call you", "once")
}

func TestATicketIsAssignedAsItWasShownAndClosed(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	at := root + "/inbox/" + ticketID
	s.says("GetTicket", &onboardingv1.GetTicketResponse{Ticket: &onboardingv1.Ticket{TicketId: ticketID, ProfileId: anasID, Status: "assigned", Assignee: "bea"}})
	_, page := b.page(at)
	require.Regexp(t, `<details class="ends"><summary data-key="a">.*bea has it.*Take it over`, page, "only when it is confirmed")
	page = readsAll(t, b.post(at+"/assign", url.Values{"take": {"me"}, "from": {"bea"}, "back": {at}}))
	require.Contains(t, page, "It is yours.")
	in := calls[*onboardingv1.AssignTicketRequest](s, "AssignTicket")[0]
	require.Equal(t, "bea", in.GetFrom())
	require.Equal(t, "ada", in.GetAssignee())
	s.waitsFor(ticketID, &onboardingv1.Ticket{TicketId: ticketID, ProfileId: anasID, SessionId: sessionID, Status: "assigned"}, nil)
	page = readsAll(t, b.post(at+"/close", url.Values{"outcome": {"restart"}, "back": {at}}))
	require.Contains(t, page, "Closed. The step asks again.")
	require.Equal(t, "restart", calls[*onboardingv1.CloseTicketRequest](s, "CloseTicket")[0].GetOutcome())
	s.says("CloseTicket", &onboardingv1.CloseTicketResponse{Ticket: &onboardingv1.Ticket{Outcome: "end"}})
	page = readsAll(t, b.post(at+"/close", url.Values{"outcome": {"restart"}, "back": {at}}))
	require.Contains(t, page, "It was closed meanwhile, otherwise than you chose: the flow has ended.")
}

func TestATicketOfAnotherPageLeadsBackToIt(t *testing.T) {
	t.Parallel()
	b, _ := waits(t)
	_, page := b.page(root + "/inbox/" + ticketID + "?view=mine&page=p2")
	for _, want := range []string{`/inbox/` + ticketID + `?page=p2&amp;view=mine"`, `href="/console/inbox?page=p2&amp;view=mine"`, `?page=p2&amp;part=person&amp;view=mine"`} {
		require.Contains(t, page, want)
	}
}

func TestAChangeOfASavedReplyThatIsRefusedStaysOne(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	s.refuses("UpdateSavedReply", codes.InvalidArgument, "no")
	page := readsAll(t, b.post(root+"/replies", url.Values{"id": {letterID}, "title": {"Opening"}, "body": {"We open at nine"}, "back": {root + "/replies"}}))
	require.Equal(t, 1, strings.Count(page, "We open at nine"))
	require.Regexp(t, `(?s)<ul class="needs">.*<details open>.*value="Opening".*>We open at nine</textarea>`, page)
}

func TestAConversationThatWaitsTooLongForWhoHasItIsANeed(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	assigned := []*onboardingv1.Ticket{
		{TicketId: letterID, ProfileId: anasID, Status: "assigned", Assignee: "bea", WaitsSince: at(-31 * time.Minute)},
		{TicketId: messageID, ProfileId: anasID, Status: "assigned", Assignee: "bea", WaitsSince: at(-29 * time.Minute)},
		{TicketId: sessionID, ProfileId: anasID, Status: "assigned", Assignee: "bea"},
	}
	s.answers["ListTickets"] = func(in proto.Message) (proto.Message, error) {
		out := &onboardingv1.ListTicketsResponse{Counts: &onboardingv1.TicketCounts{Assigned: 3}}
		if slices.Contains(in.(*onboardingv1.ListTicketsRequest).GetStatus(), "assigned") {
			out.Tickets = assigned
		}
		return out, nil
	}
	s.says("GetSettings", &onboardingv1.GetSettingsResponse{Settings: &onboardingv1.Settings{TicketLimitMinutes: new(int32(30))}})
	_, page := b.page(root + "/needs?kind=ticket")
	require.Contains(t, page, "/inbox/"+letterID)
	require.Contains(t, page, "bea has it")
	require.NotContains(t, page, "/inbox/"+messageID)
	require.NotContains(t, page, "/inbox/"+sessionID)
	_, page = b.page(root)
	require.Contains(t, page, `<a href="/console/needs?kind=ticket"><strong>1</strong> conversation that somebody has waits too long`)
}

// waitsFor has the session of a ticket wait for it, and changes its person.
func (s *scripted) waitsFor(id string, ticket *onboardingv1.Ticket, change func(p *onboardingv1.Profile)) {
	p := ana()
	p.State = &onboardingv1.ProfileState{Status: "stuck", SessionId: ticket.GetSessionId()}
	if change != nil {
		change(p)
	}
	s.knows(p)
	s.says("GetTicket", &onboardingv1.GetTicketResponse{Ticket: ticket})
	s.says("GetSession", &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{
		SessionId: ticket.GetSessionId(), ProfileId: anasID, Status: "stuck",
		Reason: "a person of the organisation has the conversation: answer them, then close the ticket: POST /v1/tickets/" + id + ":close",
	}})
}

func TestClosingSaysWhatIsSo(t *testing.T) {
	t.Parallel()
	held := func(p *onboardingv1.Profile) { p.Hold = true }
	optedOut := func(p *onboardingv1.Profile) { p.State.OptedOutAt = at(0) }
	for _, tt := range []struct {
		name    string
		session string
		change  func(p *onboardingv1.Profile)
		outcome string
		asks    bool
		want    string
	}{
		{name: "FlowWaits", session: sessionID, outcome: "resume", asks: true, want: "Closed. The flow goes on."},
		{name: "NoFlow", outcome: "resume", want: "Closed."},
		{name: "Held", session: sessionID, change: held, outcome: "resume", asks: true, want: "Closed. Nothing is sent while the person is on hold."},
		{name: "HeldAndEnded", session: sessionID, change: held, outcome: "end", asks: true, want: "Closed. The flow has ended."},
		{name: "OptedOut", change: optedOut, outcome: "resume", want: "Closed. Nothing is sent, because the person has opted out."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, s := waits(t)
			here := root + "/inbox/" + ticketID
			s.waitsFor(ticketID, &onboardingv1.Ticket{TicketId: ticketID, ProfileId: anasID, SessionId: tt.session, Status: "open", Reason: "asked"}, tt.change)
			s.says("CloseTicket", &onboardingv1.CloseTicketResponse{Ticket: &onboardingv1.Ticket{ProfileId: anasID, Outcome: tt.outcome}})
			_, page := b.page(here)
			require.Equal(t, tt.asks, strings.Contains(page, "How does the conversation go on?"))
			page = readsAll(t, b.post(here+"/close", url.Values{"outcome": {tt.outcome}, "back": {here}}))
			require.Contains(t, page, `role="status">`+tt.want+`</p>`)
		})
	}
}

func TestAHandOverIsOfTheInboxAlone(t *testing.T) {
	t.Parallel()
	b, s := waits(t)
	const older = "01900000-0000-7000-8000-0000000000f2"
	handed := func(id string) *onboardingv1.Session {
		return &onboardingv1.Session{
			SessionId: id, ProfileId: anasID, Status: "stuck", Reason: "the flow hands the person over: a refund; answer them, then POST /v1/sessions/" + id + ":resume",
		}
	}
	s.says("ListSessions", &onboardingv1.ListSessionsResponse{Sessions: []*onboardingv1.Session{handed(sessionID), handed(older)}})
	s.says("ListTickets", &onboardingv1.ListTicketsResponse{Tickets: []*onboardingv1.Ticket{
		{TicketId: ticketID, ProfileId: anasID, Status: "open", Reason: "hand_over", SessionId: sessionID},
	}})
	s.says("GetSession", &onboardingv1.GetSessionResponse{Session: handed(sessionID)})
	_, page := b.page(root + "/needs")
	require.Contains(t, page, "/inbox/"+ticketID)
	require.NotContains(t, page, "resume-session."+sessionID, "its ticket has it")
	require.Contains(t, page, "resume-session."+older, "it has no ticket")
	p := ana()
	p.State.Status = "stuck"
	s.knows(p)
	_, page = b.page(root + "/inbox/" + ticketID)
	require.Contains(t, page, `<span class="pill with_team">with your team</span>`)
}
