package twilio_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"

	"paceline.internal/emulators/twilio"
)

// TestConformance checks the emulator against the numbered items of reference/qstash-twilio-wire-facts.md, section 6,
// through the unmodified twilio-go.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("Item42CreateShape", testItem42)
	t.Run("Item43Authentication", testItem43)
	t.Run("Item44ValidationCodes", testItem44)
	t.Run("Item45MagicNumbers", testItem45)
	t.Run("Item46OptOut", testItem46)
	t.Run("Item48StatusCallbacks", testItem48)
	t.Run("Item49CallbackFaults", testItem49)
	t.Run("Item50ConnectionOverrides", testItem50)
	t.Run("Item51Signature", testItem51)
	t.Run("Item53InboundWebhook", testItem53)
	t.Run("Item54List", testItem54)
	t.Run("Item55NoIdempotency", testItem55)
	t.Run("Item56CreateFaults", testItem56)
	t.Run("Item60UnmodifiedClient", testItem60)
}

func testItem42(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("FromNumber", func(t *testing.T) {
		t.Parallel()
		m, err := b.send(nil)
		require.NoError(t, err)
		require.Regexp(t, `^SM[0-9a-f]{32}$`, *m.Sid)
		require.Equal(t, "queued", *m.Status)
		require.Equal(t, number, *m.From)
		require.Equal(t, "1", *m.NumSegments)
		require.Equal(t, "outbound-api", *m.Direction)
		require.Equal(t, "Fri, 20 Nov 2026 12:00:00 +0000", *m.DateCreated)
		require.Equal(t, "/2010-04-01/Accounts/"+account+"/Messages/"+*m.Sid+".json", *m.Uri)
		require.Nil(t, m.DateSent)
		require.Nil(t, m.Price)
		require.Nil(t, m.ErrorCode)
		require.Nil(t, m.MessagingServiceSid)
	})

	t.Run("MessagingServiceHasNotPickedItsSender", func(t *testing.T) {
		t.Parallel()
		m, err := b.send(viaService)
		require.NoError(t, err)
		require.Equal(t, "accepted", *m.Status)
		require.Equal(t, "0", *m.NumSegments)
		require.Equal(t, service, *m.MessagingServiceSid)
		require.Nil(t, m.From)
	})

	t.Run("UnknownFieldsAreNullNotAbsent", func(t *testing.T) {
		t.Parallel()
		resp, body := b.raw(t, "application/x-www-form-urlencoded", url.Values{"To": {person}, "From": {number}, "Body": {"x"}}.Encode())
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		for _, field := range []string{"price", "price_unit", "date_sent", "error_code", "error_message", "messaging_service_sid"} {
			require.Contains(t, body, field)
			require.Nil(t, body[field], field)
		}
	})

	t.Run("JSONIsNotRead", func(t *testing.T) {
		t.Parallel()
		resp, body := b.raw(t, "application/json", `{"To":"`+person+`","From":"`+number+`","Body":"x"}`)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.InDelta(t, 21604, body["code"], 0)
	})
}

// raw posts to the create endpoint without twilio-go.
func (b *bundle) raw(t *testing.T, contentType, body string) (*http.Response, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		b.origin+"/2010-04-01/Accounts/"+account+"/Messages.json", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	req.SetBasicAuth(account, token)
	resp, err := b.http.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	var decoded map[string]any
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&decoded))
	return resp, decoded
}

func viaService(p *openapi.CreateMessageParams) {
	p.From = nil
	p.SetMessagingServiceSid(service)
}

func testItem43(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unknown := "SM00000000000000000000000000000000"
	elsewhere := "AC00000000000000000000000000000000"
	for _, tc := range []struct {
		name     string
		password string
		account  string
		status   int
		want     int
	}{
		{name: "WrongToken", password: "wrong", account: account, status: 401, want: 20003},
		{name: "UnknownMessage", password: token, account: account, status: 404, want: 20404},
		{name: "AnotherAccount", password: token, account: elsewhere, status: 404, want: 20404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := b.client(account, tc.password).FetchMessage(unknown,
				(&openapi.FetchMessageParams{}).SetPathAccountSid(tc.account))
			var refusal *client.TwilioRestError
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, tc.status, refusal.Status)
			require.Equal(t, tc.want, refusal.Code)
			require.NotEmpty(t, refusal.MoreInfo)
		})
	}
}

