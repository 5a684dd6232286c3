package twilio_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"
	"pgregory.net/rapid"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
)

func TestNew(t *testing.T) {
	t.Parallel()
	c := clock.NewSettable(start)
	for _, tc := range []struct {
		name string
		cfg  twilio.Config
	}{
		{name: "WithoutClock", cfg: twilio.Config{AccountSID: account, AuthToken: token}},
		{name: "WithoutAccount", cfg: twilio.Config{Clock: c, AuthToken: token}},
		{name: "WithoutToken", cfg: twilio.Config{Clock: c, AccountSID: account}},
		{name: "NumberOwnedTwice", cfg: twilio.Config{
			Clock: c, AccountSID: account, AuthToken: token,
			Numbers: []string{number}, Services: map[string][]string{service: {number}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := twilio.New(tc.cfg)
			require.Error(t, err)
			require.NotContains(t, err.Error(), number)
		})
	}
}

func TestReceive(t *testing.T) {
	t.Parallel()

	t.Run("RefusesANumberThatIsNotOwned", func(t *testing.T) {
		t.Parallel()
		_, err := setup(t).emulator.Receive(t.Context(), person, "+15550109999", "hello")
		require.ErrorIs(t, err, twilio.ErrNotOwned)
	})

	t.Run("IsRecordedEvenIfNoApplicationListens", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetInboundURL("")
		require.Empty(t, b.receive("hello").Attempts)
		require.Len(t, b.emulator.Inbound(), 1)
		require.Equal(t, twilio.StatusReceived, b.emulator.Messages()[0].Status)
	})

	t.Run("EndsWithItsCaller", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, gone := context.WithCancel(t.Context())
		b.app.answers(func(_ int, _ http.ResponseWriter, r *http.Request) {
			gone()
			<-r.Context().Done()
		})
		d, err := b.emulator.Receive(ctx, person, number, "hello")
		require.NoError(t, err)
		require.Equal(t, []twilio.Attempt{{Failure: "rt"}}, d.Attempts)
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release := make(chan struct{})
	b.app.answers(func(int, http.ResponseWriter, *http.Request) { <-release })
	b.must(callbackTo(b.app.url))

	require.NoError(t, b.emulator.Idle(t.Context()), "a receipt that is due later is no reason to wait")
	b.clock.Advance(300 * time.Millisecond)
	require.ErrorIs(t, b.emulator.Idle(short(t)), context.DeadlineExceeded)
	close(release)
	require.NoError(t, b.emulator.Idle(t.Context()))
	require.Len(t, b.emulator.Callbacks(), 1)
}

func TestShutdown(t *testing.T) {
	t.Parallel()

	t.Run("FinishesWhatIsInFlightAndStartsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		arrived, release := make(chan struct{}), make(chan struct{})
		b.app.answers(func(int, http.ResponseWriter, *http.Request) { close(arrived); <-release })
		b.must(callbackTo(b.app.url))
		b.clock.Advance(300 * time.Millisecond)
		<-arrived
		ended := make(chan error, 1)
		go func() { ended <- b.emulator.Shutdown(t.Context()) }()
		close(release)
		require.NoError(t, <-ended)
		b.clock.Advance(time.Hour)
		require.Equal(t, 200, b.emulator.Callbacks()[0].StatusCode)
		require.Len(t, b.emulator.Callbacks(), 1, "delivered was cancelled")
	})

	t.Run("CutsOffWhatOutlastsItsContext", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.app.answers(func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		b.must(callbackTo(b.app.url))
		b.clock.Advance(300 * time.Millisecond)
		require.ErrorIs(t, b.emulator.Shutdown(short(t)), context.DeadlineExceeded)
	})
}

