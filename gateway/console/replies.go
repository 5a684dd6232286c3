package console

import (
	"net/http"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// repliesPage is the data of pages/replies.html.
type repliesPage struct{ Replies []*onboardingv1.SavedReply }

// replies lists the saved replies.
func (c *Console) replies(r *http.Request) (page, error) {
	out, err := c.services.Tickets.ListSavedReplies(r.Context(), &onboardingv1.ListSavedRepliesRequest{})
	return page{Name: "replies", Title: "replies.title", Body: repliesPage{out.GetSavedReplies()}}, err
}

// saveReply stores a new saved reply, or changes the one that the form names.
func (c *Console) saveReply(r *http.Request) (notice, error) {
	title, body, id := r.Form.Get("title"), r.Form.Get("body"), r.Form.Get("id")
	var err error
	if id == "" {
		_, err = c.services.Tickets.CreateSavedReply(r.Context(), &onboardingv1.CreateSavedReplyRequest{Title: title, Body: body})
	} else {
		_, err = c.services.Tickets.UpdateSavedReply(r.Context(), &onboardingv1.UpdateSavedReplyRequest{
			SavedReplyId: id, Title: &title, Body: &body,
		})
	}
	if err != nil {
		return notice{Typed: map[string]string{"id": id, "title": title, "body": draftOf(r)["body"]}}, err
	}
	return said("replies.saved"), nil
}

// deleteReply deletes a saved reply.
func (c *Console) deleteReply(r *http.Request) (notice, error) {
	_, err := c.services.Tickets.DeleteSavedReply(r.Context(), &onboardingv1.DeleteSavedReplyRequest{SavedReplyId: r.Form.Get("id")})
	if err != nil {
		return notice{}, err
	}
	return said("replies.deleted"), nil
}
