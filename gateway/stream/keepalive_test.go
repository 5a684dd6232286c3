package stream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// piped answers a handshake and hands on one end of a pipe, of which the bubble's clock knows when all wait for it.
type piped struct {
	*httptest.ResponseRecorder

	conn net.Conn
}

func (p piped) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return p.conn, bufio.NewReadWriter(bufio.NewReader(p.conn), bufio.NewWriter(p.conn)), nil
}

func TestADeviceThatReadsAndAnswersNoPingIsGoneWithinTheBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		go func() { _, _ = io.Copy(io.Discard, there) }() // it reads the ping, and says nothing
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			r.Header.Set(name, value)
		}
		conn, err := websocket.Accept(piped{httptest.NewRecorder(), here}, r, nil)
		require.NoError(t, err)
		defer conn.CloseNow()                  //nolint:errcheck // it has ended
		reading := conn.CloseRead(t.Context()) // as the stream does, or no pong could come
		s := &device{conn: conn}

		began := time.Now()                                       //nolint:forbidigo // the bubble's clock
		took := func() time.Duration { return time.Since(began) } //nolint:forbidigo // the bubble's clock
		end := s.keepalive(t.Context())
		require.Equal(t, PingEvery+pongTimeout, took())
		require.Equal(t, ending{cause: "it does not answer"}, end)
		s.close(t.Context(), end)
		<-reading.Done()
		require.Equal(t, PingEvery+pongTimeout, took(), "nothing is waited for that cannot come")
	})
}
