package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/message"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
)

func TestLinkedTextsOfServices(t *testing.T) {
	t.Parallel()
	operator := frame{
		reader: reader{place: time.FixedZone("-03", -3*60*60), printer: message.NewPrinter(languages[0], message.Catalog(words))},
		Who:    signin.Session{Role: rpc.RoleOperator}, Now: noon, URL: "/console/people/x?times=theirs", Path: "/console/people/x",
	}
	onReview := operator
	onReview.URL, onReview.Path = "/console/do?deed=resume-session."+sessionID, "/console/do"
	user := operator
	user.Who.Role = rpc.RoleUser
	for _, tt := range []struct {
		name, text, want string
		reader           frame
	}{
		{
			name: "Resolution", reader: operator, text: "mended POST /v1/messages/" + messageID + ":resolve with RESOLUTION_NOT_SENT, then",
			want: `mended <a href="/console/needs/messages/` + messageID + `#resolve">resolve the text</a> (“Twilio does not have it”), then`,
		},
		{
			name: "DeedComesBack", reader: operator, text: "POST /v1/sessions/" + sessionID + ":resume",
			want: `<a href="/console/do?deed=resume-session.` + sessionID + `&amp;back=%2Fconsole%2Fpeople%2Fx%3Ftimes%3Dtheirs">resume the session</a>`,
		},
		{
			name: "DeedOfAReviewComesBackToTheList", reader: onReview, text: "POST /v1/sessions/" + sessionID + ":reset",
			want: `<a href="/console/do?deed=reset-session.` + sessionID + `&amp;back=%2Fconsole%2Fneeds">reset the session</a>`,
		},
		{name: "Release", reader: operator, text: "POST /v1/profiles/" + anasID + ":release", want: `<a href="/console/people/` + anasID + `#release">release the person</a>`},
		{
			name: "AllScheduling", reader: operator, text: "what POST /v1/scheduling:resume ends",
			want: `what <a href="/console#scheduling">resume scheduling</a> ends`,
		},
		{
			name: "RowsThatAreNotNamed", reader: operator,
			text: "POST /v1/messages/{message_id}:resolve; or PUT /v1/consents/{their number} with evidence",
			want: `<a href="/console/needs?kind=message">resolve the text</a>; or <a href="#consent">write to the ledger</a> with evidence`,
		},
		{name: "Evidence", reader: operator, text: "GET /v1/messages/" + messageID + "/evidence", want: `<a href="/console/needs/messages/` + messageID + `">what is known of the text</a>`},
		{name: "Instant", reader: operator, text: "at 2026-11-24T19:46:27Z.", want: `at <time class="day" datetime="2026-11-24T19:46:27Z" title="2026-11-24 16:46:27 -03">Nov 24 16:46</time>.`},
		{name: "Spans", reader: operator, text: "for 9600h0m0s, then 1m30s; 36ms", want: "for 400 days, then 1 min 30 s; 36ms"},
		{name: "NoInstant", reader: operator, text: "2026-99-24T19:46:27Z", want: "2026-99-24T19:46:27Z"},
		{name: "AUserHasNoSuchPages", reader: user, text: "POST /v1/goals/" + messageID + ":reschedule", want: "move the goal"},
		{name: "UnknownMethodStays", reader: operator, text: "POST /v1/sessions/" + sessionID + ":dance", want: "POST /v1/sessions/" + sessionID + ":dance"},
		{name: "NoIDStays", reader: operator, text: "POST /v1/sessions/x:resume", want: "POST /v1/sessions/x:resume"},
		{
			name: "HostileWordsAreEscaped", reader: operator, text: hostile + `"/v1/messages/` + messageID + `"><img`,
			want: "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;\u202e&#34;" + `<a href="/console/why/messages/` + messageID + `">this text</a>` + "&#34;&gt;&lt;img",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, string(tt.reader.Linked(tt.text)))
		})
	}
	for method, found := range reached {
		require.True(t, known(found.key), method)
	}
}
