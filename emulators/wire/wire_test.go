package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
)

// shortly is the time for which a test listens before it takes a connection for silent.
const shortly = 30 * time.Millisecond

// echo is a server behind a wire that sends every line back, and reports what it received.
type echo struct {
	*Wire

	heard chan string // lines, and "end" for the end of a connection
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{heard: make(chan string, 16)}
	e.Wire, err = Open(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						e.heard <- line + "end"
						return
					}
					e.heard <- line
					_, _ = io.WriteString(conn, line)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.NoError(t, listener.Close())
	})
	return e
}

func (e *echo) call(t *testing.T) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func say(t *testing.T, conn net.Conn, what string) {
	t.Helper()
	_, err := io.WriteString(conn, what)
	require.NoError(t, err, "a silent wire acknowledges")
}

// hears returns what comes before the wire has been silent for a moment, and whether the connection is still open then.
func hears(t *testing.T, conn net.Conn) (what string, open bool) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(clock.System().Now().Add(shortly)))
	heard, err := io.ReadAll(conn)
	return string(heard), errors.Is(err, os.ErrDeadlineExceeded)
}

func requireAnswer(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(clock.System().Now().Add(10*time.Second)))
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func requireSilent(t *testing.T, conn net.Conn) {
	t.Helper()
	what, open := hears(t, conn)
	require.Empty(t, what)
	require.True(t, open, "neither an end nor a reset")
}

func TestWire(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		Manner  Manner
		arrives string // of "one\n", while it is silent
	}{
		{BothWays, ""}, {TowardsServer, ""}, {TowardsCaller, "one\n"}, {MidMessage, ""},
	} {
		t.Run("R_03_IsSilentAndGoesOn/"+string(tt.Manner), func(t *testing.T) {
			t.Parallel()
			e := newEcho(t)
			conn := e.call(t)
			say(t, conn, "before\n")
			require.Equal(t, "before\n", <-e.heard)
			requireAnswer(t, conn, "before\n")
			require.False(t, e.Struck())

			e.Freeze(tt.Manner, false)
			say(t, conn, "one\n")
			late := e.call(t)
			say(t, late, "one\n")
			requireSilent(t, conn)
			requireSilent(t, late)
			require.Eventually(t, e.Struck, 10*time.Second, time.Millisecond)
			for range 2 {
				if tt.arrives != "" {
					require.Equal(t, tt.arrives, <-e.heard)
				}
			}
			require.Empty(t, e.heard)

			e.Thaw()
			requireAnswer(t, conn, "one\n")
			requireAnswer(t, late, "one\n")
			say(t, conn, "two\n")
			requireAnswer(t, conn, "two\n")
		})
	}

	t.Run("R_03_CutLosesWhatWasHeldBack", func(t *testing.T) {
		t.Parallel()
		e := newEcho(t)
		conn := e.call(t)
		say(t, conn, "before\n")
		requireAnswer(t, conn, "before\n")
		<-e.heard
		e.Freeze(MidMessage, false)
		say(t, conn, "half")
		require.Eventually(t, e.Struck, 10*time.Second, time.Millisecond)
		requireSilent(t, conn)
		e.Cut()
		_, open := hears(t, conn)
		require.False(t, open)
		require.Equal(t, "haend", <-e.heard, "half of it was said already")
		say(t, e.call(t), "again\n")
		require.Equal(t, "again\n", <-e.heard)
	})

	t.Run("R_03_OnlyWhatStandsIsSilent", func(t *testing.T) {
		t.Parallel()
		e := newEcho(t)
		old := e.call(t)
		say(t, old, "before\n")
		requireAnswer(t, old, "before\n")
		e.Freeze(BothWays, true)
		fresh := e.call(t)
		say(t, fresh, "fresh\n")
		requireAnswer(t, fresh, "fresh\n")
		say(t, old, "old\n")
		require.Eventually(t, e.Struck, 10*time.Second, time.Millisecond)
		requireSilent(t, old)
		e.CutHeld()
		_, open := hears(t, old)
		require.False(t, open)
		say(t, fresh, "still\n")
		requireAnswer(t, fresh, "still\n")
	})
	endsOfAWire(t)
}

