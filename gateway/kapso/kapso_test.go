package kapso

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/route"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// number serves one number; an empty id every one.
func number(id string) ours {
	served, err := route.ReadOwners(id)
	if err != nil {
		panic(err)
	}
	return ours{served}
}

// TestNumberOfAnOrganisation: what comes to a number belongs to its organisation, and what comes to a number of nobody is not taken.
func TestNumberOfAnOrganisation(t *testing.T) {
	t.Parallel()
	const theirs = "01900000-0000-7000-8000-0000000000aa"
	served := number("123456789012345=" + theirs + ", 999")
	for id, want := range map[string]string{"123456789012345": theirs, "999": ""} {
		body := strings.ReplaceAll(kapsoHello, "123456789012345", id)
		hooks, err := served.read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(body))
		require.NoError(t, err)
		require.Equal(t, want, text(t, hooks[0]).GetOrgId())
		hooks, err = served.read(kapsoHeaders("whatsapp.conversation.ended", "k2"), []byte(body))
		require.NoError(t, err)
		require.Equal(t, want, job(t, hooks[0]).GetOrgId())
		hooks, err = served.read(kapsoHeaders("whatsapp.message.sent", "k3"), []byte(strings.ReplaceAll(body, "inbound", "outbound")))
		require.NoError(t, err)
		receipt, ok := hooks[0].Request.(*messagingv1.RecordStatusRequest)
		require.True(t, ok)
		require.Equal(t, want, strings.Join(receipt.GetSignedByOrgIds(), ","))
	}
	hooks, err := served.read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(strings.ReplaceAll(kapsoHello, "123456789012345", "77")))
	require.NoError(t, err)
	require.Equal(t, route.ResultUnknownPhone, hooks[0].Result)
	for _, wrong := range []string{"1,1", "1=acme", "=" + theirs, "1,,2", "1=" + theirs + ",1"} {
		_, err := route.ReadOwners(wrong)
		require.Error(t, err, wrong)
	}
}

// kapsoHeaders are the headers of an event.
func kapsoHeaders(event, key string) http.Header {
	return http.Header{
		headerEvent: {event}, headerKey: {key}, headerVersion: {"v2"}, "Content-Type": {"application/json"},
	}
}

// text is the message of a person that an event is.
func text(t testing.TB, hook route.Webhook) *onboardingv1.ReceiveMessageRequest {
	t.Helper()
	request, ok := hook.Request.(*onboardingv1.ReceiveMessageRequest)
	require.True(t, ok, "%T", hook.Request)
	return request
}

// requireSame compares events, which have protos as their requests.
func requireSame(t testing.TB, want, got []route.Webhook) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, []string{want[i].EventType, want[i].Result}, []string{got[i].EventType, got[i].Result})
		require.True(t, proto.Equal(want[i].Request, got[i].Request), "%v is not %v", got[i].Request, want[i].Request)
	}
}

// A text as Kapso's docs show it, with what the docs say of it.
const kapsoHello = `{"message":{"id":"wamid.123","timestamp":"1730092800","type":"text","from":"5511999998888","text":{"body":"hello there"},
"kapso":{"direction":"inbound","status":"received","processing_status":"pending","origin":"cloud_api","has_media":false,"content":"hello there"}},
"conversation":{"id":"conv_123","phone_number":"+5511999998888","status":"active","phone_number_id":"123456789012345",
"kapso":{"messages_count":1}},"is_new_conversation":true,"phone_number_id":"123456789012345"}`

