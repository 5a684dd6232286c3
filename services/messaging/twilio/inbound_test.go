package twilio_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/twilio"
)

func TestListInbound(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	t.Run("ReadsWhatPeopleSentPageByPage", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		var want []string
		for i := range 260 { // two pages
			d, err := b.emulator.Receive(t.Context(), person, number, fmt.Sprint("text ", i))
			require.NoError(t, err)
			want = append([]string{d.MessageSID}, want...)
		}
		_, err := b.emulator.Receive(t.Context(), person, pooled, "to another number")
		require.NoError(t, err)
		first, next, err := b.client.ListInbound(t.Context(), number, noon, noon.Add(time.Minute), "")
		require.NoError(t, err)
		require.Len(t, first, 250)
		second, end, err := b.client.ListInbound(t.Context(), number, noon, noon.Add(time.Minute), next)
		require.NoError(t, err)
		require.Empty(t, end)
		var got []string
		for _, m := range append(first, second...) {
			got = append(got, m.SID)
		}
		require.Equal(t, want, got)
		require.Equal(t, twilio.Incoming{SID: want[0], From: person, To: number, Body: "text 259", Segments: 1, SentAt: noon}, first[0])
	})

	t.Run("KeepsToTheSpanAndLeavesOutOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		for _, words := range []string{"early", "first", "last", "late"} {
			_, err := b.emulator.ReceiveText(t.Context(), emulator.Incoming{
				From: person, To: number, Body: words, Media: []emulator.Media{{URL: "https://media.example/1", ContentType: "image/png"}},
			})
			require.NoError(t, err)
			out := hello
			out.To = number
			b.client.Send(t.Context(), out)
			b.clock.Advance(time.Minute)
		}
		found, next, err := b.client.ListInbound(t.Context(), number, noon.Add(time.Minute), noon.Add(2*time.Minute), "")
		require.NoError(t, err)
		require.Empty(t, next)
		require.Len(t, found, 2)
		require.Equal(t, []string{"last", "first"}, []string{found[0].Body, found[1].Body})
		require.Equal(t, 1, found[0].Media)
	})

	bad := badAnswers()
	inbound := strings.Replace(resource("SM1", number), "outbound-api", "inbound", 1)
	text := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) })
	}
	bad["TooLong"] = text(`{"messages":[],"uri":"` + strings.Repeat("x", 5<<20) + `"}`)
	bad["TextWithoutASender"] = text(`{"messages":[` + inbound + `]}`)
	bad["OtherNumber"] = text(`{"messages":[` + strings.Replace(inbound, `"sid"`, `"from":"`+person+`","sid"`, 1) + `]}`)
	bad["OtherNumber"] = text(`{"messages":[` + strings.Replace(strings.Replace(inbound, `"sid"`, `"from":"`+person+`","sid"`, 1), number, pooled, 1) + `]}`)
	bad["NextPageElsewhere"] = text(`{"messages":[],"next_page_uri":"https://evil.example/?x=y"}`)
	for name, answer := range bad {
		t.Run("IsAnErrorAndNoEmptyListOn"+name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, serve(t, answer), func(c *twilio.Config) { c.Timeout = 200 * time.Millisecond })
			_, _, err := c.ListInbound(t.Context(), number, noon, noon, "")
			require.Error(t, err)
			requireDiscreet(t, err)
		})
	}

	t.Run("PageOfSomewhereElseIsNotAskedFor", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		_, _, err := b.client.ListInbound(t.Context(), number, noon, noon, "/2010-04-01/Accounts/AC1/Messages.json?x=y")
		require.ErrorContains(t, err, "somewhere else")
	})
}

func TestServiceNumbers(t *testing.T) {
	t.Parallel()

	t.Run("ReadsNumbersAndShortCodesOfEveryPage", func(t *testing.T) {
		t.Parallel()
		var asked []string
		c := newClient(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			switch {
			case strings.HasSuffix(r.URL.Path, "/ShortCodes"):
				_, _ = fmt.Fprint(w, `{"short_codes":[{"short_code":"12345"}],"meta":{"next_page_url":null}}`)
			case r.URL.Query().Get("PageToken") == "PA.1":
				_, _ = fmt.Fprint(w, `{"phone_numbers":[{"phone_number":"`+number+`"}],"meta":{}}`)
			default:
				_, _ = fmt.Fprint(w, `{"phone_numbers":[{"phone_number":"`+pooled+`"}],"meta":{"next_page_url":"https://messaging.twilio.com/v1/Services/`+
					service+`/PhoneNumbers?PageSize=500&Page=1&PageToken=PA.1"}}`)
			}
		})), nil)
		senders, err := c.ServiceNumbers(t.Context(), service)
		require.NoError(t, err)
		require.Equal(t, []string{pooled, number, "12345"}, senders)
		require.Len(t, asked, 3)
	})

	t.Run("ReadsThoseOfTheEmulator", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		senders, err := b.client.ServiceNumbers(t.Context(), service)
		require.NoError(t, err)
		require.Equal(t, []string{pooled}, senders)
		_, err = b.client.ServiceNumbers(t.Context(), "MG1/../..")
		require.Error(t, err)
		_, err = b.client.ServiceNumbers(t.Context(), "MG00000000000000000000000000000000")
		require.Error(t, err)
	})

	bad := badAnswers()
	delete(bad, "TooLong") // of another size here
	bad["NextPageElsewhere"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"phone_numbers":[],"meta":{"next_page_url":"https://evil.example/v1/Services/x?y=z"}}`)
	})
	bad["Endless"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"phone_numbers":[],"meta":{"next_page_url":"https://messaging.twilio.com`+r.URL.Path+`?Page=1"}}`)
	})
	for name, answer := range bad {
		t.Run("IsAnErrorAndNoEmptyListOn"+name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, serve(t, answer), func(c *twilio.Config) { c.Timeout = 500 * time.Millisecond })
			senders, err := c.ServiceNumbers(t.Context(), service)
			require.Error(t, err)
			require.Empty(t, senders)
			requireDiscreet(t, err)
		})
	}
}
