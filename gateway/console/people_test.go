package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestEnrolment(t *testing.T) {
	t.Parallel()
	form := url.Values{"phone": {"+1 202 555 01"}, "first_name": {`"Ana"`}, "locale": {"pt-BR"}, "time_zone": {"America/Nowhere"}, "back": {root + "/people"}}

	t.Run("ThatFailsKeepsWhatWasTyped", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.refuses("CreateProfile", codes.InvalidArgument, "phone is no number")
		answer := b.post(root+"/people", form)
		require.Equal(t, root+"/people", answer.Request.URL.RequestURI(), "nothing of it is in the address")
		body := readsAll(t, answer)
		require.Contains(t, body, "Not done: phone is no number")
		for _, kept := range []string{`value="&#43;1 202 555 01"`, `value="&#34;Ana&#34;"`, `<option value="pt-BR" selected>`, `value="America/Nowhere"`} {
			require.Contains(t, body, kept)
		}
		_, body = b.page(root + "/people")
		require.NotContains(t, body, `202 555 01"`, "once")
	})
	t.Run("OfLongTextKeepsTheRest", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.refuses("CreateProfile", codes.InvalidArgument, strings.Repeat("x", 2000))
		long := url.Values{"phone": {"+12025550143"}, "first_name": {strings.Repeat("x", 60000)}, "back": {root + "/people"}}
		require.Contains(t, b.said(root+"/people", long), `value="&#43;12025550143"`)
	})
	t.Run("OfANumberThatIsEnrolledSaysSo", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.says("CreateProfile", &onboardingv1.CreateProfileResponse{Profile: ana()})
		body := b.said(root+"/people", form)
		require.Contains(t, body, "nothing was changed")
		require.NotContains(t, body, "Enrolled. Activate")
	})
	t.Run("OfANewNumberSaysSo", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.says("CreateProfile", &onboardingv1.CreateProfileResponse{Profile: ana(), Created: true})
		require.Contains(t, b.said(root+"/people", form), "Enrolled. Activate")
	})
}

func TestHoldingTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, deed string
		held       bool
		want       string
	}{
		{name: "AHeldPersonKeepsTheFirstReason", deed: "hold", held: true, want: "the first reason stays"},
		{name: "AHoldIsSaid", deed: "hold", want: "On hold."},
		{name: "ReleasingAPersonWhoIsNotOnHoldSaysSo", deed: "release", want: "was not on hold"},
		{name: "AReleaseIsSaid", deed: "release", held: true, want: "Released."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, s := meets(t, string(rpc.RoleOperator))
			p := ana()
			p.Hold = tt.held
			s.knows(p)
			require.Contains(t, b.acts(root+"/people/"+anasID+"/"+tt.deed, url.Values{"reason": {"another"}}), tt.want)
		})
	}
}

func TestSearchFindsTextsByTheirWords(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{
		{MessageId: messageID, ProfileId: anasID, Body: "Não consigo abrir o link" + hostile, Direction: "inbound"},
		{MessageId: letterID, ProfileId: anasID, Body: "ok", Direction: "inbound"},
	}})
	s.says("ListProfiles", &onboardingv1.ListProfilesResponse{})
	_, page := b.page(root + "/people?q=LINK+nao")
	require.Contains(t, page, "Texts with these words")
	require.NotContains(t, page, "No person is found.", "their people are")
	require.Contains(t, page, "Não consigo abrir o link")
	require.NotContains(t, page, `<p dir="auto">ok</p>`, "of a messaging that knows no words")
	require.Equal(t, "LINK nao", calls[*messagingv1.ListMessagesRequest](s, "ListMessages")[0].GetWords())
	require.Equal(t, "LINK nao", calls[*onboardingv1.ListProfilesRequest](s, "ListProfiles")[0].GetQuery())
	b.page(root + "/people?q=%2B1+202")
	require.Len(t, calls[*messagingv1.ListMessagesRequest](s, "ListMessages"), 1, "a number is no words")
}
