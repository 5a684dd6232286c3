package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestWhatCameOfADeed(t *testing.T) {
	t.Parallel()
	const resume = `<a href="/console/do?deed=resume-session.` + sessionID
	t.Run("AResumeOfASessionWhoseTextIsUnresolvedSaysSo", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ExplainSession", &onboardingv1.ExplainSessionResponse{Explanation: &explainv1.Explanation{
			Outcome: "stale", Gates: []*explainv1.Gate{{Name: "send.attempt", Fact: "the last one is parked", Change: "POST /v1/messages/" + messageID + ":resolve"}},
		}})
		page := b.acts(root+"/do", url.Values{"deed": {"resume-session." + sessionID}})
		require.Contains(t, page, `it will be parked again, because of its text: the last one is parked. First: <a href="/console/needs/messages/`+messageID)
		s.says("GetSession", &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{Status: "stuck", Reason: hostile}})
		page = b.acts(root+"/people/"+anasID+"/resume", url.Values{"session": {sessionID}})
		require.Contains(t, page, "Resumed, and parked again at once: &lt;script")
	})
	t.Run("AResumeThatWorksSaysWhatComes", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ExplainSession", &onboardingv1.ExplainSessionResponse{Explanation: &explainv1.Explanation{Outcome: "sent", Next: "The alarm is on its way."}})
		require.Contains(t, b.acts(root+"/do", url.Values{"deed": {"resume-session." + sessionID}}), "Resumed. The alarm is on its way.")
	})
	t.Run("AResolutionLeadsToTheSessionThatWaitsForIt", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ResolveMessage", &messagingv1.ResolveMessageResponse{Message: &messagingv1.Message{MessageId: messageID, ProfileId: anasID}})
		form := url.Values{"resolution": {"not_sent"}, "attempt": {"1"}, "reason": {"looked"}}
		require.Contains(t, b.acts(root+"/needs/messages/"+messageID, form), "Resolved. No session waits for it.")
		stuck := ana()
		stuck.State.Status = "stuck"
		s.knows(stuck)
		require.Contains(t, b.acts(root+"/needs/messages/"+messageID, form), "Resolved. Now "+resume)
	})
}

func TestWhatNeedsAnOperatorNamesWhoseItIs(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.says("ListSessions", &onboardingv1.ListSessionsResponse{Sessions: []*onboardingv1.Session{{SessionId: sessionID, ProfileId: anasID, Reason: "POST /v1/sessions/" + sessionID + ":resume"}}})
	s.says("ListDeadLetters", &onboardingv1.ListDeadLettersResponse{DeadLetters: []*onboardingv1.DeadLetter{{DeadLetterId: letterID, SessionId: sessionID}}})
	s.says("ListWebhookJobs", &onboardingv1.ListWebhookJobsResponse{Jobs: []*onboardingv1.WebhookJob{{JobId: messageID, Subject: "+12025550144"}}})
	person := `<a href="/console/people/` + anasID + `"><bdi>&lt;script`
	httpStatus, page := b.page(root + "/needs")
	require.Equal(t, http.StatusOK, httpStatus, page)
	require.Regexp(t, `(?s)`+person+`.*`+person, page, "of the session, and of the dead letter")
	require.Contains(t, page, `/console/people?q=%2b12025550144">`)
	require.Contains(t, page, ">resume the session</a>")
	require.NotContains(t, page, hostile)
	require.Len(t, calls[*onboardingv1.ListProfilesRequest](s, "ListProfiles"), 1, "all are read at once")
	httpStatus, page = b.page(root + "/do?deed=reset-session." + sessionID)
	require.Equal(t, http.StatusOK, httpStatus, page)
	require.Contains(t, page, person)
	s.says("ResumeSessions", &onboardingv1.ResumeSessionsResponse{Matched: 1, SessionIds: []string{sessionID}})
	_, page = b.page(root + "/needs/resume?reason=brought")
	require.Contains(t, page, person)
}

func TestOverviewSaysThatTheCarrierGivesNoUsableAnswer(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	const words = "the carrier gives no usable answer"
	s.says("GetMessagingOverview", &messagingv1.GetMessagingOverviewResponse{OldestUnknownSince: at(-time.Minute)})
	_, page := b.page(root)
	require.NotContains(t, page, words)
	b.now = noon.Add(time.Second)
	_, page = b.page(root)
	require.Contains(t, page, words)
}
