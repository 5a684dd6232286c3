package twilio_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestFetch(t *testing.T) {
	t.Parallel()

	t.Run("ReadsWhatTwilioHas", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		b.emulator.SetScript(emulator.Script{OnFate: func(emulator.Message) emulator.Fate {
			return emulator.Fate{Final: emulator.StatusUndelivered, Code: 30003}
		}})
		sent := b.client.Send(t.Context(), hello)
		b.clock.Advance(time.Second)
		stored, err := b.client.Fetch(t.Context(), sent.SID)
		require.NoError(t, err)
		require.Equal(t, twilio.Stored{
			SID: sent.SID, Status: "undelivered", Direction: "outbound-api", To: person, Body: body, ErrorCode: 30003,
			CreatedAt: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		}, stored)
		require.True(t, stored.Outbound())
	})

	t.Run("UnknownSIDIsNotFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		for _, sid := range []string{"SM00000000000000000000000000000000", "", "../Calls/CA1", "SM1?x=y", "SM 1"} {
			_, err := b.client.Fetch(t.Context(), sid)
			require.ErrorIs(t, err, twilio.ErrNotFound, sid)
		}
	})

	for name, answer := range badAnswers() {
		t.Run("IsNeverNotFoundOn"+name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, serve(t, answer), func(c *twilio.Config) { c.Timeout = 200 * time.Millisecond })
			_, err := c.Fetch(t.Context(), "SM1")
			require.Error(t, err)
			require.NotErrorIs(t, err, twilio.ErrNotFound)
			requireDiscreet(t, err)
		})
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	t.Run("ReadsEveryPageOfTheRecipientNewestFirst", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		var want []string
		for i := range 230 { // three pages
			out := hello
			out.Body = fmt.Sprint("text ", i)
			want = append([]string{b.client.Send(t.Context(), out).SID}, want...)
			other := out
			other.To = "+15550190002"
			require.Equal(t, sms.Accepted, b.client.Send(t.Context(), other).Status)
		}
		listed, err := b.client.List(t.Context(), person, noon)
		require.NoError(t, err)
		var got []string
		for _, m := range listed {
			require.Equal(t, person, m.To)
			got = append(got, m.SID)
		}
		require.Equal(t, want, got)
	})

	t.Run("OlderTextsDoNotHideOneThatIsNotSentYet", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		for range 150 {
			b.client.Send(t.Context(), hello)
		}
		b.clock.Advance(10500 * time.Millisecond)
		inside := b.client.Send(t.Context(), hello) // listed last, on the second page
		var pages atomic.Int64
		c := newClient(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pages.Add(1)
			b.emulator.ServeHTTP(w, r)
		})), nil)
		listed, err := c.List(t.Context(), person, b.clock.Now()) // dated in whole seconds, so a little before
		require.NoError(t, err)
		require.Len(t, listed, 1)
		require.Equal(t, inside.SID, listed[0].SID)
		require.EqualValues(t, 2, pages.Load())
	})

	t.Run("OlderTextThatWasSentLateDoesNotHideOurs", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			late := strings.Replace(resource("SM1", person), "12:00:00", "11:00:00", 1)
			_, _ = fmt.Fprint(w, `{"messages":[`+late+`,`+resource("SM2", person)+`]}`)
		})), nil)
		listed, err := c.List(t.Context(), person, noon)
		require.NoError(t, err)
		require.Len(t, listed, 1)
		require.Equal(t, "SM2", listed[0].SID)
	})

	t.Run("NothingIsNothingAndNoError", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		listed, err := b.client.List(t.Context(), person, noon)
		require.NoError(t, err)
		require.Empty(t, listed)
	})

	t.Run("TokenWithDotsAndDigitsIsNotMangled", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next := `"/2010-04-01/Accounts/` + account + `/Messages.json?To=%2B15550190001&PageSize=100&Page=1&PageToken=PA.123x"`
			sid := "SM1"
			if r.URL.Query().Get("PageToken") == "PA.123x" && r.URL.Query().Get("To") == person {
				next, sid = "null", "SM2"
			}
			_, _ = fmt.Fprint(w, `{"messages":[`+resource(sid, person)+`],"next_page_uri":`+next+`}`)
		})), nil)
		listed, err := c.List(t.Context(), person, noon)
		require.NoError(t, err)
		require.Len(t, listed, 2)
	})

	t.Run("R_12_EveryPageHasTheTimeLimitToItself", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		for range 250 { // three pages
			b.client.Send(t.Context(), hello)
		}
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		noting := &deadlines{RoundTripper: transport}
		c := newClient(t, b.origin, func(c *twilio.Config) { c.Transport = noting })
		_, err := c.List(t.Context(), person, noon)
		require.NoError(t, err)
		require.Len(t, noting.of, 3)
		require.True(t, noting.of[0].Before(noting.of[1]) && noting.of[1].Before(noting.of[2]), "%v", noting.of)
	})

	t.Run("EndlessListIsAnError", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"messages":[`+resource("SM1", person)+`],"next_page_uri":"/2010-04-01/Accounts/`+account+`/Messages.json?Page=1"}`)
		})), nil)
		_, err := c.List(t.Context(), person, noon)
		require.ErrorContains(t, err, "more than")
	})

	everyBadAnswerIsAnError(t, noon)

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, serve(t, badAnswers()["Hang"]), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := c.List(ctx, person, noon)
		require.ErrorContains(t, err, "timed out")
	})
}

func everyBadAnswerIsAnError(t *testing.T, noon time.Time) {
	t.Helper()
	bad := badAnswers()
	text := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) })
	}
	bad["NoList"] = text(`{}`)
	bad["OtherRecipient"] = text(`{"messages":[` + resource("SM1", "+15550190002") + `]}`)
	bad["MessageWithoutADate"] = text(`{"messages":[{"sid":"SM1","to":"` + person + `","status":"sent","direction":"outbound-api"}]}`)
	bad["MessageWithoutASID"] = text(`{"messages":[` + resource("", person) + `]}`)
	bad["NextPageElsewhere"] = text(`{"messages":[],"next_page_uri":"https://evil.example/?x=y"}`)
	bad["SecondPageMissing"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("Page") == "1" {
			http.Error(w, "", http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, `{"messages":[`+resource("SM1", person)+`],"next_page_uri":"/2010-04-01/Accounts/`+account+`/Messages.json?Page=1"}`)
	})
	for name, answer := range bad {
		t.Run("IsAnErrorAndNoEmptyListOn"+name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, serve(t, answer), func(c *twilio.Config) { c.Timeout = 200 * time.Millisecond })
			listed, err := c.List(t.Context(), person, noon)
			require.Error(t, err)
			require.Empty(t, listed)
			requireDiscreet(t, err)
		})
	}
}

// deadlines notes until when each call may last.
type deadlines struct {
	http.RoundTripper

	of []time.Time
}

func (d *deadlines) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	d.of = append(d.of, deadline)
	return d.RoundTripper.RoundTrip(r)
}

func resource(sid, to string) string {
	return `{"sid":"` + sid + `","to":"` + to + `","status":"sent","direction":"outbound-api","body":"x","date_created":"Fri, 20 Nov 2026 12:00:00 +0000"}`
}

// badAnswers returns how a lookup goes wrong.
func badAnswers() map[string]http.Handler {
	status := func(code int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.Path)
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, body)
		})
	}
	return map[string]http.Handler{
		"ServerError":  status(500, `{"code":20500,"message":"oops","status":500}`),
		"Unavailable":  status(503, "<html>503</html>"),
		"TooMany":      status(429, `{"code":20429,"message":"Too Many Requests","status":429}`),
		"Unauthorised": status(401, `{"code":20003,"message":"Authenticate","status":401}`),
		"ProxyWithout": status(404, "<html>404</html>"),
		"OtherRefusal": status(404, `{"code":1,"message":"a proxy","status":404}`),
		"Redirect":     status(302, ""),
		"Garbage":      status(200, "<html>"),
		"Empty":        status(200, ""),
		"EmptyObject":  status(200, "{}"),
		"NoContent":    status(204, ""),
		"Truncated": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4096")
			_, _ = fmt.Fprint(w, `{"messages":[`+resource("SM1", person)+`,`)
		}),
		"TooLong": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"messages":[],"uri":"`+strings.Repeat("x", 3<<20)+`"}`)
		}),
		"Hang": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
	}
}

func requireDiscreet(t *testing.T, err error) {
	t.Helper()
	for _, secret := range []string{person, person[1:], number, body, token, account} {
		require.NotContains(t, err.Error(), secret)
	}
}

// TestLookupWithoutAServer has no server behind the address.
func TestLookupWithoutAServer(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	c := newClient(t, gone.URL, nil)
	_, err := c.Fetch(t.Context(), "SM1")
	require.EqualError(t, err, "twilio: fetch a message: connection refused")
	_, err = c.List(t.Context(), person, time.Time{})
	require.EqualError(t, err, "twilio: list messages: connection refused")
}
