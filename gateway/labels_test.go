package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/gateway/twilio"
)

// TestLabels sends 10,000 odd requests, as only a stranger would, and counts the series that they leave.
func TestLabels(t *testing.T) {
	t.Parallel()
	t.Run("R_16_NoRequestMakesALabel", func(t *testing.T) {
		t.Parallel()
		const requests, connections = 10_000, 10
		services := startServices(t)
		r := start(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", services.addr)
		for _, route := range []string{twilio.PathInbound, "/v1/profiles", "/elsewhere"} { // the series that there may be
			for _, method := range []string{http.MethodPost, "BREW"} {
				odd(t, r.url, method, route, "known", 1)
			}
		}
		before := series(t, r.ops)
		done := make(chan struct{})
		for c := range connections {
			go func() {
				defer func() { done <- struct{}{} }()
				for n := range requests / connections / 100 {
					route := []string{twilio.PathInbound, "/v1/profiles", "/elsewhere"}[n%3]
					odd(t, r.url, []string{http.MethodPost, "BREW"}[n%2], route, fmt.Sprintf("%d.%d", c, n), 100)
				}
			}()
		}
		for range connections {
			<-done
		}
		require.Equal(t, before, series(t, r.ops))
		r.stop()
		require.NoError(t, <-r.ended)
	})
}

// odd sends count requests over one connection, each with another host, port, path and headers.
func odd(t *testing.T, url, method, route, name string, count int) {
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }() // read to its end already
	answers := bufio.NewReader(conn)
	for n := range count {
		path := route
		if route == "/elsewhere" {
			path += "/" + name + fmt.Sprint(n)
		}
		_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: h%s:%d\r\nUser-Agent: %s-%d\r\nX-Forwarded-Proto: p%d\r\nContent-Length: 0\r\n\r\n",
			method, path, strings.ReplaceAll(name, ".", "-"), n+1, name, n, n)
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err := firstOf(err, answer.Body.Close()); err != nil {
			t.Error(err)
			return
		}
	}
}

// series are the names and labels of what a scrape shows about requests, without their values.
func series(t *testing.T, ops string) (names []string) {
	t.Helper()
	_, metrics := get(t, ops+"/metrics")
	for line := range strings.Lines(metrics) {
		if name, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "go_") {
			names = append(names, name)
		}
	}
	return names
}
