package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"paceline.internal/platform/config"
)

const (
	// healthTimeout is longer than /readyz takes to say no.
	healthTimeout = 4 * time.Second
	// maxReadiness bounds what is read of an answer, which lists the queues.
	maxReadiness = 16 << 10
)

// Health asks the process that serves on this machine whether it should get traffic, and fails with its reason when not. It is
// for container engines, which run a command inside the container: an image without a shell has no other that could ask.
func Health(ctx context.Context, ops config.Addr, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(ops.String())
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() { // every interface, of which this is one
		host = "localhost"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // without a proxy: it is this machine
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("nothing answers on the ops port: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // nothing is lost with it
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxReadiness))
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(answer))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", text)
	}
	_, err = fmt.Fprintln(out, text)
	return err
}
