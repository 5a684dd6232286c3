package postgres

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUnacknowledged looks at the socket: to lose packets takes rights that a test has not.
func TestUnacknowledged(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	conn, err := newDialer().Dial(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()

	raw, err := conn.(*line).Conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	var userTimeout, idle int
	require.NoError(t, raw.Control(func(fd uintptr) {
		userTimeout, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		require.NoError(t, err)
		idle, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		require.NoError(t, err)
	}))
	require.Equal(t, 3000, userTimeout)
	require.Equal(t, 1, idle)
}