func TestKapsoEvents(t *testing.T) {
	t.Parallel()
	mine := number("123456789012345")

	t.Run("S2_28_ATextIsReadAsATextOfTwilioIs", func(t *testing.T) {
		t.Parallel()
		hooks, err := mine.read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(kapsoHello))
		require.NoError(t, err)
		require.Len(t, hooks, 1)
		require.Equal(t, "kapso.message.received", hooks[0].EventType)
		request := text(t, hooks[0])
		require.True(t, proto.Equal(&onboardingv1.ReceiveMessageRequest{
			From: "+5511999998888", To: "whatsapp:123456789012345", Body: "hello there",
			Whatsapp: &onboardingv1.WhatsAppMessage{MessageId: "wamid.123", Type: "text", SentAt: &timestamppb.Timestamp{Seconds: 1730092800}},
		}, request), "%v", request)
	})

	t.Run("S2_02_WhatOnlyExplainsATextMakesItNoOther", func(t *testing.T) {
		t.Parallel()
		hooks, err := mine.read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(kapsoHello))
		require.NoError(t, err)
		later := strings.NewReplacer(`"messages_count":1`, `"messages_count":7`, `"pending"`, `"completed"`).Replace(kapsoHello)
		again, err := mine.read(kapsoHeaders("whatsapp.message.received", "k2"), []byte(later))
		require.NoError(t, err)
		requireSame(t, hooks, again)
		batch := `{"type":"whatsapp.message.received","batch":true,"data":[` + later + `],"batch_info":{"size":1}}`
		again, err = mine.read(kapsoHeaders("whatsapp.message.received", "k3"), []byte(batch))
		require.NoError(t, err)
		requireSame(t, hooks, again) // and a batch of one is that one
	})

	for _, tc := range []struct{ name, message, body string }{
		{name: "Button", message: `"type":"button","button":{"text":"Yes","payload":"y"}`, body: "Yes"},
		{name: "PressedReply", message: `"type":"interactive","interactive":{"type":"button_reply","button_reply":{"id":"1","title":"Confirm"}}`, body: "Confirm"},
		{name: "ListedReply", message: `"type":"interactive","interactive":{"type":"list_reply","list_reply":{"id":"1","title":"Later"}}`, body: "Later"},
		{name: "Picture", message: `"type":"image","image":{"caption":"STOP","id":"1"}`, body: "STOP"},
		{name: "Video", message: `"type":"video","video":{"caption":"see"}`, body: "see"},
		{name: "Document", message: `"type":"document","document":{"caption":"form"}`, body: "form"},
		{name: "Voice", message: `"type":"audio","audio":{"id":"1"}`},
		{name: "Place", message: `"type":"location","location":{"latitude":37.7}`},
		{name: "Reaction", message: `"type":"reaction","reaction":{"emoji":"👍"}`, body: "👍"},
		{name: "BrokenCharacters", message: `"type":"text","text":{"body":"a\u0000b\ud800"}`, body: "a\uFFFDb\uFFFD"},
	} {
		t.Run("S2_28_WordsOf"+tc.name, func(t *testing.T) {
			t.Parallel()
			hooks, err := mine.read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(
				`{"phone_number_id":"123456789012345","message":{"id":"wamid.1","from":"14155550100",`+tc.message+`}}`))
			require.NoError(t, err)
			request := text(t, hooks[0])
			require.Equal(t, tc.body, request.GetBody())
			media := slices.Contains([]string{"Picture", "Video", "Document", "Voice"}, tc.name)
			require.Equal(t, media, request.GetMedia() == 1)
			require.Nil(t, request.GetWhatsapp().GetSentAt())
		})
	}

	for _, tc := range []struct{ name, event, body, want string }{
		{name: "Outbound", event: "received", body: `"message":{"id":"w","from":"14155550100","kapso":{"direction":"outbound"}}`, want: route.ResultIgnored},
		{name: "ImportedHistory", event: "received", body: `"message":{"id":"w","from":"14155550100","kapso":{"direction":"inbound","origin":"history_sync"}}`, want: route.ResultIgnored},
		{name: "ReactionTakenBack", event: "received", body: `"message":{"id":"w","from":"14155550100","type":"reaction","reaction":{"emoji":""}}`, want: route.ResultIgnored},
		{name: "StatusOfATextOfThePerson", event: "read", body: `"message":{"id":"w","kapso":{"direction":"inbound"}}`, want: route.ResultIgnored},
	} {
		t.Run("S2_31_"+tc.name+"IsNotStored", func(t *testing.T) {
			t.Parallel()
			hooks, err := mine.read(kapsoHeaders("whatsapp.message."+tc.event, "k1"), []byte(`{"phone_number_id":"123456789012345",`+tc.body+`}`))
			require.NoError(t, err)
			require.Equal(t, []route.Webhook{{EventType: "kapso.message." + tc.event, Result: tc.want}}, hooks)
		})
	}

	for name, tc := range map[string]struct{ body, from, user string }{
		"FromUserID":            {`"message":{"id":"w","from_user_id":"US.13491208655302741918"}`, "whatsapp:US.13491208655302741918", "US.13491208655302741918"},
		"UserID":                {`"message":{"id":"w","user_id":"BR.1a"}`, "whatsapp:BR.1a", "BR.1a"},
		"OfConversation":        {`"message":{"id":"w"},"conversation":{"business_scoped_user_id":"US.1"}`, "whatsapp:US.1", "US.1"},
		"OfContact":             {`"message":{"id":"w"},"contact":{"user_id":"US.1"}`, "whatsapp:US.1", "US.1"},
		"WhereTheNumberWouldBe": {`"message":{"id":"w","from":"BR.5511987654321"}`, "whatsapp:BR.5511987654321", "BR.5511987654321"},
		"WithTheNumber":         {`"message":{"id":"w","from":"551187654321","from_user_id":"BR.1"}`, "+5511987654321", "BR.1"},
		"Nothing":               {`"message":{"id":"w"}`, "whatsapp:", ""},
		"WhatIsNoID":            {`"message":{"id":"w","from":"ana","user_id":"x y"}`, "whatsapp:", ""},
	} {
		t.Run("MessageWithoutANumberIsKept/"+name, func(t *testing.T) {
			t.Parallel()
			hooks, err := mine.read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(`{"phone_number_id":"123456789012345",`+tc.body+`}`))
			require.NoError(t, err)
			request := hooks[0].Request.(*onboardingv1.ReceiveMessageRequest)
			require.Equal(t, tc.from, request.GetFrom())
			require.Equal(t, tc.user, request.GetWhatsapp().GetUserId())
		})
	}

	t.Run("S2_31_AnotherNumberIsUnknownAndAnyIsTakenWithoutASetting", func(t *testing.T) {
		t.Parallel()
		other := number("999")
		for _, event := range []string{"received", "delivered"} {
			hooks, err := other.read(kapsoHeaders("whatsapp.message."+event, "k1"), []byte(kapsoHello))
			require.NoError(t, err)
			require.Equal(t, route.ResultUnknownPhone, hooks[0].Result)
		}
		hooks, err := number("").read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(kapsoHello))
		require.NoError(t, err)
		require.Empty(t, hooks[0].Result)
		hooks, err = other.read(kapsoHeaders("whatsapp.phone_number.created", "k1"), []byte(`{"phone_number_id":"123","customer":{"id":"c"}}`))
		require.NoError(t, err)
		require.Empty(t, hooks[0].Result, "a number that was just connected has no owner yet")
		require.Equal(t, "kapso.phone_number.created:k1", job(t, hooks[0]).GetIdempotencyKey())
		require.Equal(t, "kapso:123", job(t, hooks[0]).GetSubject())
		hooks, err = number("").read(kapsoHeaders("kapso.survey.response", "k2"), []byte(`{"score":9}`))
		require.NoError(t, err)
		require.Empty(t, job(t, hooks[0]).GetSubject(), "one person's answer waits for no other's")
	})
}

