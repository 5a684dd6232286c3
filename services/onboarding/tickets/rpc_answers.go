package tickets

import (
	"context"
	"errors"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// SendAnswer sends a text that an operator wrote.
func (s *RPC) SendAnswer(ctx context.Context, in *onboardingv1.SendAnswerRequest) (*onboardingv1.SendAnswerResponse, error) {
	if err := firstOf(request.ID("profile_id", in.GetProfileId()), key(in.GetIdempotencyKey())); err != nil {
		return nil, err
	}
	a := Answer{
		OrgID: request.Org(ctx), ProfileID: in.GetProfileId(), Key: in.GetIdempotencyKey(), SavedReplyID: in.GetSavedReplyId(),
		Author: caller(ctx),
	}
	var err error
	switch {
	case (in.GetBody() == "") == (a.SavedReplyID == ""):
		return nil, request.Invalid("give body or saved_reply_id, and not both")
	case a.SavedReplyID == "":
		a.Body, err = sms(in.GetBody())
	default:
		a.Body, err = s.renderedOnce(ctx, a)
	}
	if err != nil {
		return nil, err
	}
	sent, duplicate, err := s.Tickets.Send(ctx, a)
	if err != nil {
		return nil, err
	}
	t, err := s.Store.Ticket(ctx, a.OrgID, sent.TicketID)
	if err != nil {
		return nil, err
	}
	return &onboardingv1.SendAnswerResponse{Answer: shownAnswer(sent), Duplicate: duplicate, Ticket: shown(ctx, t)}, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// renderedOnce returns the text of a saved reply for the person; that of the first request where the key has one, because the saved reply
// may have changed since, or be gone.
func (s *RPC) renderedOnce(ctx context.Context, a Answer) (string, error) {
	if err := request.ID("saved_reply_id", a.SavedReplyID); err != nil {
		return "", err
	}
	if kept, err := s.Store.AnswerByKey(ctx, a.OrgID, a.Key); err == nil {
		return kept.Body, nil
	} else if !errors.Is(err, ErrNotFound) {
		return "", err
	}
	reply, err := s.Store.Reply(ctx, a.OrgID, a.SavedReplyID)
	if err != nil {
		return "", err
	}
	known, err := values(ctx, s.People, a.OrgID, a.ProfileID)
	if err != nil {
		return "", err
	}
	text := render(reply.Body, known)
	if tooLong(text) {
		return "", ErrTooLong
	}
	return text, nil
}

// ListAnswers lists what was answered to a person by hand.
func (s *RPC) ListAnswers(ctx context.Context, in *onboardingv1.ListAnswersRequest) (*onboardingv1.ListAnswersResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	if in.GetTicketId() != "" {
		if err := request.ID("ticket_id", in.GetTicketId()); err != nil {
			return nil, err
		}
	}
	limit, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Answers(ctx, request.Org(ctx), in.GetProfileId(), in.GetTicketId(), before, limit+1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListAnswersResponse{}
	for _, a := range found[:min(limit, len(found))] {
		out.Answers = append(out.Answers, shownAnswer(a))
	}
	if len(found) > limit {
		out.NextPageToken = rpc.NextPage(in, found[limit-1].ID)
	}
	return out, nil
}

func shownAnswer(a Answer) *onboardingv1.Answer {
	return &onboardingv1.Answer{
		AnswerId: a.ID, TicketId: a.TicketID, ProfileId: a.ProfileID, Body: a.Body, SavedReplyId: a.SavedReplyID, Status: string(a.Status),
		Reason: string(a.Reason), Explanation: a.Explanation, RetryAt: request.StampOf(a.RetryAt), MessageId: a.MessageID, Author: a.Author,
		IdempotencyKey: a.Key, CreatedAt: request.Stamp(a.CreatedAt), SettledAt: request.StampOf(a.SettledAt),
	}
}

// AddNote adds a note to a ticket.
func (s *RPC) AddNote(ctx context.Context, in *onboardingv1.AddNoteRequest) (*onboardingv1.AddNoteResponse, error) {
	if err := firstOf(request.ID("ticket_id", in.GetTicketId()), key(in.GetIdempotencyKey())); err != nil {
		return nil, err
	}
	text, err := body("body", in.GetBody(), maxNote)
	if err != nil {
		return nil, err
	}
	n, duplicate, err := s.Store.AddNote(ctx, request.Org(ctx), in.GetIdempotencyKey(), Note{
		ID: newID(), TicketID: in.GetTicketId(), Body: text, Author: caller(ctx), CreatedAt: s.Now(),
	})
	if err != nil {
		return nil, err
	}
	return &onboardingv1.AddNoteResponse{Note: shownNote(n), Duplicate: duplicate}, nil
}

// ListNotes lists the notes of a ticket.
func (s *RPC) ListNotes(ctx context.Context, in *onboardingv1.ListNotesRequest) (*onboardingv1.ListNotesResponse, error) {
	if err := request.ID("ticket_id", in.GetTicketId()); err != nil {
		return nil, err
	}
	found, err := s.Store.Notes(ctx, request.Org(ctx), in.GetTicketId())
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListNotesResponse{}
	for _, n := range found {
		out.Notes = append(out.Notes, shownNote(n))
	}
	return out, nil
}

func shownNote(n Note) *onboardingv1.Note {
	return &onboardingv1.Note{
		NoteId: n.ID, TicketId: n.TicketID, Body: n.Body, Author: n.Author, CreatedAt: request.Stamp(n.CreatedAt),
	}
}

// CreateSavedReply stores a text to answer with.
func (s *RPC) CreateSavedReply(
	ctx context.Context, in *onboardingv1.CreateSavedReplyRequest,
) (*onboardingv1.CreateSavedReplyResponse, error) {
	title, text, err := checkReply(in.GetTitle(), in.GetBody())
	if err != nil {
		return nil, err
	}
	now := s.Now()
	r := SavedReply{ID: newID(), Title: title, Body: text, CreatedAt: now, UpdatedAt: now, UpdatedBy: caller(ctx)}
	if err := s.Store.CreateReply(ctx, request.Org(ctx), r); err != nil {
		return nil, err
	}
	return &onboardingv1.CreateSavedReplyResponse{SavedReply: shownReply(r, "")}, nil
}

func checkReply(givenTitle, givenBody string) (title, text string, err error) {
	if title, err = body("title", givenTitle, maxTitle); err != nil {
		return "", "", err
	}
	if text, err = sms(givenBody); err != nil {
		return "", "", err
	}
	text = letters.Plain(text) // as editors write it, one quotation mark may double the price of a text
	if tooLong(text) {         // an ellipsis has become three dots
		return "", "", request.Invalid("body must be 1 to %d characters with plain punctuation, where … is three; these are %d",
			maxBody, letters.Units(text))
	}
	if wrong := checkPlaceholders(text); wrong != "" {
		return "", "", request.Invalid("body %s", wrong)
	}
	return title, text, nil
}

// ListSavedReplies lists the saved replies, as a person would get them if one is named.
func (s *RPC) ListSavedReplies(
	ctx context.Context, in *onboardingv1.ListSavedRepliesRequest,
) (*onboardingv1.ListSavedRepliesResponse, error) {
	var known map[string]string
	if id := in.GetProfileId(); id != "" {
		if err := request.ID("profile_id", id); err != nil {
			return nil, err
		}
		var err error
		if known, err = values(ctx, s.People, request.Org(ctx), id); err != nil {
			return nil, err
		}
	}
	found, err := s.Store.Replies(ctx, request.Org(ctx))
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListSavedRepliesResponse{}
	for _, r := range found {
		text := ""
		if known != nil {
			text = render(r.Body, known)
		}
		out.SavedReplies = append(out.SavedReplies, shownReply(r, text))
	}
	return out, nil
}

// UpdateSavedReply changes a saved reply.
func (s *RPC) UpdateSavedReply(
	ctx context.Context, in *onboardingv1.UpdateSavedReplyRequest,
) (*onboardingv1.UpdateSavedReplyResponse, error) {
	if err := request.ID("saved_reply_id", in.GetSavedReplyId()); err != nil {
		return nil, err
	}
	if in.Title == nil && in.Body == nil {
		return nil, request.Invalid("give title, body or both")
	}
	title, text, err := checkReply(orElse(in.Title, "title"), orElse(in.Body, "body"))
	if err != nil {
		return nil, err
	}
	r, err := s.Store.UpdateReply(
		ctx, request.Org(ctx), in.GetSavedReplyId(), given(in.Title, title), given(in.Body, text), caller(ctx), s.Now())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.UpdateSavedReplyResponse{SavedReply: shownReply(r, "")}, nil
}

// orElse stands in for what a change leaves as it is.
func orElse(given *string, kept string) string {
	if given == nil {
		return kept
	}
	return *given
}

// given is a checked value, where the request has one.
func given(in *string, checked string) *string {
	if in == nil {
		return nil
	}
	return &checked
}

// DeleteSavedReply deletes a saved reply.
func (s *RPC) DeleteSavedReply(
	ctx context.Context, in *onboardingv1.DeleteSavedReplyRequest,
) (*onboardingv1.DeleteSavedReplyResponse, error) {
	if err := request.ID("saved_reply_id", in.GetSavedReplyId()); err != nil {
		return nil, err
	}
	if err := s.Store.DeleteReply(ctx, request.Org(ctx), in.GetSavedReplyId()); err != nil {
		return nil, err
	}
	return &onboardingv1.DeleteSavedReplyResponse{}, nil
}

func shownReply(r SavedReply, text string) *onboardingv1.SavedReply {
	counted := text
	if counted == "" {
		counted = r.Body
	}
	return &onboardingv1.SavedReply{
		SavedReplyId: r.ID, Title: r.Title, Body: r.Body, Text: text, Segments: count(letters.Segments(counted)),
		CreatedAt: request.Stamp(r.CreatedAt), UpdatedAt: request.Stamp(r.UpdatedAt), UpdatedBy: r.UpdatedBy,
	}
}