func testItem44(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tc := range []struct {
		name string
		edit func(*openapi.CreateMessageParams)
		want int
	}{
		{name: "ToIsNoNumber", edit: func(p *openapi.CreateMessageParams) { p.SetTo("5550190001") }, want: 21211},
		{name: "ToIsTooShort", edit: func(p *openapi.CreateMessageParams) { p.SetTo("+123") }, want: 21211},
		{name: "FromIsNoNumber", edit: func(p *openapi.CreateMessageParams) { p.SetFrom("+1555010000x") }, want: 21212},
		{name: "BodyMissing", edit: func(p *openapi.CreateMessageParams) { p.Body = nil }, want: 21602},
		{name: "FromMissing", edit: func(p *openapi.CreateMessageParams) { p.From = nil }, want: 21603},
		{name: "ToMissing", edit: func(p *openapi.CreateMessageParams) { p.To = nil }, want: 21604},
		{name: "FromNotOwned", edit: func(p *openapi.CreateMessageParams) { p.SetFrom("+15550100099") }, want: 21606},
		{name: "CallbackHostWithUnderscore", edit: callbackTo("http://my_service:8080/s"), want: 21609},
		{name: "CallbackWithoutHost", edit: callbackTo("/status"), want: 21609},
		{name: "CallbackOfAnotherScheme", edit: callbackTo("ftp://example.com/s"), want: 21609},
		{name: "BodyOf1601", edit: func(p *openapi.CreateMessageParams) { p.SetBody(strings.Repeat("é", 1601)) }, want: 21617},
		{name: "ServiceUnknown", edit: func(p *openapi.CreateMessageParams) { p.SetMessagingServiceSid("MGnone") }, want: 21705},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, b.code(tc.edit))
		})
	}
	t.Run("BodyOf1600IsFine", func(t *testing.T) {
		t.Parallel()
		b.must(func(p *openapi.CreateMessageParams) { p.SetBody(strings.Repeat("é", 1600)) })
	})
}

func callbackTo(target string) func(*openapi.CreateMessageParams) {
	return func(p *openapi.CreateMessageParams) { p.SetStatusCallback(target) }
}

func testItem45(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tc := range []struct {
		name, from, to string
		want           int
	}{
		{name: "FromInvalid", from: "+15005550001", to: person, want: 21212},
		{name: "FromNotOwned", from: "+15005550007", to: person, want: 21606},
		{name: "FromQueueFull", from: "+15005550008", to: person, want: 21611},
		{name: "ToInvalid", from: number, to: "+15005550001", want: 21211},
		{name: "ToUnroutable", from: number, to: "+15005550002", want: 21612},
		{name: "ToRegionNotEnabled", from: number, to: "+15005550003", want: 21408},
		{name: "ToOptedOut", from: number, to: "+15005550004", want: 21610},
		{name: "ToNoMobile", from: number, to: "+15005550009", want: 21614},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, b.code(func(p *openapi.CreateMessageParams) { p.SetFrom(tc.from).SetTo(tc.to) }))
		})
	}
	t.Run("TheGoodSenderNeverCallsBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sid := b.must(func(p *openapi.CreateMessageParams) { p.SetFrom("+15005550006").SetStatusCallback(b.app.url) })
		b.pass(time.Minute)
		require.Equal(t, twilio.StatusQueued, b.message(sid).Status)
		require.Empty(t, b.emulator.Callbacks())
	})
}