func TestKapsoStatuses(t *testing.T) {
	t.Parallel()
	mine := number("123456789012345")

	for event, want := range map[string]struct {
		code   int32
		errors string
	}{
		"sent": {}, "delivered": {}, "read": {}, "failed": {131047, `[{"code":131047,"title":"Re-engagement message"}]`},
	} {
		t.Run("S2_28_StatusThatIs"+event, func(t *testing.T) {
			t.Parallel()
			body := `{"message":{"id":"wamid.9","timestamp":"1730093200","type":"text","text":{"body":"hello there"},"kapso":{"direction":"outbound",
				"statuses":[{"status":"sent"}%s]}},"phone_number_id":"123456789012345"}`
			failed := ""
			if event == "failed" {
				failed = `,{"status":"failed","errors":[{"code":131047,"title":"Re-engagement message"}]}`
			}
			hooks, err := mine.read(kapsoHeaders("whatsapp.message."+event, "k1"), fmt.Appendf(nil, body, failed))
			require.NoError(t, err)
			require.Equal(t, "kapso.message."+event, hooks[0].EventType)
			require.True(t, proto.Equal(&messagingv1.RecordStatusRequest{
				TwilioSid: "wamid.9", Status: event, ErrorCode: want.code, Raw: map[string]string{
					"source": "kapso", "message_id": "wamid.9", "status": event, "error_code": strconv.Itoa(int(want.code)), "errors": want.errors,
					"phone_number_id": "123456789012345", "at": "1730093200",
				},
			}, hooks[0].Request), "%v", hooks[0].Request)
		})
	}

	t.Run("S2_28_ABatchKeepsItsOrder", func(t *testing.T) {
		t.Parallel()
		batch := `{"type":"whatsapp.message.received","batch":true,"data":[` + kapsoHello + `,` + strings.ReplaceAll(kapsoHello, "wamid.123", "wamid.124") + `]}`
		hooks, err := mine.read(kapsoHeaders("whatsapp.message.received", "k1"), []byte(batch))
		require.NoError(t, err)
		first, last := text(t, hooks[0]).GetWhatsapp(), text(t, hooks[1]).GetWhatsapp()
		require.Equal(t, []string{"wamid.123", "wamid.124"}, []string{first.GetMessageId(), last.GetMessageId()})
		require.Equal(t, []bool{true, true}, []bool{first.GetOfSeveral(), last.GetOfSeveral()})
	})
}

func TestMalformedKapsoEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, event, key, version, body, want string }{
		{name: "NoJSON", event: "whatsapp.message.received", body: `hello`, want: "no JSON object"},
		{name: "List", event: "whatsapp.message.received", body: `[]`, want: "no JSON object"},
		{name: "Null", event: "whatsapp.message.received", body: `null`, want: "no JSON object"},
		{name: "Nothing", event: "whatsapp.message.received", body: ``, want: "no JSON object"},
		{name: "TwoObjects", event: "whatsapp.message.received", body: `{}{}`, want: "no JSON object"},
		{name: "NoEventType", body: `{}`, want: "event type is missing"},
		{name: "MalformedEventType", event: "a b", body: `{}`, want: "event type is missing or malformed"},
		{name: "TwoEventTypes", event: "whatsapp.message.received", body: `{"type":"whatsapp.message.sent","batch":true,"data":[{}]}`, want: "two events"},
		{name: "NoMessageID", event: "whatsapp.message.received", body: `{"message":{"from":"14155550100"}}`, want: "message.id is missing"},
		{name: "NoMessage", event: "whatsapp.message.delivered", body: `{}`, want: "message.id is missing"},
		{name: "LongMessageID", event: "whatsapp.message.sent", body: `{"message":{"id":"` + strings.Repeat("x", 151) + `"}}`, want: "message.id is malformed"},
		{name: "NoPhoneNumberID", event: "whatsapp.message.received", body: `{"message":{"id":"w","from":"14155550100"}}`, want: "phone_number_id is missing"},
		{name: "NoKey", event: "whatsapp.conversation.ended", body: `{}`, want: "X-Idempotency-Key is missing"},
		{name: "EmptyBatch", event: "whatsapp.message.received", body: `{"batch":true,"data":[]}`, want: "1 to 100 events"},
		{name: "OversizedBatch", event: "whatsapp.message.received", body: `{"batch":true,"data":[{}` + strings.Repeat(",{}", 100) + `]}`, want: "1 to 100 events"},
		{name: "OldPayload", event: "whatsapp.message.received", version: "v1", body: `{}`, want: "v2"},
		{name: "FieldOfAnotherKind", event: "whatsapp.message.received", body: `{"message":"hello there"}`, want: "no event of Kapso"},
		{name: "NumberThatCannotBeStored", event: "whatsapp.x", key: "k", body: `{"a":1e999}`, want: "out of range"},
		{name: "Depth", event: "whatsapp.x", key: "k", body: strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200), want: "too deeply"},
	} {
		t.Run("S2_31_"+tc.name+"IsMalformed", func(t *testing.T) {
			t.Parallel()
			header := kapsoHeaders(tc.event, tc.key)
			if tc.version != "" {
				header.Set(headerVersion, tc.version)
			}
			_, err := number("").read(header, []byte(tc.body))
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hello there")
		})
	}
}

