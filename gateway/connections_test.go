package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	callback "paceline.internal/gateway/qstash"
	"paceline.internal/gateway/route"
	"paceline.internal/gateway/twilio"
)

// fakeConn remembers what was done to it.
type fakeConn struct {
	net.Conn

	deadline time.Time
	closed   bool
}

func (c *fakeConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

// writing is an answer on its way, and the deadlines that it was given.
type writing struct {
	*httptest.ResponseRecorder

	deadlines []time.Time
}

func (w *writing) SetWriteDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

// bodyOf is a body of which the next n bytes have come.
type bodyOf struct{ n int }

func (b *bodyOf) Read(p []byte) (int, error) {
	n := min(b.n, len(p))
	b.n -= n
	return n, nil
}

func (b *bodyOf) Close() error { return nil }

func TestConnections(t *testing.T) {
	t.Parallel()
	admit := func(t *testing.T, cs *connections) (*fakeConn, *connection) {
		t.Helper()
		conn := new(fakeConn)
		c, ok := cs.opened(t.Context(), conn).Value(connectionKey{}).(*connection)
		require.True(t, ok)
		cs.changed(conn, http.StateNew)
		return conn, c
	}

	t.Run("R_15_ABodyHasASecondAndThenAsMuchTimeAsItsBytesEarn", func(t *testing.T) {
		t.Parallel()
		conn, c := admit(t, &connections{open: map[net.Conn]*connection{}})
		came := new(bodyOf)
		body := &arriving{ReadCloser: came, connection: c, began: noon()}
		for _, tt := range []struct {
			bytes int // that have arrived when the next are waited for
			want  time.Duration
		}{{0, time.Second}, {1, time.Second + time.Second/bodyRate}, {bodyRate / 2, 1500 * time.Millisecond}, {64 << 10, 2 * time.Second}, {1 << 20, bodyMost}} {
			came.n = tt.bytes - int(body.received)
			_, err := io.CopyN(io.Discard, body, int64(came.n))
			require.NoError(t, err)
			_, err = body.Read(make([]byte, 1))
			require.NoError(t, err)
			require.Equal(t, tt.want, conn.deadline.Sub(noon()), "%d bytes", tt.bytes)
		}
	})

	t.Run("R_15_TheLongestWaitingConnectionIsClosedWhenTooMuchIsHeld", func(t *testing.T) {
		t.Parallel()
		cs := &connections{open: map[net.Conn]*connection{}}
		idle, _ := admit(t, cs)
		dribbler, slow := admit(t, cs)
		working, atWork := admit(t, cs)
		atWork.Complete()
		slow.received(1000)
		cs.changed(idle, http.StateActive) // it brings a callback at last
		for range maxWaiting/connectionCost - 2 {
			admit(t, cs)
		}
		require.True(t, dribbler.closed)
		require.LessOrEqual(t, cs.held, int64(maxWaiting))
		require.False(t, idle.closed)
		admit(t, cs)
		last, _ := admit(t, cs)
		require.True(t, idle.closed, "it is the oldest now")
		require.False(t, last.closed, "who comes last is never refused")
		require.False(t, working.closed, "it is not the client who is waited for")

		for conn := range cs.open {
			cs.changed(conn, http.StateClosed)
		}
		require.Empty(t, cs.open)
		require.Zero(t, cs.held)
		require.Zero(t, cs.waiting.Len())
	})

	t.Run("R_15_BodiesCountAsTheyCome", func(t *testing.T) {
		t.Parallel()
		cs := &connections{open: map[net.Conn]*connection{}}
		first, c := admit(t, cs)
		second, _ := admit(t, cs)
		c.received(maxWaiting - 2*connectionCost)
		require.False(t, first.closed)
		c.received(1)
		require.True(t, first.closed)
		require.False(t, second.closed)
		require.Equal(t, int64(connectionCost), cs.held)
		c.received(1)
		require.Equal(t, int64(connectionCost), cs.held, "it was let go")
	})

	t.Run("R_15_AnAnswerHasFiveSecondsToBeReadFromItsFirstByteOn", func(t *testing.T) {
		t.Parallel()
		for name, answer := range map[string]func(http.ResponseWriter){
			"Header": func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
			"Body":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) },
		} {
			conn, now := &writing{ResponseRecorder: httptest.NewRecorder()}, noon()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			timely(func() time.Time { return now }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if len(conn.deadlines) > 0 {
					t.Error("until there is an answer the call has its own time")
				}
				now = now.Add(20 * time.Second)
				answer(w)
				now = now.Add(time.Second)
				_, _ = w.Write([]byte("and the rest"))
			})).ServeHTTP(conn, request)
			require.Equal(t, []time.Time{noon().Add(20*time.Second + answerTime)}, conn.deadlines, name)
		}
	})
}

func TestBodiesThatDoNotCome(t *testing.T) {
	t.Parallel()
	for _, path := range []string{callback.PathStep, twilio.PathInbound, twilio.PathStatus, route.PathWebhooks + "kapso", route.PathWebhooks + "shopify", "/v1/profiles"} {
		t.Run("R_15_ABodyThatDoesNotComeIsCut"+strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			require.NoError(t, conn.SetDeadline(time.Now().Add(bodyPause+3500*time.Millisecond))) //nolint:forbidigo // a connection's
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nUpstash-Signature: x\r\nX-Twilio-Signature: x\r\n"+
				"X-Webhook-Signature: ab\r\nX-Shopify-Hmac-Sha256: ab==\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{", path, bearer(t, "operator"))
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), route.ReasonTooSlow)
			require.Empty(t, b.services.seen())
		})
	}

	t.Run("R_15_TheDeadlineOfABodyIsNotThatOfTheCall", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.services.on("OnboardingService/ExecuteStep", func(ctx context.Context) (json.RawMessage, error) {
			longer := time.NewTimer(bodyPause + 200*time.Millisecond)
			defer longer.Stop()
			select {
			case <-longer.C:
				return json.RawMessage(`{"outcome":"STEP_OUTCOME_SENT"}`), nil
			case <-ctx.Done(): // the server reads on while a handler works, and takes an error for a client that went away
				return nil, ctx.Err()
			}
		})
		response := b.deliver(t, goldenRequest{Path: callback.PathStep, Sign: "qstash current", Headers: headers("0", "5"), Body: aStep})
		require.Equal(t, http.StatusOK, response.StatusCode)
	})
}