func testItem46(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"STOP", "stop", " Stop\n", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT"} {
		t.Run("Stops/"+strings.TrimSpace(word), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.Equal(t, http.StatusNoContent, b.receive(word).StatusCode, "the webhook is still called")
			require.Equal(t, 21610, b.code(nil))
			require.True(t, b.emulator.OptedOut(person, number))
		})
	}
	for _, word := range []string{"START", "yes", "UNSTOP"} {
		t.Run("Reopens/"+word, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.receive("STOP")
			b.receive(word)
			b.must(nil)
		})
	}
	for _, words := range []string{"STOP please", "stop.", "please stop", "no"} {
		t.Run("DoesNotStop/"+words, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.receive(words)
			b.must(nil)
		})
	}
	t.Run("CoversEveryNumberOfAServiceAndNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.emulator.Receive(t.Context(), person, pooled1, "STOP")
		require.NoError(t, err)
		require.Equal(t, 21610, b.code(viaService))
		require.Equal(t, 21610, b.code(func(p *openapi.CreateMessageParams) { p.SetFrom(pooled2) }))
		b.must(nil)
	})
	t.Run("TheCarrierAnswersOncePerChange", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, word := range []string{"yes", "HELP", "STOP", "STOP", "HELP", "START"} {
			b.receive(word)
		}
		var replies []string
		for _, m := range b.emulator.Messages() {
			if m.Carrier {
				replies = append(replies, m.Body[:25])
			}
		}
		require.Equal(t, []string{"Reply STOP to unsubscribe", "You have successfully bee", "You have successfully bee"}, replies)
	})
}

func testItem48(t *testing.T) {
	t.Parallel()

	t.Run("FromNumber", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sid := b.must(callbackTo(b.app.url + "/status?message_id=7#rt=4000&rc=3&rp=all"))
		b.pass(0)
		posts, _ := b.app.received()
		require.Empty(t, posts, "the initial status has no callback")
		b.pass(time.Second)

		posts, statuses := b.app.received()
		require.Equal(t, []string{"sent", "delivered"}, statuses)
		for _, p := range posts {
			require.True(t, p.Signed)
			require.Equal(t, "/status", p.Path)
			require.Equal(t, "message_id=7", p.Query)
			for name, want := range map[string]string{
				"MessageSid": sid, "SmsSid": sid, "AccountSid": account, "From": number, "To": person, "ApiVersion": "2010-04-01",
				"SmsStatus": p.Form.Get("MessageStatus"),
			} {
				require.Equal(t, want, p.Form.Get(name), name)
			}
			require.False(t, p.Form.Has("ErrorCode"))
		}
		require.Equal(t, "2611201200", posts[1].Form.Get("RawDlrDoneDate"))
		require.Equal(t, []twilio.Change{
			{Status: "queued", At: start},
			{Status: "sending", At: start.Add(300 * time.Millisecond)},
			{Status: "sent", At: start.Add(300 * time.Millisecond)},
			{Status: "delivered", At: start.Add(900 * time.Millisecond)},
		}, b.message(sid).History)
	})

	t.Run("MessagingServiceReportsQueuedToo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sid := b.must(func(p *openapi.CreateMessageParams) {
			viaService(p)
			p.SetStatusCallback(b.app.url)
		})
		b.pass(time.Second)
		posts, statuses := b.app.received()
		require.Equal(t, []string{"queued", "sent", "delivered"}, statuses)
		require.Equal(t, service, posts[0].Form.Get("MessagingServiceSid"))
		fetched, err := b.api.FetchMessage(sid, nil)
		require.NoError(t, err)
		require.Contains(t, []string{pooled1, pooled2}, *fetched.From)
	})

	t.Run("FailuresCarryTheirCode", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		fates := []twilio.Fate{{Final: twilio.StatusUndelivered, Code: 30003}, {Final: twilio.StatusFailed, Code: 30001}}
		for _, fate := range fates {
			b.emulator.SetScript(twilio.Script{OnFate: func(twilio.Message) twilio.Fate { return fate }})
			sid := b.must(callbackTo(b.app.url))
			b.pass(time.Second)
			fetched, err := b.api.FetchMessage(sid, nil)
			require.NoError(t, err)
			require.Equal(t, fate.Code, *fetched.ErrorCode)
		}
		posts, statuses := b.app.received()
		require.Equal(t, []string{"sent", "undelivered", "failed"}, statuses)
		require.Equal(t, "30003", posts[1].Form.Get("ErrorCode"))
		require.Equal(t, "30001", posts[2].Form.Get("ErrorCode"))
	})
}

