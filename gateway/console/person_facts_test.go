package console

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// lostText is a text that Twilio took and that did not reach Ana, as messaging explains it.
func lostText(s *scripted) *messagingv1.Message {
	m := &messagingv1.Message{MessageId: messageID, ProfileId: anasID, Direction: "outbound", Status: "undelivered", ErrorCode: new(int32(30005)), AcceptedAt: at(0)}
	s.says("GetMessage", &messagingv1.GetMessageResponse{Message: m})
	s.answers["ListMessages"] = func(in proto.Message) (proto.Message, error) {
		if status := in.(*messagingv1.ListMessagesRequest).GetStatus(); status != "" && status != "undelivered" {
			return &messagingv1.ListMessagesResponse{}, nil
		}
		return &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{m}}, nil
	}
	s.says("ExplainMessage", &messagingv1.ExplainMessageResponse{Explanation: &explainv1.Explanation{Outcome: "already_accepted", Gates: []*explainv1.Gate{
		{Name: "not_accepted", Fact: "Twilio has it", Change: "nothing: it is never sent twice"},
		{Name: "consent", Fact: "the person has opted out", Change: "the person texts START"},
		{Name: "delivered", Fact: "it did not reach the person, code 30005: the handset is unknown", Change: "another number; then POST /v1/sessions/" + sessionID + ":reset"},
	}}})
	return m
}

func TestATextThatDidNotReachThePerson(t *testing.T) {
	t.Parallel()
	const reset = `<a href="/console/do\?deed=reset-session.` + sessionID
	t.Run("IsSaidOnThePersonsPageWithWhatToDo", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		lostText(s)
		require.Regexp(t, `notice bad.*The newest text:.*code 30005: the handset is unknown.*`+reset, b.anas())
	})
	t.Run("NeedsAnOperatorUntilTheConversationHasGoneOn", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		m := lostText(s)
		_, page := b.page(root + "/needs")
		require.Regexp(t, `(?s)Text did not reach the person.*the handset is unknown.*`+reset, page)
		lost := s.answers["ListMessages"]
		s.answers["ListMessages"] = func(in proto.Message) (proto.Message, error) {
			if in.(*messagingv1.ListMessagesRequest).GetProfileId() == "" {
				return lost(in)
			}
			return &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{{MessageId: letterID, Direction: "inbound"}, m}}, nil
		}
		_, page = b.page(root + "/needs")
		require.NotContains(t, page, "Text did not reach the person", "they have written since")
		s.answers["ListMessages"] = lost
		closed := ana()
		closed.State.Status = "closed"
		s.knows(closed)
		_, page = b.page(root + "/needs")
		require.NotContains(t, page, "Text did not reach the person", "nothing waits for a reply")
	})
	t.Run("IsWhatItsWhyLeadsWith", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		lostText(s)
		_, page := b.page(root + "/why/messages/" + messageID)
		require.Regexp(t, `(?s)notice bad.*code 30005: the handset is unknown.*What to do: .*`+reset, page)
		require.Contains(t, page, `counts for later texts only</strong> <span title="consent">Consent</span>`, "an opt-out afterwards is no breach")
	})
}