func TestSystemClockDeliversByItself(t *testing.T) {
	t.Parallel()
	arrived := make(chan twilio.Event, 1)
	emulator, err := twilio.New(twilio.Config{
		Clock: clock.System(), AccountSID: account, AuthToken: token, Numbers: []string{number},
		Receipts: twilio.Receipts{Sent: time.Millisecond, Delivered: 2 * time.Millisecond},
		OnEvent: func(e twilio.Event) {
			if e.Message.Status == twilio.StatusDelivered {
				arrived <- e
			}
		},
	})
	require.NoError(t, err)
	t.Cleanup(emulator.Close)
	form := url.Values{"To": {person}, "From": {number}, "Body": {"x"}}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/2010-04-01/Accounts/"+account+"/Messages.json",
		strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(account, token)
	answer := httptest.NewRecorder()
	emulator.ServeHTTP(answer, req)
	require.Equal(t, http.StatusCreated, answer.Code)
	require.Equal(t, person, (<-arrived).Message.To)
}

func TestReceiptsCanOvertakeTheAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *twilio.Config) { c.Receipts = twilio.Receipts{Queued: -1, Sent: -1, Delivered: -1} })
	b.must(func(p *openapi.CreateMessageParams) {
		viaService(p)
		p.SetStatusCallback(b.app.url)
	})
	require.NoError(t, b.emulator.Idle(t.Context()))
	_, statuses := b.app.received()
	require.Equal(t, []string{"queued", "sent", "delivered"}, statuses)
}

func TestServiceKeepsToOneSenderPerPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 8 {
		b.must(viaService)
	}
	all := b.emulator.Messages()
	for _, m := range all {
		require.Equal(t, all[0].From, m.From)
	}
}

func TestSegments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		want       string
	}{
		{name: "GSM160", body: strings.Repeat("a", 160), want: "1"},
		{name: "GSM161", body: strings.Repeat("a", 161), want: "2"},
		{name: "GSM306", body: strings.Repeat("é", 306), want: "2"},
		{name: "GSM307", body: strings.Repeat("é", 307), want: "3"},
		{name: "EscapesCountTwice", body: strings.Repeat("€", 80), want: "1"},
		{name: "EscapesAreNotSplit", body: strings.Repeat("€", 153), want: "3"},
		{name: "UCS70", body: strings.Repeat("ã", 70), want: "1"},
		{name: "UCS71", body: strings.Repeat("ã", 71), want: "2"},
		{name: "EmojiCountTwice", body: strings.Repeat("👋", 36), want: "2"},
		{name: "SurrogatesAreNotSplit", body: strings.Repeat("👋", 67), want: "3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m, err := setup(t).send(func(p *openapi.CreateMessageParams) { p.SetBody(tc.body) })
			require.NoError(t, err)
			require.Equal(t, tc.want, *m.NumSegments)
		})
	}
}

// TestSignIsWhatTwilioGoExpects checks Sign with the vendor's validator for any parameters.
func TestSignIsWhatTwilioGoExpects(t *testing.T) {
	t.Parallel()
	urls := []string{
		"https://example.com/a?b=c%20d&e=f", "http://example.com:8080/", "https://example.com:8443/x/", "http://127.0.0.1:9/",
		"http://[::1]:8080/", "http://localhost:8080/a%2Fb",
	}
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.SampledFrom(urls).Draw(t, "url")
		key := rapid.StringMatching(`[a-z0-9]{1,40}`).Draw(t, "key")
		params := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "params")
		form := url.Values{}
		for name, value := range params {
			form.Set(name, value)
		}
		validator := client.NewRequestValidator(key)
		require.True(t, validator.Validate(target, params, twilio.Sign(key, target, form)))
		require.False(t, validator.Validate(target, params, twilio.Sign(key+"x", target, form)))
	})
}

// TestPagesCoverEverythingOnce walks the list in pages of any size while messages keep arriving.
func TestPagesCoverEverythingOnce(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 7, 50} {
		t.Run(fmt.Sprintf("PagesOf%d", size), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var want []string
			for range 7 {
				want = append(want, b.must(nil))
			}
			slices.Reverse(want)
			pages, err := b.api.StreamMessage((&openapi.ListMessageParams{}).SetPageSize(size))
			var got []string
			for m := range pages {
				got = append(got, *m.Sid)
				b.must(nil)
			}
			require.NoError(t, <-err)
			require.Equal(t, want, got)
		})
	}
}

// newClosedServer is the URL of a port that refuses connections.
func newClosedServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}
