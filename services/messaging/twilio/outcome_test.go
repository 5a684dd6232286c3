package twilio_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// TestClassifiesTheEmulatorsAnswers plays every answer that the emulator knows.
func TestClassifiesTheEmulatorsAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault emulator.CreateFault
		want  twilio.Outcome
	}{
		{
			name:  "429",
			fault: emulator.CreateFault{Answer: emulator.AnswerTooMany},
			want:  twilio.Outcome{Status: sms.Throttled, Code: 20429, HTTPStatus: 429, RetryAfter: time.Second},
		},
		{name: "500", fault: emulator.CreateFault{Answer: emulator.AnswerServerError}, want: twilio.Outcome{Code: 20500, HTTPStatus: 500}},
		{name: "500AfterCommit", fault: emulator.CreateFault{Answer: emulator.AnswerServerError, Commit: true}, want: twilio.Outcome{Code: 20500, HTTPStatus: 500}},
		{name: "503HTML", fault: emulator.CreateFault{Answer: emulator.AnswerUnavailable}, want: twilio.Outcome{HTTPStatus: 503}},
		{name: "302", fault: emulator.CreateFault{Answer: emulator.AnswerRedirect}, want: twilio.Outcome{HTTPStatus: 302}},
		{name: "201Garbage", fault: emulator.CreateFault{Answer: emulator.AnswerGarbage, Commit: true}, want: twilio.Outcome{HTTPStatus: 201}},
		{name: "Reset", fault: emulator.CreateFault{Answer: emulator.AnswerReset}, want: twilio.Outcome{}},
		{name: "ResetAfterCommit", fault: emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}, want: twilio.Outcome{}},
		{name: "Hang", fault: emulator.CreateFault{Answer: emulator.AnswerHang, Commit: true}, want: twilio.Outcome{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *twilio.Config) {
				if tc.fault.Answer == emulator.AnswerHang {
					c.Timeout = time.Second
				}
			})
			b.faulty(tc.fault)
			got := b.client.Send(t.Context(), hello)
			require.NotEmpty(t, got.Reason)
			discreet(t, got)
			got.Reason = ""
			tc.want.Status = cmp.Or(tc.want.Status, sms.Unknown)
			require.Equal(t, tc.want, got)
			committed := 0
			if tc.fault.Commit {
				committed = 1
			}
			require.Len(t, b.emulator.Messages(), committed)
		})
	}
}

func TestClassifiesTheEmulatorsRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		from string
		out  twilio.Outgoing
		kind sms.Status
		code int
		want twilio.Class
	}{
		{name: "InvalidTo", out: twilio.Outgoing{To: "+15005550001", Body: body}, kind: sms.Rejected, code: 21211, want: twilio.ClassRecipient},
		{name: "Unroutable", out: twilio.Outgoing{To: "+15005550002", Body: body}, kind: sms.Rejected, code: 21612, want: twilio.ClassRecipient},
		{name: "Region", out: twilio.Outgoing{To: "+15005550003", Body: body}, kind: sms.Rejected, code: 21408, want: twilio.ClassRecipient},
		{name: "OptedOut", out: twilio.Outgoing{To: "+15005550004", Body: body}, kind: sms.Rejected, code: 21610, want: twilio.ClassOptedOut},
		{name: "NoMobile", out: twilio.Outgoing{To: "+15005550009", Body: body}, kind: sms.Rejected, code: 21614, want: twilio.ClassRecipient},
		{name: "NoTo", out: twilio.Outgoing{Body: body}, kind: sms.Rejected, code: 21604, want: twilio.ClassConfig},
		{name: "NoBody", out: twilio.Outgoing{To: person}, kind: sms.Rejected, code: 21602, want: twilio.ClassConfig},
		{name: "TooLong", out: twilio.Outgoing{To: person, Body: strings.Repeat("x", 1601)}, kind: sms.Rejected, code: 21617, want: twilio.ClassConfig},
		{name: "BadCallback", out: twilio.Outgoing{To: person, Body: body, StatusCallback: "http://a_b/s"}, kind: sms.Rejected, code: 21609, want: twilio.ClassConfig},
		{name: "NotOurNumber", from: "+15550100099", out: hello, kind: sms.Rejected, code: 21606, want: twilio.ClassConfig},
		{name: "QueueFull", from: "+15005550008", out: hello, kind: sms.Throttled, code: 21611, want: twilio.ClassThrottle},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *twilio.Config) {
				if tc.from != "" {
					c.FromNumber = tc.from
				}
			})
			got := b.client.Send(t.Context(), tc.out)
			discreet(t, got)
			explained, known := twilio.Explain(tc.code)
			require.True(t, known)
			require.Equal(t, tc.want, explained.Class)
			require.Equal(t, twilio.Outcome{Status: tc.kind, Code: tc.code, HTTPStatus: 400, Reason: explained.Meaning}, got)
		})
	}
	t.Run("WrongToken", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *twilio.Config) { c.AuthToken = "wrong" })
		got := b.client.Send(t.Context(), hello)
		require.Equal(t, sms.Rejected, got.Status)
		require.Equal(t, 20003, got.Code)
		require.Equal(t, 401, got.HTTPStatus)
	})
	t.Run("AnAPIKeySendsForTheAccountWhoseItIs", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *twilio.Config) { c.APIKeySID, c.AuthToken = apiKey, apiKeySecret })
		require.Equal(t, sms.Accepted, b.client.Send(t.Context(), hello).Status)
		owned, err := b.client.Owns(t.Context(), number) // its path names the account
		require.NoError(t, err)
		require.True(t, owned)
		deleted := newClient(t, b.origin, func(c *twilio.Config) { c.APIKeySID, c.AuthToken = "SK0", apiKeySecret })
		got := deleted.Send(t.Context(), hello)
		require.Equal(t, []int{20003, 401}, []int{got.Code, got.HTTPStatus})
	})
	t.Run("PersonWhoTextedSTOP", func(t *testing.T) {
		t.Parallel()
		b := setup(t, nil)
		_, err := b.emulator.Receive(t.Context(), person, number, "STOP")
		require.NoError(t, err)
		require.Equal(t, 21610, b.client.Send(t.Context(), hello).Code)
	})
}