func testItem49(t *testing.T) {
	t.Parallel()
	onSent := func(f twilio.CallbackFault) twilio.Script {
		return twilio.Script{OnCallback: func(m twilio.Message) twilio.CallbackFault {
			if m.Status == twilio.StatusSent {
				return f
			}
			return twilio.CallbackFault{}
		}}
	}
	for _, tc := range []struct {
		name   string
		script twilio.Script
		want   []string
	}{
		{name: "Dropped", script: onSent(twilio.CallbackFault{Drop: true}), want: []string{"delivered"}},
		{name: "Duplicated", script: onSent(twilio.CallbackFault{Duplicate: 2}), want: []string{"sent", "sent", "sent", "delivered"}},
		{name: "DelayedBehindItsSuccessor", script: onSent(twilio.CallbackFault{Delay: time.Minute}), want: []string{"delivered", "sent"}},
		{
			name: "SentIsTheLastStatus", want: []string{"sent"},
			script: twilio.Script{OnFate: func(twilio.Message) twilio.Fate { return twilio.Fate{Final: twilio.StatusSent} }},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.emulator.SetScript(tc.script)
			b.must(callbackTo(b.app.url))
			b.pass(time.Second)
			b.pass(time.Minute)
			_, statuses := b.app.received()
			require.Equal(t, tc.want, statuses)
		})
	}
}

func testItem50(t *testing.T) {
	t.Parallel()
	status := func(code int) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	hang := func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	breakOff := func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "partial")
	}
	for _, tc := range []struct {
		name     string
		fragment string
		answer   func(int, http.ResponseWriter, *http.Request)
		want     []twilio.Attempt
	}{
		{name: "ByDefaultA500IsNotRetried", answer: status(500), want: []twilio.Attempt{{StatusCode: 500, Failure: "5xx"}}},
		{name: "AllRetriesA500", fragment: "#rc=2&rp=all", answer: status(500), want: repeat(3, twilio.Attempt{StatusCode: 500, Failure: "5xx"})},
		{name: "4xxRetriesOnlyThat", fragment: "#rc=2&rp=ct,4xx", answer: status(500), want: repeat(1, twilio.Attempt{StatusCode: 500, Failure: "5xx"})},
		{name: "4xxRetriesA403", fragment: "#rc=1&rp=ct,4xx", answer: status(403), want: repeat(2, twilio.Attempt{StatusCode: 403, Failure: "4xx"})},
		{name: "RetriesAreFiveAtMost", fragment: "#rc=6&rp=all", answer: status(500), want: repeat(2, twilio.Attempt{StatusCode: 500, Failure: "5xx"})},
		{name: "ReadTimeout", fragment: "#rt=100&rc=1&rp=rt", answer: hang, want: repeat(2, twilio.Attempt{Failure: "rt"})},
		{name: "ReadTimeoutIsNotRetriedByDefault", fragment: "#rt=100", answer: hang, want: repeat(1, twilio.Attempt{Failure: "rt"})},
		{name: "PartialIsNeverRetried", fragment: "#rc=3&rp=all", answer: breakOff, want: []twilio.Attempt{{StatusCode: 200, Failure: "partial"}}},
		{name: "SuccessEndsIt", fragment: "#rc=5&rp=all", answer: status(204), want: []twilio.Attempt{{StatusCode: 204}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.app.answers(tc.answer)
			b.must(callbackTo(b.app.url + "/s" + tc.fragment))
			b.pass(500 * time.Millisecond)
			callbacks := b.emulator.Callbacks()
			require.Len(t, callbacks, 1)
			require.Equal(t, tc.want, callbacks[0].Attempts)

			posts, _ := b.app.received()
			for _, p := range posts {
				require.True(t, p.Signed)
				require.NotEmpty(t, p.Header.Get("I-Twilio-Idempotency-Token"))
				require.Equal(t, posts[0].Header.Get("I-Twilio-Idempotency-Token"), p.Header.Get("I-Twilio-Idempotency-Token"))
			}
		})
	}
	t.Run("ByDefaultARefusedConnectionIsRetriedOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		gone := newClosedServer(t)
		b.emulator.SetInboundURL(gone)
		require.Equal(t, repeat(2, twilio.Attempt{Failure: "ct"}), b.receive("hello").Attempts)
	})
	t.Run("TheBudgetCoversAllRetries", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.app.answers(hang)
		b.emulator.SetInboundURL(b.app.url + "#rt=100&rc=5&rp=all&tt=250")
		require.Less(t, len(b.receive("hello").Attempts), 6)
	})
	t.Run("InboundFollowsThemToo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetInboundURL(b.app.url + "#rc=3&rp=all")
		b.app.answers(func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		require.Equal(t, 200, b.receive("hello").StatusCode)
		posts, _ := b.app.received()
		require.Len(t, posts, 3)
	})
}

