package gateway

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"paceline.internal/gateway/qstash"
)

const (
	idleTimeout = 2 * time.Minute
	maxHeader   = 32 << 10
)

// server is the public HTTP server. Every timeout is set: without one a stranger could hold a connection open.
func server(handler http.Handler, log *slog.Logger) *http.Server {
	now := time.Now // deadlines of connections are on the machine's clock
	clients := &connections{open: map[net.Conn]*connection{}}
	return &http.Server{
		Handler:           timely(now, handler),
		ConnContext:       clients.opened,
		ConnState:         clients.changed,
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       4 * time.Second,                // a body has other deadlines, which come earlier
		WriteTimeout:      qstash.Timeout + 5*time.Second, // counts from the end of the header: reading, one call, writing
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