// TestClassifiesAnyAnswer plays answers that no emulator should give, but proxies and bad days do.
func TestClassifiesAnyAnswer(t *testing.T) {
	t.Parallel()
	const html = "<html>no</html>"
	for _, tc := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   twilio.Outcome // without its Reason
	}{
		{name: "200IsAsGoodAs201", status: 200, body: `{"sid":"SM1","num_segments":"2"}`, want: twilio.Outcome{Status: sms.Accepted, SID: "SM1", Segments: 2}},
		{name: "AcceptedWithAnErrorCode", status: 201, body: `{"sid":"SM1","status":"failed","error_code":30001}`, want: twilio.Outcome{Status: sms.Accepted, SID: "SM1", Reported: "failed", Code: 30001}},
		{name: "201WithoutSID", status: 201, body: `{"status":"queued"}`},
		{name: "201Null", status: 201, body: `null`},
		{name: "201Empty", status: 201},
		{name: "201CutShort", status: 201, header: map[string]string{"Content-Length": "500"}, body: `{"sid":"SM1"}`},
		{name: "201Endless", status: 201, body: `{"sid":"SM1","body":"` + strings.Repeat("x", 70_000) + `"}`},
		{name: "204", status: 204},
		{name: "301WithSID", status: 301, body: `{"sid":"SM1"}`},
		{name: "304", status: 304},
		{name: "307Elsewhere", status: 307, header: map[string]string{"Location": "http://127.0.0.1:1/"}, body: html},
		{name: "400HTML", status: 400, body: html},
		{name: "400EmptyObject", status: 400, body: `{}`},
		{name: "404HTML", status: 404, body: html},
		{name: "400UnknownCode", status: 400, body: `{"code":29999}`, want: twilio.Outcome{Status: sms.Rejected, Code: 29999}},
		{name: "403", status: 403, body: `{"code":20403}`, want: twilio.Outcome{Status: sms.Rejected, Code: 20403}},
		{name: "429HTML", status: 429, body: html, want: twilio.Outcome{Status: sms.Throttled}},
		{name: "429WithAnotherCode", status: 429, body: `{"code":21211}`, want: twilio.Outcome{Status: sms.Throttled, Code: 21211}},
		{name: "20429WithAnotherStatus", status: 400, body: `{"code":20429}`, want: twilio.Outcome{Status: sms.Throttled, Code: 20429}},
		{name: "20429BehindABrokenServer", status: 503, body: `{"code":20429}`, want: twilio.Outcome{Code: 20429}},
		{name: "21211BehindABrokenServer", status: 500, body: `{"code":21211}`, want: twilio.Outcome{Code: 21211}},
		{name: "RetryAfterSeconds", status: 429, header: map[string]string{"Retry-After": "17"}, want: twilio.Outcome{Status: sms.Throttled, RetryAfter: 17 * time.Second}},
		{
			name: "RetryAfterDate", status: 429,
			header: map[string]string{"Date": "Fri, 20 Nov 2026 12:00:00 GMT", "Retry-After": "Fri, 20 Nov 2026 12:01:30 GMT"},
			want:   twilio.Outcome{Status: sms.Throttled, RetryAfter: 90 * time.Second},
		},
		{
			name: "RetryAfterInThePast", status: 429,
			header: map[string]string{"Date": "Fri, 20 Nov 2026 12:00:00 GMT", "Retry-After": "Fri, 20 Nov 2026 11:00:00 GMT"},
			want:   twilio.Outcome{Status: sms.Throttled},
		},
		{name: "RetryAfterNonsense", status: 429, header: map[string]string{"Retry-After": "-5"}, want: twilio.Outcome{Status: sms.Throttled}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			origin := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tc.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			got := newClient(t, origin, nil).Send(t.Context(), hello)
			require.Equal(t, got.Status == sms.Accepted, got.Reason == "", "a reason is given exactly if it is not accepted")
			got.Reason = ""
			tc.want.HTTPStatus = tc.status
			tc.want.Status = cmp.Or(tc.want.Status, sms.Unknown)
			require.Equal(t, tc.want, got)
		})
	}
}

