package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
)

// unregistered is a sender of which every text is refused with 30034.
func unregistered(s *scripted) {
	m := &messagingv1.Message{
		MessageId: messageID, ProfileId: anasID, Direction: "outbound", Status: "throttled", ErrorCode: new(int32(30034)), NeedsPerson: true,
		CreatedAt: at(0),
	}
	s.says("GetMessage", &messagingv1.GetMessageResponse{Message: m})
	s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{m}})
	s.says("GetMessagingOverview", &messagingv1.GetMessagingOverviewResponse{Refusals: []*messagingv1.CarrierRefusal{{
		Code: 30034, Messages: &overviewv1.Count{Count: 3}, Since: at(0), NewestMessageId: messageID,
		Meaning: "the number is not registered for A2P 10DLC", Remedy: "complete the sender's registration in the Twilio console",
	}}})
	s.says("ExplainMessage", &messagingv1.ExplainMessageResponse{Explanation: &explainv1.Explanation{
		Outcome: "sent", NeedsPerson: true, Advice: "complete the sender's registration in the Twilio console",
		Gates: []*explainv1.Gate{{
			Name: "backoff", Passed: true,
			Fact: "Twilio did not process the last attempt, number 1, of 2026-11-24T12:00:00Z: the number is not registered for A2P 10DLC",
		}},
	}})
}

func TestARefusalThatNoRetryMends(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T) (b *site, read func(path string) string) {
		t.Helper()
		b, s := meets(t, string(rpc.RoleOperator))
		_, page := b.page(root + "/needs?kind=refusal")
		require.Contains(t, page, "Nothing needs you.")
		unregistered(s)
		return b, func(path string) string {
			t.Helper()
			httpStatus, page := b.page(root + path)
			require.Equal(t, http.StatusOK, httpStatus)
			return page
		}
	}
	t.Run("NeedsYouFromTheOverviewOn", func(t *testing.T) {
		t.Parallel()
		_, read := refused(t)
		require.Regexp(t, `(?s)need loud.*Twilio 30034: the number is not registered for A2P 10DLC.*href="/console/needs\?kind=refusal"`, read(""))
		for _, path := range []string{"/needs", "/needs?kind=refusal"} {
			require.Regexp(t, `(?s)Texts are refused until somebody acts.*Twilio 30034: the number is not registered for A2P 10DLC.*`+
				`→ complete the sender&#39;s registration in the Twilio console.*<strong>3</strong> texts are refused.*/console/why/messages/`+messageID, read(path))
		}
		require.NotContains(t, read("/needs?kind=session"), "30034")
	})
	t.Run("IsNoThrottleOnThePersonsPage", func(t *testing.T) {
		t.Parallel()
		b, _ := refused(t)
		page := b.anas()
		require.Regexp(t, `notice bad.*The newest text:.*not registered for A2P 10DLC.*complete the sender&#39;s registration`, page)
		require.Regexp(t, `did not reach them.*refused: somebody has to act 30034`, page)
		require.NotContains(t, page, "comes later")
	})
	t.Run("IsWhatItsWhyLeadsWith", func(t *testing.T) {
		t.Parallel()
		_, read := refused(t)
		page := read("/why/messages/" + messageID)
		require.Regexp(t, `(?s)notice bad.*</svg> Refused until somebody acts.*What to do: <bdi>complete the sender&#39;s registration`, page)
		require.NotContains(t, page, "comes later")
	})
	t.Run("IsSaidInPortuguese", func(t *testing.T) {
		t.Parallel()
		_, read := refused(t)
		require.Regexp(t, `(?s)Textos recusados até que alguém aja.*Twilio 30034: o número não está registrado para A2P 10DLC.*`+
			`→ conclua o registro do remetente no console da Twilio.*<strong>3</strong> textos recusados`, read("/needs?kind=refusal&lang=pt-BR"))
	})
}
