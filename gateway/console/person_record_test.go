package console

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const wantsNoMore = "the person may want no more texts; read GET /v1/messages/" + messageID +
	"; if they do, PUT /v1/consents/{their number} with opted_out and POST /v1/sessions/" + sessionID + ":reset"

// asks has Ana's session wait for a judgement of her words.
func asks(t *testing.T) (*site, *scripted) {
	t.Helper()
	b, s := meets(t, "operator")
	s.says("GetSession", &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{
		SessionId: sessionID, ProfileId: anasID, Status: "stuck", Reason: wantsNoMore,
	}})
	p := ana()
	p.State.Status = "stuck"
	s.knows(p)
	s.says("GetMessage", &messagingv1.GetMessageResponse{Message: &messagingv1.Message{
		MessageId: messageID, ProfileId: anasID, Direction: "inbound", Body: "please leave\nme alone " + hostile,
	}})
	s.says("GetConsent", &messagingv1.GetConsentResponse{
		Consent: &messagingv1.Consent{State: "opted_in"}, Chain: &messagingv1.ConsentChain{Head: "h1", Verified: true},
	})
	return b, s
}

func consentForm(state string) url.Values {
	return url.Values{"state": {state}, "phone": {"+12025550143"}, "head": {"h1"}, "reason": {"leave me alone"}}
}

func TestRecordsConsent(t *testing.T) {
	t.Parallel()
	path := root + "/people/" + anasID + "/consent"
	t.Run("OptOutWithTheWordsInView", func(t *testing.T) {
		t.Parallel()
		b, s := asks(t)
		page := b.anas()
		require.Contains(t, page, `<q dir="auto">please leave`)
		require.Contains(t, page, `<details id="consent" open>`)
		require.Contains(t, page, `value="text `+messageID+`: please leave me alone`)
		require.Contains(t, page, `href="#consent"`, "the advice leads to the form")
		require.Contains(t, b.acts(path, consentForm("opted_out")), "The opt-out is recorded, and the session that waited for it is closed.")
		require.True(t, proto.Equal(&messagingv1.SetConsentRequest{Phone: "+12025550143", State: "opted_out", Reason: "leave me alone"},
			calls[*messagingv1.SetConsentRequest](s, "SetConsent")[0]))
		require.Equal(t, sessionID, calls[*onboardingv1.ResetSessionRequest](s, "ResetSession")[0].GetSessionId())
	})
	t.Run("NothingFromAStalePage", func(t *testing.T) {
		t.Parallel()
		b, s := asks(t)
		old := consentForm("opted_out")
		old.Set("head", "h0")
		require.Contains(t, b.acts(path, old), "changed after this page was shown")
		moved := consentForm("opted_out")
		moved.Set("phone", "+12025550144")
		require.Contains(t, b.acts(path, moved), "changed after this page was shown")
		require.Empty(t, calls[*messagingv1.SetConsentRequest](s, "SetConsent"))
	})
	t.Run("AnOptOutStandsWhenTheResetFails", func(t *testing.T) {
		t.Parallel()
		b, s := asks(t)
		s.refuses("ResetSession", codes.Unavailable, "try again")
		require.Contains(t, b.acts(path, consentForm("opted_out")), "The opt-out is recorded, but its session is still open")
	})
	t.Run("OptInWithEvidenceInTheReadersZone", func(t *testing.T) {
		t.Parallel()
		b, s := asks(t)
		form := consentForm("opted_in")
		require.Contains(t, b.acts(path, form), "give the day and the time")
		form["method"], form["reference"], form["collected_at"] = []string{"phone call"}, []string{"case 7"}, []string{"2026-11-20T09:30"}
		require.Contains(t, b.acts(path, form), "The opt-in is recorded.")
		in := calls[*messagingv1.SetConsentRequest](s, "SetConsent")
		require.Len(t, in, 1)
		require.Equal(t, "phone call", in[0].GetEvidence().GetMethod())
		require.Equal(t, "case 7", in[0].GetEvidence().GetReference())
		require.Empty(t, calls[*onboardingv1.ResetSessionRequest](s, "ResetSession"))
	})
	t.Run("AnotherPersonsWordsAreNotShown", func(t *testing.T) {
		t.Parallel()
		b, s := asks(t)
		s.says("GetMessage", &messagingv1.GetMessageResponse{Message: &messagingv1.Message{MessageId: messageID, ProfileId: sessionID, Direction: "inbound", Body: "secret"}})
		require.NotContains(t, b.anas(), "secret")
	})
}

func TestWordsThatMayBeAnOptOutAreReadBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	for verb, method := range map[string]string{"resume": "ResumeSession", "reset": "ResetSession"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			b, s := asks(t)
			asked := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.asked[method]) }
			form := url.Values{"session": {sessionID}}
			require.Contains(t, b.acts(root+"/people/"+anasID+"/"+verb, form), "Read them and confirm")
			require.Contains(t, b.acts(root+"/do", url.Values{"deed": {verb + "-session." + sessionID}}), "confirm that you have read them")
			require.Zero(t, asked())
			_, page := b.page(root + "/do?deed=" + verb + "-session." + sessionID)
			require.Contains(t, page, `name="judged" value="yes" required`)
			form.Set("judged", "yes")
			b.acts(root+"/people/"+anasID+"/"+verb, form)
			require.Equal(t, 1, asked())
		})
	}
}

func TestAReleaseJudgesNoWordsThatWereNotRead(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	held := ana()
	held.Hold = true
	s.knows(held)
	s.answers["ReleaseProfile"] = func(in proto.Message) (proto.Message, error) {
		if in.(*onboardingv1.ReleaseProfileRequest).GetLeaveUnjudged() {
			refused := &rpc.Error{
				Code: codes.FailedPrecondition, Reason: onboardingv1.Reason_REASON_AWAITS_OPERATOR.String(), Domain: "paceline.onboarding.v1", Message: "words wait",
			}
			return nil, refused.GRPCStatus().Err()
		}
		return &onboardingv1.ReleaseProfileResponse{}, nil
	}
	path := root + "/people/" + anasID + "/release"
	page := b.said(path, url.Values{"session": {sessionID}})
	require.Contains(t, page, "the words may be an opt-out. Read them and confirm.")
	require.Regexp(t, `(?s)<details id="release">.*<input type="checkbox" name="judged" value="yes" required> I read the words: they are no opt-out.`, page)
	require.Contains(t, b.said(path, url.Values{"session": {sessionID}, "judged": {"yes"}}), "Released.")
	require.Len(t, calls[*onboardingv1.ReleaseProfileRequest](s, "ReleaseProfile"), 2)
}

func TestABulkResumesNoSessionWhoseWordsWait(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	_, page := b.page(root + "/needs/resume?reason=read")
	require.Contains(t, page, "Sessions that wait for your judgement")
	b.said(root+"/needs/resume", url.Values{"reason": {"read"}, "judged": {"yes"}})
	asked := calls[*onboardingv1.ResumeSessionsRequest](s, "ResumeSessions")
	require.Len(t, asked, 2)
	for _, in := range asked {
		require.True(t, in.GetLeaveUnjudged(), "dry run: %v", in.GetDryRun())
	}
}