// TestClassifiesAFailureByWhetherItCanHaveBeenSent covers the calls that end without an answer.
func TestClassifiesAFailureByWhetherItCanHaveBeenSent(t *testing.T) {
	t.Parallel()
	forever := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hang(r) })
	soon := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	dial := func(f func(context.Context) error) func(*twilio.Config) {
		return func(c *twilio.Config) {
			c.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, f(ctx) }}
		}
	}
	for _, tc := range []struct {
		name    string
		handler http.Handler // nil: no server listens
		edit    func(*twilio.Config)
		ctx     func(context.Context) (context.Context, context.CancelFunc)
		want    twilio.Outcome
	}{
		{name: "Refused", want: twilio.Outcome{Status: sms.Throttled, Reason: "never reached Twilio: connection refused"}},
		{
			name: "HostNotFound", want: twilio.Outcome{Status: sms.Throttled, Reason: "never reached Twilio: host not found"},
			edit: dial(func(context.Context) error { return &net.DNSError{Err: "no such host", Name: person, IsNotFound: true} }),
		},
		{
			name: "DialTimesOut", want: twilio.Outcome{Status: sms.Throttled, Reason: "never reached Twilio: timed out"}, ctx: soon,
			edit: dial(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
		},
		{
			name: "CancelledBefore", handler: forever, want: twilio.Outcome{Status: sms.Throttled, Reason: "never reached Twilio: cancelled"},
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			},
		},
		{name: "CallerGivesUp", handler: forever, ctx: soon, want: twilio.Outcome{Status: sms.Unknown, Reason: "no answer: timed out"}},
		{
			name: "OwnTimeout", handler: forever, want: twilio.Outcome{Status: sms.Unknown, Reason: "no answer: timed out"},
			edit: func(c *twilio.Config) { c.Timeout = time.Second },
		},
		{
			name: "TransportThatHidesWhatItDid", want: twilio.Outcome{Status: sms.Unknown, Reason: "no answer: connection failed"},
			edit: func(c *twilio.Config) { c.Transport = opaque{} },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tc.handler)
			if tc.handler == nil {
				server.Close()
			}
			t.Cleanup(server.Close)
			ctx := t.Context()
			if tc.ctx != nil {
				var cancel context.CancelFunc
				ctx, cancel = tc.ctx(ctx)
				defer cancel()
			}
			require.Equal(t, tc.want, newClient(t, server.URL, tc.edit).Send(ctx, hello))
		})
	}
	t.Run("UntrustedCertificate", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewUnstartedServer(forever)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		got := newClient(t, server.URL, nil).Send(t.Context(), hello)
		require.Equal(t, sms.Throttled, got.Status)
	})
	t.Run("CancelledInFlight", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		origin := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			hang(r)
		}))
		require.Equal(t, twilio.Outcome{Status: sms.Unknown, Reason: "no answer: cancelled"}, newClient(t, origin, nil).Send(ctx, hello))
	})
}