// endsOfAWire lists how a silent connection ends.
func endsOfAWire(t *testing.T) {
	t.Helper()
	t.Run("R_03_WhatIsAbandonedNeverSpeaksAgain", func(t *testing.T) {
		t.Parallel()
		e := newEcho(t)
		struck, idle := e.call(t), e.call(t)
		for _, conn := range []net.Conn{struck, idle} {
			say(t, conn, "before\n")
			requireAnswer(t, conn, "before\n")
			<-e.heard
		}
		e.Freeze(TowardsCaller, false)
		say(t, struck, "one\n")
		require.Equal(t, "one\n", <-e.heard)
		require.Eventually(t, e.Struck, 10*time.Second, time.Millisecond)
		e.Abandon()
		say(t, struck, "two\n")
		requireSilent(t, struck)
		require.Empty(t, e.heard)
		say(t, idle, "idle\n")
		requireAnswer(t, idle, "idle\n")
		require.Equal(t, "idle\n", <-e.heard)
		require.NoError(t, struck.Close())
		require.Equal(t, "end", <-e.heard, "the server is rid of it when its caller is")
	})

	t.Run("R_03_TheEndOfACallerIsHeldBackToo", func(t *testing.T) {
		t.Parallel()
		e := newEcho(t)
		conn := e.call(t)
		say(t, conn, "before\n")
		requireAnswer(t, conn, "before\n")
		<-e.heard
		e.Freeze(TowardsServer, false)
		require.NoError(t, conn.Close())
		require.Eventually(t, e.Struck, 10*time.Second, time.Millisecond)
		require.Empty(t, e.heard)
		e.Thaw()
		require.Equal(t, "end", <-e.heard)
	})

	t.Run("R_03_AResetDiscardsWhatWasHeldBack", func(t *testing.T) {
		t.Parallel()
		for _, reset := range []bool{true, false} {
			e := newEcho(t)
			conn := e.call(t)
			say(t, conn, "before\n")
			requireAnswer(t, conn, "before\n")
			<-e.heard
			e.Freeze(BothWays, false)
			say(t, conn, "one\n")
			require.Eventually(t, e.Struck, 10*time.Second, time.Millisecond)
			if reset {
				require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
			}
			require.NoError(t, conn.Close())
			e.Thaw()
			if !reset {
				require.Equal(t, "one\n", <-e.heard, "its kernel would have repeated it")
			}
			require.Equal(t, "end", <-e.heard)
		}
	})

	t.Run("EachOfSeveralServersTakesItsTurnAndOneThatIsGoneIsPassedOver", func(t *testing.T) {
		t.Parallel()
		one, other := newEcho(t), newEcho(t)
		gone, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, gone.Close())
		w, err := Open(t.Context(), "tcp", one.Addr, gone.Addr().String(), other.Addr)
		require.NoError(t, err)
		defer func() { require.NoError(t, w.Close()) }()
		var conns []net.Conn
		for range 6 {
			conn := (&echo{Wire: w}).call(t)
			say(t, conn, "hello\n")
			requireAnswer(t, conn, "hello\n")
			conns = append(conns, conn)
		}
		require.GreaterOrEqual(t, len(one.heard), 2)
		require.GreaterOrEqual(t, len(other.heard), 2)

		require.Equal(t, 2, w.CutSome(2))
		ended := 0
		for _, conn := range conns {
			if _, open := hears(t, conn); !open {
				ended++
			}
		}
		require.Equal(t, 2, ended)
		require.Equal(t, 4, w.CutSome(9))
	})

	t.Run("R_03_ARefusalIsHeldBackToo", func(t *testing.T) {
		t.Parallel()
		unused, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, unused.Close())
		w, err := Open(t.Context(), "tcp", unused.Addr().String())
		require.NoError(t, err)
		e := &echo{Wire: w}
		w.Freeze(BothWays, false)
		conn := e.call(t)
		requireSilent(t, conn)
		w.Thaw()
		require.Eventually(t, func() bool { _, open := hears(t, conn); return !open }, 10*time.Second, time.Millisecond)
		require.NoError(t, w.Close())
	})
}