func TestPhoneOfAWhatsAppAccount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, account, want string }{
		{name: "WithoutAPlus", account: "14155550100", want: "+14155550100"},
		{name: "WithAPlus", account: "+14155550100", want: "+14155550100"},
		{name: "Written", account: "+1 (415) 555-0100", want: "+14155550100"},
		{name: "BrazilianMobileWithTheNinthDigit", account: "5531987654321", want: "+5531987654321"},
		{name: "BrazilianMobileWithoutIt", account: "553187654321", want: "+5531987654321"},
		{name: "BrazilianLandline", account: "553132654321", want: "+553132654321"},
		{name: "MexicanMobileOfOld", account: "5215512345678", want: "+525512345678"},
		{name: "MexicanMobile", account: "525512345678", want: "+525512345678"},
		{name: "ArgentineMobile", account: "5491123456789", want: "+5491123456789"},
		{name: "Nothing", account: ""},
		{name: "Words", account: "US.13491208655302741918"},
		{name: "LeadingZero", account: "0014155550100"},
		{name: "TooShort", account: "123456"},
		{name: "TooLong", account: "1234567890123456"},
		{name: "OtherDigits", account: "١٤١٥٥٥٥٠١٠٠", want: "+14155550100"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, phoneOf(tc.account))
		})
	}
}

// FuzzKapso checks the reader on any bytes: no panic, and nothing is stored without a name, a key and a payload
// that Postgres can hold; and reading its own output gives the same.
func FuzzKapso(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte, event, key string) {
		header := kapsoHeaders(event, key)
		hooks, err := number("").read(header, body)
		if err != nil {
			require.Empty(t, hooks)
			return
		}
		require.NotEmpty(t, hooks)
		for _, hook := range hooks {
			requireKept(t, hook)
			if request, ok := hook.Request.(*onboardingv1.ReceiveMessageRequest); ok {
				if user, none := strings.CutPrefix(request.GetFrom(), numberless); none {
					require.Equal(t, request.GetWhatsapp().GetUserId(), user)
				} else {
					require.Equal(t, request.GetFrom(), phoneOf(request.GetFrom()))
				}
			}
		}
		again, err := number("").read(header, body)
		require.NoError(t, err)
		requireSame(t, hooks, again)
	})
}

// job returns the job that an event becomes.
func job(t testing.TB, hook route.Webhook) *onboardingv1.EnqueueWebhookJobRequest {
	t.Helper()
	request, ok := hook.Request.(*onboardingv1.EnqueueWebhookJobRequest)
	require.True(t, ok, "%T", hook.Request)
	require.Equal(t, hook.EventType, request.GetEventType())
	return request
}

// requireKept checks that an event can be stored: every string of its request, and of a job also its key and its payload.
func requireKept(t *testing.T, hook route.Webhook) {
	t.Helper()
	require.NoError(t, route.CheckEventName(hook.EventType))
	if hook.Result != "" {
		require.Nil(t, hook.Request)
		return
	}
	wire, err := proto.Marshal(hook.Request)
	require.NoError(t, err, "text that is not UTF-8")
	require.NotEmpty(t, wire)
	switch request := hook.Request.(type) {
	case *onboardingv1.ReceiveMessageRequest:
		require.NotEmpty(t, request.GetWhatsapp().GetMessageId())
		for _, text := range []string{request.GetFrom(), request.GetTo(), request.GetBody(), request.GetWhatsapp().GetType()} {
			requireStorable(t, text)
		}
		require.True(t, request.GetWhatsapp().GetSentAt() == nil || request.GetWhatsapp().GetSentAt().IsValid())
	case *messagingv1.RecordStatusRequest:
		require.NotEmpty(t, request.GetTwilioSid())
		require.Contains(t, statuses, request.GetStatus())
		for _, text := range request.GetRaw() {
			requireStorable(t, text)
		}
	case *onboardingv1.EnqueueWebhookJobRequest:
		require.NotEmpty(t, request.GetIdempotencyKey())
		require.LessOrEqual(t, len(request.GetIdempotencyKey()), 255)
		requireStorable(t, request.GetIdempotencyKey())
		requireStorable(t, request.GetSubject())
		payload := request.GetPayloadJson()
		require.True(t, json.Valid(payload))
		requireStorable(t, string(payload))
		require.NotContains(t, strings.ReplaceAll(string(payload), `\\`, ""), `\u0000`, "jsonb refuses it")
		require.Equal(t, byte('{'), payload[0])
	default:
		t.Fatalf("no service takes a %T", request)
	}
}

func requireStorable(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text) && !strings.Contains(text, "\x00"), "%q", text)
}