// hang waits until the client has gone. The server only notices that once the body has been read.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// opaque fails without calling any hook, as a wrapper might after having sent the request.
type opaque struct{}

func (opaque) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("it broke, " + person)
}

// TestNothingThatWasSeenIsThrottled is the promise that a retry rests on: against a server that reads some bytes,
// writes some bytes of some answer and ends the connection somehow, Throttled is only ever said of a 429.
func TestNothingThatWasSeenIsThrottled(t *testing.T) {
	t.Parallel()
	answers := []string{
		"HTTP/1.1 201 Created\r\nContent-Length: 13\r\n\r\n" + `{"sid":"SM1"}`,
		"HTTP/1.1 429 Too Many\r\nContent-Length: 14\r\n\r\n" + `{"code":20429}`,
		"HTTP/1.1 503 Down\r\nContent-Length: 2\r\n\r\nno",
		"not HTTP at all\r\n\r\n",
	}
	rapid.Check(t, func(t *rapid.T) {
		read := rapid.IntRange(1, 600).Draw(t, "read")
		answer := rapid.SampledFrom(answers).Draw(t, "answer")
		written := rapid.IntRange(0, len(answer)).Draw(t, "written")
		hard := rapid.Bool().Draw(t, "reset")

		server := &rude{read: read, answer: answer[:written], reset: hard}
		origin, stop, err := server.start()
		require.NoError(t, err)
		defer stop()
		c, err := twilio.New(twilio.Config{AccountSID: account, AuthToken: token, APIURL: origin, FromNumber: number})
		require.NoError(t, err)
		defer c.Close()
		got := c.Send(context.Background(), hello)

		discreet(t, got)
		if got.Status == sms.Throttled {
			require.Equal(t, answers[1], answer)
			require.GreaterOrEqual(t, written, len(answer)-len(`{"code":20429}`), "its status and headers are whole")
		}
		if server.seen.Load() == 0 {
			require.Fail(t, "the server saw nothing, so this proves nothing")
		}
	})
}

// rude is a TCP server that treats one connection badly.
type rude struct {
	read   int // bytes it reads, at most what there is
	answer string
	reset  bool
	seen   atomic.Int64
}

func (s *rude) start() (origin string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's listener, closed by stop
	if err != nil {
		return "", nil, err
	}
	var done sync.WaitGroup
	done.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		n, _ := bufio.NewReaderSize(conn, s.read).Read(make([]byte, s.read))
		s.seen.Add(int64(n))
		_, _ = io.WriteString(conn, s.answer)
		if tcp, ok := conn.(*net.TCPConn); ok && s.reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	})
	return "http://" + listener.Addr().String(), func() { _ = listener.Close(); done.Wait() }, nil
}

func TestExplain(t *testing.T) {
	t.Parallel()
	known := []int{ // every code of the fact sheet's section 4.2
		20003, 20404, 21606, 21602, 21603, 21604, 21609, 21212, 21703, 21704, 20403,
		21211, 21214, 21408, 21608, 21610, 21612, 21614, 21617, 21635,
		20429, 21611, 20500, 20503,
		30001, 30002, 30003, 30004, 30005, 30006, 30007, 30008, 30017, 30022, 30023, 30027, 30032, 30034, 30036,
		30410, 30450, 30500, 63017, 63018,
	}
	classes := []twilio.Class{twilio.ClassConfig, twilio.ClassRecipient, twilio.ClassOptedOut, twilio.ClassThrottle, twilio.ClassCarrier}
	for _, code := range known {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			e, ok := twilio.Explain(code)
			require.True(t, ok)
			require.Contains(t, classes, e.Class)
			require.NotEmpty(t, e.Meaning)
			require.NotEmpty(t, e.Remedy)
		})
	}
	_, ok := twilio.Explain(0)
	require.False(t, ok)
}

// counting serves h and counts the connections that were opened to it.
func counting(t *testing.T, h http.Handler) (dialled func() int, origin string) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return func() int { return int(n.Load()) }, server.URL
}
