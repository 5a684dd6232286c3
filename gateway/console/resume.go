package console

import (
	"net/http"
	"strconv"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// resumePage is the data of pages/resume.html.
type resumePage struct {
	Reason   string
	Matched  int32
	Sessions []string                         // the newest of them
	People   map[string]*onboardingv1.Profile // of these sessions
	More     bool
}

const (
	resumedPage = 50
	// maxResumed bounds what one press does: pages of so many sessions.
	maxResumed = 10
)

// resumable finds the parked sessions that would be resumed: those with some words in their reason, and that wait for no judgement of a
// person's words. Each of those is judged and resumed alone.
func (c *Console) resumable(r *http.Request) (page, error) {
	reason := r.Form.Get("reason")
	out, err := c.services.Onboarding.ResumeSessions(r.Context(), &onboardingv1.ResumeSessionsRequest{
		ReasonContains: reason, DryRun: true, PageSize: resumedPage, LeaveUnjudged: true,
	})
	if err != nil {
		return page{}, err
	}
	return page{Title: "resume.title", Name: "resume", Body: resumePage{
		Reason: reason, Matched: out.GetMatched(), Sessions: out.GetSessionIds(), More: out.GetNextPageToken() != "",
		People: c.peopleOfSessions(r.Context(), out.GetSessionIds()),
	}}, nil
}

// resumeAll resumes them. What the words of one say about none but that one, so no tick of a form judges many.
func (c *Console) resumeAll(r *http.Request) (notice, error) {
	in := &onboardingv1.ResumeSessionsRequest{ReasonContains: r.Form.Get("reason"), PageSize: resumedPage, LeaveUnjudged: true}
	var resumed, left int
	for range maxResumed {
		out, err := c.services.Onboarding.ResumeSessions(r.Context(), in)
		if err != nil {
			return notice{}, err
		}
		resumed, left = resumed+len(out.GetSessionIds()), left+len(out.GetUnresumed())
		if in.PageToken = out.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	n := said("resume.done", strconv.Itoa(resumed), strconv.Itoa(left))
	n.Bad, n.To = left > 0, root+"/needs"
	return n, nil
}