func TestWhatWentAfterAnOptOut(t *testing.T) {
	t.Parallel()
	text := func(id string, took time.Duration, status string) *messagingv1.Message {
		return &messagingv1.Message{MessageId: id, Direction: "outbound", Status: status, AcceptedAt: at(took)}
	}
	confirmed, before, after := text(letterID, 2*time.Second, "delivered"), text(messageID, -time.Minute, "delivered"), text(sessionID, time.Second, "sent")
	for _, tt := range []struct {
		name  string
		texts []*messagingv1.Message
		want  string
	}{
		{name: "NothingButItsConfirmation", texts: []*messagingv1.Message{confirmed, before}, want: `<p class="notice">Opted out at <time[^>]*>Nov 24 12:00</time>. The last text went at <time[^>]*>Nov 24 11:59</time>; none after.</p>`},
		{name: "ATextIsRed", texts: []*messagingv1.Message{after, before}, want: `<p class="notice bad">Opted out at .*12:00:01 UTC">Nov 24 12:00</time>; <strong>✕ 1 after</strong>.</p>`},
		{name: "ATextInDoubtIsSaid", texts: []*messagingv1.Message{text(sessionID, 0, "unknown"), before}, want: `none after; of 1 it is not known whether it went.</p>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, s := meets(t, "operator")
			s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: tt.texts})
			s.says("GetConsent", &messagingv1.GetConsentResponse{Consent: &messagingv1.Consent{State: "opted_out", UpdatedAt: at(time.Hour)}, Events: []*messagingv1.ConsentEvent{
				{State: "opted_in", Source: "first_send", At: at(-time.Hour)},
				{State: "opted_out", Source: "inbound", At: at(0)},
				{State: "opted_out", Source: "confirmation", At: at(2 * time.Second), MessageId: letterID},
				{State: "opted_out", Source: "twilio_21610", At: at(time.Hour)},
			}})
			require.Regexp(t, tt.want, b.anas())
		})
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status string
		out    bool
		want   string
	}{
		{status: "active", want: "hold reset"},
		{status: "stuck", want: "resume hold reset"},
		{status: "closed", want: "activate hold"},
		{status: "stopped", out: true, want: "hold reset"},
		{status: "none", want: "activate hold reset"},
	} {
		t.Run(tt.status, func(t *testing.T) {
			t.Parallel()
			p := ana()
			if p.State.Status = tt.status; tt.out {
				p.State.OptedOutAt = at(0)
			}
			require.Equal(t, tt.want, strings.Join(deedsFor(p), " "))
		})
	}
}

func TestAStepThatIsKeptBackSaysByWhat(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.says("ExplainSession", &onboardingv1.ExplainSessionResponse{Explanation: &explainv1.Explanation{Gates: []*explainv1.Gate{
		{Name: "due", Fact: "not due yet"}, {Name: "scheduling", Fact: "scheduling of the organisation is paused by bea"},
	}}})
	page := b.anas()
	require.Contains(t, page, "<bdi>scheduling of the organisation is paused by bea</bdi> · its time:")
	require.NotContains(t, page, "Due in")
	s.says("GetOverview", &onboardingv1.GetOverviewResponse{SchedulingPause: &onboardingv1.SchedulingPause{}})
	_, page = b.page(root)
	require.NotContains(t, page, "✓ steps are scheduled")
}

func TestTheTimelineAfterwards(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	old := "01900000-0000-7000-8000-0000000000b0"
	s.says("ListSessions", &onboardingv1.ListSessionsResponse{Sessions: []*onboardingv1.Session{{SessionId: sessionID, Status: "active"}, {SessionId: old, Status: "closed"}}})
	s.answers["GetSession"] = func(in proto.Message) (proto.Message, error) {
		id := in.(*onboardingv1.GetSessionRequest).GetSessionId()
		told := &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{SessionId: id, ProfileId: anasID, Status: "active"}}
		if id == old {
			told.Session.Status = "closed"
			told.Timeline = []*onboardingv1.TimelineEntry{
				{Kind: "parked", At: at(0), Detail: "POST /v1/messages/" + messageID + ":resolve"},
				{Kind: "stopped", At: at(time.Hour), StepId: "onboarding_message_2", ToStateToken: "onboarding:awaiting_burst"},
			}
		}
		return told, nil
	}
	s.says("ListAudit", &onboardingv1.ListAuditResponse{Entries: []*auditv1.AuditEntry{
		{At: at(time.Minute), Outcome: "OK", Actor: &auditv1.Actor{Subject: "bea"}}, {At: at(time.Second), Outcome: "FailedPrecondition", Actor: &auditv1.Actor{Subject: "carl"}},
	}})
	require.Contains(t, b.anas(), `<a href="/console/people/`+anasID+`?session=`+old+`">`)
	_, page := b.page(root + "/people/" + anasID + "?session=" + old)
	require.Regexp(t, `(?s)stopped</strong> · not sent any more: <span title="onboarding_message_2">second message</span>.*the text was resolved</strong>.*<bdi>bea</bdi>.*mended since <small><bdi>resolve the text</bdi></small></li>`, page)
	require.NotContains(t, page, "carl")
	require.Equal(t, 1, strings.Count(page, "gets the next messages, one after another"), "in the head, where they stand: what stopped does not go on")
}

func TestChangeOfANumberLeavesWhatIsNotNamed(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	page := b.acts(root+"/people/"+anasID+"/change", url.Values{"phone": {"+1 202 555 0199"}, "first_name": {""}, "locale": {""}})
	require.Contains(t, page, "Changed.")
	require.True(t, proto.Equal(&onboardingv1.UpdateProfileRequest{ProfileId: anasID, Phone: new("+1 202 555 0199")},
		calls[*onboardingv1.UpdateProfileRequest](s, "UpdateProfile")[0]))
}

func TestEvidenceSaysTheCodeAndOffersOnlyWhatIsTaken(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	m := &messagingv1.Message{MessageId: messageID, ProfileId: anasID, Status: "rejected", ErrorCode: new(int32(21211))}
	s.says("GetEvidence", &messagingv1.GetEvidenceResponse{Message: m})
	s.says("ExplainMessage", &messagingv1.ExplainMessageResponse{Explanation: &explainv1.Explanation{Gates: []*explainv1.Gate{{Name: "attempt", Fact: "the number is not valid"}}}})
	_, page := b.page(root + "/needs/messages/" + messageID)
	require.Contains(t, page, "<code>21211</code> <bdi>the number is not valid</bdi>")
	require.Contains(t, page, `name="resolution"`)
	stuck := ana()
	stuck.State.Status, m.Status = "stuck", "throttled"
	s.knows(stuck)
	_, page = b.page(root + "/needs/messages/" + messageID)
	require.Contains(t, page, "is sent again once its session is resumed")
	require.NotContains(t, page, `name="resolution"`)
}

// A text that an operator had sent again stands at the time at which Twilio took it, with the time at which it came.
func TestConversationGoesByWhenTwilioTookEachText(t *testing.T) {
	t.Parallel()
	b, s := meets(t, string(rpc.RoleOperator))
	s.knows(ana())
	s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{
		{MessageId: "2", Body: "her reply", Direction: "inbound", Status: "received", CreatedAt: at(5 * time.Second)},
		{
			MessageId: "1", Body: "the late one", Direction: "outbound", Status: "delivered",
			CreatedAt: at(0), AcceptedAt: at(8 * time.Second), DeliveredAt: at(9 * time.Second),
		},
	}})
	_, body := b.page(root + "/people/" + anasID)
	reply, late := strings.Index(body, "her reply"), strings.Index(body, "the late one")
	require.Positive(t, reply)
	require.Greater(t, late, reply)
	require.Contains(t, body[late:], `sent at</span> <time class="clock" datetime="2026-11-24T12:00:08Z" title="2026-11-24 12:00:08.000 UTC">`)
	require.Regexp(t, `delivered</a> <time class="clock" datetime="2026-11-24T12:00:09Z" title="2026-11-24 12:00:09.000 UTC">`, body[late:])
	require.Contains(t, body[reply:late], "+3.0 s")
}

func TestWhatNobodyDidIsNotAnOperators(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.says("GetSession", &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{SessionId: sessionID, ProfileId: anasID}, Timeline: []*onboardingv1.TimelineEntry{
		{At: at(0), Kind: "held", Trigger: "operator", Detail: "words of distress; read the ticket"},
	}})
	s.says("GetEngagement", &onboardingv1.GetEngagementResponse{Engagement: &onboardingv1.Engagement{}})
	page := b.anas()
	require.Contains(t, page, "words of distress")
	require.NotContains(t, page, "by an operator")
	require.Contains(t, page, "has never written or done anything")

	s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{
		{MessageId: messageID, ProfileId: anasID, Body: "hi", Direction: "inbound", Status: "received", CreatedAt: at(0)},
	}})
	page = b.anas()
	require.NotContains(t, page, "has never written")
	require.Contains(t, page, "no state yet")
}
