package twilio_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		edit func(*twilio.Config)
		want string
	}{
		{name: "Complete", edit: func(*twilio.Config) {}},
		{name: "OriginWithSlash", edit: func(c *twilio.Config) { c.APIURL = "http://127.0.0.1:8081/" }},
		{name: "NoAccount", edit: func(c *twilio.Config) { c.AccountSID = "" }, want: "AccountSID"},
		{name: "APIKeyAsAccount", edit: func(c *twilio.Config) { c.AccountSID = "SK123" }, want: "AccountSID does not begin with AC"},
		{name: "AccountWithDash", edit: func(c *twilio.Config) { c.AccountSID = "AC-1" }, want: "AccountSID has a character"},
		{name: "AKeyThatIsNone", edit: func(c *twilio.Config) { c.APIKeySID = "AC1" }, want: "APIKeySID does not begin with SK"},
		{name: "NoToken", edit: func(c *twilio.Config) { c.AuthToken = "" }, want: "AuthToken is empty"},
		{name: "TokenWithNewline", edit: func(c *twilio.Config) { c.AuthToken = "s3cret\n" }, want: "AuthToken has a character"},
		{name: "NoSender", edit: func(c *twilio.Config) { c.FromNumber = "" }, want: "exactly one"},
		{name: "TwoSenders", edit: func(c *twilio.Config) { c.MessagingServiceSID = service }, want: "exactly one"},
		{name: "NumberAsService", edit: func(c *twilio.Config) { c.FromNumber, c.MessagingServiceSID = "", number }, want: "begin with MG"},
		{name: "URLWithPath", edit: func(c *twilio.Config) { c.APIURL = "https://api.twilio.com/2010-04-01" }, want: "origin"},
		{name: "URLWithPassword", edit: func(c *twilio.Config) { c.APIURL = "https://u:s3cret@twilio.com" }, want: "origin"},
		{name: "URLWithoutScheme", edit: func(c *twilio.Config) { c.APIURL = "api.twilio.com" }, want: "origin"},
		{name: "URLUnreadable", edit: func(c *twilio.Config) { c.APIURL = "http://s3cret\x7f" }, want: "origin"},
		{name: "NegativeTimeout", edit: func(c *twilio.Config) { c.Timeout = -1 }, want: "Timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := twilio.Config{AccountSID: account, AuthToken: token, FromNumber: number}
			tc.edit(&cfg)
			_, err := twilio.New(cfg)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
	t.Run("ReportsEverythingAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := twilio.New(twilio.Config{})
		for _, want := range []string{"AccountSID", "AuthToken", "exactly one"} {
			require.ErrorContains(t, err, want)
		}
	})
}

func TestSend(t *testing.T) {
	t.Parallel()

	t.Run("FromANumber", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		got := b.client.Send(t.Context(), hello)
		sent := b.emulator.Messages()
		require.Len(t, sent, 1)
		require.Equal(t, twilio.Outcome{
			Status: sms.Accepted, SID: sent[0].SID, Reported: "queued", From: number, Segments: 1, HTTPStatus: 201,
		}, got)
		require.Equal(t, person, sent[0].To)
		require.Equal(t, body, sent[0].Body)
	})

	t.Run("ThroughAMessagingService", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *twilio.Config) { c.FromNumber, c.MessagingServiceSID = "", service })
		got := b.client.Send(t.Context(), hello)
		sent := b.emulator.Messages()[0]
		require.Equal(t, twilio.Outcome{Status: sms.Accepted, SID: sent.SID, Reported: "accepted", HTTPStatus: 201}, got)
		require.Equal(t, service, sent.ServiceSID)
	})

	t.Run("ReceiptsArriveAtTheStatusCallback", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		uris := make(chan string, 2)
		app := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { uris <- r.RequestURI }))
		out := hello
		out.StatusCallback = app + "/status?message_id=7#rt=4000&rc=3&rp=all"
		require.Equal(t, sms.Accepted, b.client.Send(t.Context(), out).Status)
		b.clock.Advance(time.Second)
		require.Equal(t, "/status?message_id=7", <-uris)
		require.Equal(t, "/status?message_id=7", <-uris)
		require.NoError(t, b.emulator.Idle(t.Context()))
	})

	t.Run("R_03_ACallThatWasGivenUpIsReset", func(t *testing.T) {
		t.Parallel()
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, listener.Close()) }()
		ended := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				_, err = io.Copy(io.Discard, conn) // and says nothing
				_ = conn.Close()
			}
			ended <- err
		}()
		c, err := twilio.New(twilio.Config{
			AccountSID: account, AuthToken: token, FromNumber: number, APIURL: "http://" + listener.Addr().String(), Timeout: time.Second,
		})
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, sms.Unknown, c.Send(t.Context(), twilio.Outgoing{To: "+14155550100", Body: "Hi"}).Status)
		require.ErrorIs(t, <-ended, syscall.ECONNRESET, "our kernel would repeat it when the network is back")
	})

	t.Run("RedirectIsNotFollowed", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		var asked int
		b.emulator.SetScript(emulator.Script{OnCreate: func(n int, _ emulator.Message) emulator.CreateFault {
			asked = n
			return emulator.CreateFault{Answer: emulator.AnswerRedirect}
		}})
		require.Equal(t, sms.Unknown, b.client.Send(t.Context(), hello).Status)
		require.Equal(t, 1, asked)
	})
}

// TestConnections holds the adapter to the reason for its own transport: no send pays for a new connection while
// another's is idle, and not even an error costs one.
func TestConnections(t *testing.T) {
	t.Parallel()

	t.Run("ErrorsKeepTheirs", func(t *testing.T) {
		t.Parallel()
		answers := []int{201, 400, 429, 503, 302, 404, 500}
		n := 0
		dialled, origin := counting(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answers[n%len(answers)])
			_, _ = w.Write([]byte(strings.Repeat("<p>no</p>", 1000)))
			n++
		}))
		c := newClient(t, origin, nil)
		for range 3 * len(answers) {
			c.Send(t.Context(), hello)
		}
		require.Equal(t, 1, dialled())
	})

	t.Run("ManyAtOnceAllStay", func(t *testing.T) {
		t.Parallel()
		const crowd = 64
		var together sync.WaitGroup
		dialled, origin := counting(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			together.Done()
			together.Wait() // so that every round needs the whole crowd's connections
			_, _ = w.Write([]byte(`{"sid":"SM1"}`))
		}))
		c := newClient(t, origin, nil)
		for range 3 {
			together.Add(crowd)
			var sends sync.WaitGroup
			for range crowd {
				sends.Go(func() { c.Send(context.Background(), hello) })
			}
			sends.Wait()
		}
		require.Equal(t, crowd, dialled())
	})
}
