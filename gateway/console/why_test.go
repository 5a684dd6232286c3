package console

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestWhyPage(t *testing.T) {
	t.Parallel()
	session := func(gates ...*explainv1.Gate) *onboardingv1.ExplainSessionResponse {
		e := &explainv1.Explanation{Outcome: "stale", Next: "The person's next reply leads the conversation on.", Advice: gates[0].GetChange(), Gates: gates}
		return &onboardingv1.ExplainSessionResponse{Explanation: e}
	}
	step := &explainv1.Gate{Name: "step", Fact: "it waits", Change: "the person replies"}
	read := func(t *testing.T, b *site, path string) string {
		t.Helper()
		httpStatus, page := b.page(root + "/why/" + path)
		require.Equal(t, http.StatusOK, httpStatus, page)
		require.NotContains(t, page, hostile)
		return page
	}
	t.Run("OfAUsualWaitIsNeutralAndNamesThePerson", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ExplainSession", session(step))
		page := read(t, b, "sessions/"+sessionID)
		require.Contains(t, page, `<div class="notice">`)
		require.Contains(t, page, `<strong title="stale">Waiting for the person&#39;s reply</strong>`)
		require.Contains(t, page, "Waits for: <bdi>the person replies</bdi>")
		require.Contains(t, page, "usual wait</strong>")
		require.NotContains(t, page, "✕")
		require.Contains(t, page, `<a href="/console/people/`+anasID+`"><bdi>&lt;script`)
	})
	t.Run("OfAHoldBehindAWaitLeadsWithTheHold", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		held := ana()
		held.Hold, held.State.HoldReason = true, "under review "+hostile
		s.knows(held)
		s.says("ExplainSession", session(step, &explainv1.Gate{
			Name: "hold", Fact: "replies that wait for its end: 2", Since: at(-time.Hour), Change: "POST /v1/profiles/" + anasID + ":release",
		}))
		page := read(t, b, "sessions/"+sessionID)
		require.Regexp(t, `(?s)notice bad.*</svg> On hold</strong> since <time[^>]*>Nov 24 11:00</time>: <bdi>under review &lt;script.*wait for its end: 2.*`+
			`What to do: <bdi><a href="/console/people/`+anasID+`#release">release the person</a></bdi>`, page)
	})
	t.Run("OfATextInDoubtBehindAWaitLeadsWithTheText", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ExplainSession", session(step, &explainv1.Gate{
			Name: "send.attempt", Fact: "in doubt: Twilio was asked at 2026-11-24T11:59:00Z", Change: "its receipt",
		}))
		page := read(t, b, "sessions/"+sessionID)
		require.Contains(t, page, "</svg> Our text has not reached the person")
		require.Contains(t, page, `in doubt: Twilio was asked at <time class="day" datetime="2026-11-24T11:59:00Z" title="2026-11-24 11:59:00 UTC">Nov 24 11:59</time>`)
	})
	t.Run("OfATextShowsItAndWhetherItArrived", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ExplainMessage", &messagingv1.ExplainMessageResponse{Explanation: &explainv1.Explanation{
			Outcome: "already_accepted", Advice: "nothing: it is never sent twice",
			Gates: []*explainv1.Gate{{Name: "not_accepted", Fact: "Twilio has it", Change: "nothing: it is never sent twice"}},
		}})
		m := &messagingv1.Message{MessageId: messageID, ProfileId: anasID, Body: hostile, Status: "delivered"}
		s.says("GetMessage", &messagingv1.GetMessageResponse{Message: m})
		page := read(t, b, "messages/"+messageID)
		require.NotContains(t, page, "✕")
		require.Contains(t, page, "<blockquote dir=\"auto\">&lt;script")
		m.Status = "undelivered"
		require.Contains(t, read(t, b, "messages/"+messageID), "</svg> not delivered")
	})
	t.Run("IsSaidAlsoWhereThePersonCannotBeRead", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ExplainSession", session(step))
		s.refuses("GetSession", codes.Unavailable, "onboarding is away")
		require.Contains(t, read(t, b, "sessions/"+sessionID), "This cannot be read now: <bdi>onboarding is away</bdi>")
	})
}