func repeat(n int, a twilio.Attempt) []twilio.Attempt {
	all := make([]twilio.Attempt, n)
	for i := range all {
		all[i] = a
	}
	return all
}

func testItem51(t *testing.T) {
	t.Parallel()

	t.Run("PublishedVector", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "L/OH5YylLD5NRKLltdqwSvS0BnU=", twilio.Sign("12345", "https://example.com/myapp.php?foo=1&bar=2", url.Values{
			"CallSid": {"CA1234567890ABCDE"}, "Caller": {"+14158675310"}, "Digits": {"1234"},
			"From": {"+14158675310"}, "To": {"+18005551212"},
		}))
	})
	for _, tc := range []struct{ name, body string }{
		{name: "PlainHTTPOnACustomPort", body: "hello"},
		{name: "EmptyBody", body: ""},
		{name: "Unicode", body: "Olá, José 👋 & <tudo> bem? +1%20"},
		{name: "SurroundingSpace", body: " hi \r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.emulator.SetInboundURL(b.app.url + "/in?org=a%20b&x=1#rc=0")
			b.receive(tc.body)
			posts, _ := b.app.received()
			require.Len(t, posts, 1)
			require.True(t, posts[0].Signed)
			require.Equal(t, tc.body, posts[0].Form.Get("Body"))
		})
	}
	t.Run("UserinfoIsNotSigned", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetInboundURL(strings.Replace(b.app.url, "http://", "http://user:pass@", 1) + "/in")
		b.receive("hello")
		posts, _ := b.app.received()
		require.True(t, posts[0].Signed)
		require.NotEmpty(t, posts[0].Header.Get("Authorization"))
	})
}

func testItem53(t *testing.T) {
	t.Parallel()

	t.Run("Params", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d, err := b.emulator.Receive(t.Context(), person, pooled1, "hello there")
		require.NoError(t, err)
		posts, _ := b.app.received()
		require.Equal(t, "/inbound", posts[0].Path)
		for name, want := range map[string]string{
			"MessageSid": d.MessageSID, "SmsSid": d.MessageSID, "SmsMessageSid": d.MessageSID, "AccountSid": account,
			"MessagingServiceSid": service, "From": person, "To": pooled1, "Body": "hello there", "NumMedia": "0",
			"NumSegments": "1", "SmsStatus": "received", "ApiVersion": "2010-04-01",
		} {
			require.Equal(t, want, posts[0].Form.Get(name), name)
		}
	})

	for _, tc := range []struct {
		name, contentType, body string
		warnings                []int
		want                    []string
	}{
		{name: "EmptyResponse", contentType: "text/xml", body: `<?xml version="1.0" encoding="UTF-8"?><Response/>`, warnings: []int{}},
		{name: "EmptyBody", contentType: "text/plain", body: "", warnings: []int{}},
		{
			name: "Messages", contentType: "text/xml; charset=utf-8", warnings: []int{},
			body: `<Response><Message>one &amp; only</Message><Message><Body>two</Body></Message></Response>`,
			want: []string{"one & only", "two"},
		},
		{name: "BrokenXML", contentType: "text/xml", body: `<Response><Message>`, warnings: []int{12100}},
		{name: "AnotherDocument", contentType: "application/xml", body: `<html/>`, warnings: []int{12100}},
		{name: "WrongContentType", contentType: "application/json", body: `{"ok":true}`, warnings: []int{12300}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.app.says(tc.contentType, tc.body)
			require.Equal(t, tc.body, b.receive("hello").Body)
			require.Equal(t, tc.warnings, b.events.codes(twilio.EventWarning))
			var replies []string
			for _, m := range b.emulator.Messages() {
				if m.Direction == twilio.DirectionReply {
					require.Equal(t, person, m.To)
					require.Equal(t, number, m.From)
					replies = append(replies, m.Body)
				}
			}
			require.Equal(t, tc.want, replies)
		})
	}
	t.Run("FailedWebhookIsAWarning", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.app.answers(func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		require.Equal(t, 500, b.receive("hello").StatusCode)
		require.Equal(t, []int{11200}, b.events.codes(twilio.EventWarning))
	})
	t.Run("ReplyToAPersonWhoStoppedIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.app.says("text/xml", `<Response><Message>Sorry to see you go</Message></Response>`)
		b.receive("STOP")
		require.Equal(t, []int{21610}, b.events.codes(twilio.EventRefused))
	})
}

func testItem54(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := "+15550190002"
	var sids []string // oldest first, a day apart
	for i := range 5 {
		sids = append(sids, b.must(func(p *openapi.CreateMessageParams) {
			if i == 1 {
				p.SetTo(other)
			}
		}))
		b.pass(24 * time.Hour)
	}
	unsent := b.must(nil)
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	list := func(t *testing.T, p *openapi.ListMessageParams) []string {
		t.Helper()
		found, err := b.api.ListMessage(p)
		require.NoError(t, err)
		got := []string{}
		for _, m := range found {
			got = append(got, *m.Sid)
		}
		return got
	}

	for _, tc := range []struct {
		name   string
		params *openapi.ListMessageParams
		want   []string
	}{
		{name: "NewestFirstAndUnsentLast", params: &openapi.ListMessageParams{}, want: []string{sids[4], sids[3], sids[2], sids[1], sids[0], unsent}},
		{name: "To", params: (&openapi.ListMessageParams{}).SetTo(other), want: []string{sids[1]}},
		{name: "From", params: (&openapi.ListMessageParams{}).SetFrom(pooled1), want: []string{}},
		{name: "FromAndTo", params: (&openapi.ListMessageParams{}).SetFrom(number).SetTo(other), want: []string{sids[1]}},
		{name: "SentAtExcludesTheUnsent", params: (&openapi.ListMessageParams{}).SetDateSentAfter(day(3)), want: []string{sids[4], sids[3]}},
		{name: "SentBefore", params: (&openapi.ListMessageParams{}).SetDateSentBefore(day(1).Add(time.Second)), want: []string{sids[1], sids[0]}},
		{name: "SentAtThatSecond", params: (&openapi.ListMessageParams{}).SetDateSent(day(2)), want: []string{sids[2]}},
		{name: "Pages", params: (&openapi.ListMessageParams{}).SetPageSize(2), want: []string{sids[4], sids[3], sids[2], sids[1], sids[0], unsent}},
		{name: "PagesOfAFilter", params: (&openapi.ListMessageParams{}).SetPageSize(1).SetDateSentBefore(day(1).Add(time.Second)), want: []string{sids[1], sids[0]}},
		{name: "Limit", params: (&openapi.ListMessageParams{}).SetPageSize(2).SetLimit(3), want: []string{sids[4], sids[3], sids[2]}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, list(t, tc.params))
		})
	}

	get := func(t *testing.T, uri string) (page struct {
		Messages []struct{ SID string }
		Next     *string `json:"next_page_uri"`
		Previous *string `json:"previous_page_uri"`
		First    string  `json:"first_page_uri"`
		Page     int
	}, status int,
	) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.origin+uri, nil)
		require.NoError(t, err)
		req.SetBasicAuth(account, token)
		resp, err := b.http.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&page))
		return page, resp.StatusCode
	}
	base := "/2010-04-01/Accounts/" + account + "/Messages.json"
	t.Run("URIsAreRelativeAndLeadBothWays", func(t *testing.T) {
		t.Parallel()
		first, _ := get(t, base+"?PageSize=2")
		require.Nil(t, first.Previous)
		require.True(t, strings.HasPrefix(*first.Next, "/2010-04-01/"))
		second, _ := get(t, *first.Next)
		require.Equal(t, 1, second.Page)
		back, _ := get(t, *second.Previous)
		require.Equal(t, first.Messages, back.Messages)
		last, _ := get(t, base+"?PageSize=6")
		require.Nil(t, last.Next)
	})
	t.Run("ADateIsItsWholeDay", func(t *testing.T) {
		t.Parallel()
		page, _ := get(t, base+"?DateSent=2026-11-21")
		require.Len(t, page.Messages, 1)
		page, _ = get(t, base+"?"+url.Values{"DateSent>": {"2026-11-21"}, "DateSent<": {"2026-11-22"}}.Encode())
		require.Len(t, page.Messages, 2)
		_, status := get(t, base+"?DateSent=yesterday")
		require.Equal(t, http.StatusBadRequest, status)
	})
}

func testItem55(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.must(nil), b.must(nil)
	require.NotEqual(t, first, second)

	send := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.origin+"/2010-04-01/Accounts/"+account+"/Messages.json",
			strings.NewReader(url.Values{"To": {person}, "From": {number}, "Body": {"x"}}.Encode()))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("I-Twilio-Idempotency-Token", "same")
		req.SetBasicAuth(account, token)
		resp, err := b.http.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		var m struct{ SID string }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&m))
		return m.SID
	}
	first, second = send(), send()
	require.NotEqual(t, first, second)
}

func testItem56(t *testing.T) {
	t.Parallel()
	script := func(b *bundle, f twilio.CreateFault) {
		b.emulator.SetScript(twilio.Script{OnCreate: func(n int, _ twilio.Message) twilio.CreateFault {
			if n == 1 {
				return f
			}
			return twilio.CreateFault{}
		}})
	}
	for _, tc := range []struct {
		name  string
		fault twilio.CreateFault
		want  int // messages that exist afterwards
	}{
		{name: "429NeverCreates", fault: twilio.CreateFault{Answer: twilio.AnswerTooMany, Commit: true}, want: 0},
		{name: "500", fault: twilio.CreateFault{Answer: twilio.AnswerServerError}, want: 0},
		{name: "500AfterCreating", fault: twilio.CreateFault{Answer: twilio.AnswerServerError, Commit: true}, want: 1},
		{name: "503HTML", fault: twilio.CreateFault{Answer: twilio.AnswerUnavailable}, want: 0},
		{name: "Reset", fault: twilio.CreateFault{Answer: twilio.AnswerReset}, want: 0},
		{name: "ResetAfterCreating", fault: twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true}, want: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			script(b, tc.fault)
			_, err := b.send(nil)
			require.Error(t, err)
			var refusal *client.TwilioRestError
			switch tc.fault.Answer {
			case twilio.AnswerTooMany:
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, 20429, refusal.Code)
			case twilio.AnswerServerError:
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, 500, refusal.Status)
			case twilio.AnswerReset:
				require.ErrorIs(t, err, syscall.ECONNRESET)
			default:
				require.NotErrorAs(t, err, &refusal)
			}
			require.Len(t, b.emulator.Messages(), tc.want)
			b.must(nil)
		})
	}
	t.Run("HangAfterCreating", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		script(b, twilio.CreateFault{Answer: twilio.AnswerHang, Commit: true})
		b.http.Timeout = time.Second
		_, err := b.send(nil)
		var timeout *url.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Len(t, b.emulator.Messages(), 1)
	})
	t.Run("RedirectIsAnAnswerWithoutSID", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		script(b, twilio.CreateFault{Answer: twilio.AnswerRedirect})
		m, err := b.send(nil)
		require.True(t, err != nil || m.Sid == nil)
	})
	t.Run("SlowOnTheClock", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		script(b, twilio.CreateFault{Delay: 5 * time.Second})
		answered := make(chan error, 1)
		go func() { _, err := b.send(nil); answered <- err }()
		for !b.clock.AdvanceToNext() || b.clock.Now().Before(start.Add(5*time.Second)) {
			require.NoError(t, t.Context().Err())
		}
		require.NoError(t, <-answered)
		require.Equal(t, twilio.StatusDelivered, b.emulator.Messages()[0].Status)
	})
}

func testItem60(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sid := b.must(nil)
	fetched, err := b.api.FetchMessage(sid, nil)
	require.NoError(t, err)
	require.Equal(t, "hello", *fetched.Body)
	listed, err := b.api.ListMessage((&openapi.ListMessageParams{}).SetTo(person))
	require.NoError(t, err)
	require.Len(t, listed, 1)

	_, err = b.client("AC-with-dashes", token).FetchMessage(sid, nil)
	var local *client.TwilioRestError
	require.True(t, errors.As(err, &local) && local.Code == 21222, "twilio-go itself refuses such a SID")
}
