package process

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"paceline.internal/platform/config"
)

// Verbs are the commands of a binary: serve, which is the default, migrate, doctor, health, version, and those that it alone has.
type Verbs[Config any] struct {
	Load    func(environ map[string]string) (Config, error)
	Serve   func(ctx context.Context, cfg Config) error
	Migrate func(ctx context.Context, cfg Config) error // nil for a process that keeps nothing
	Doctor  func(ctx context.Context, cfg Config) Findings
	OpsAddr func(cfg Config) config.Addr // the address at which the verb health asks the running process
	Own     map[string]func(ctx context.Context, cfg Config, out io.Writer) error
}

// Main is the whole main of a service's binary. The first SIGINT or SIGTERM stops it in order, the second at once.
func Main[Config any](name string, verbs Verbs[Config]) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := verbs.run(ctx, name, os.Args[1:], config.Environ(os.Environ()), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func (v Verbs[Config]) run(ctx context.Context, name string, args []string, environ map[string]string, out io.Writer) error {
	verb := "serve"
	if len(args) > 0 {
		verb = args[0]
	}
	asJSON := verb == "doctor" && len(args) == 2 && args[1] == "--json"
	own := v.Own[verb]
	if len(args) > 1 && !asJSON || own == nil && !slices.Contains([]string{"serve", "migrate", "doctor", "health", "version"}, verb) {
		others := strings.Join(append([]string{""}, slices.Sorted(maps.Keys(v.Own))...), " | ")
		return fmt.Errorf("usage: %s [serve | migrate | doctor [--json] | health | version%s]", name, others)
	}
	if verb == "version" {
		_, err := fmt.Fprintln(out, Version(name))
		return err
	}
	if verb == "migrate" && v.Migrate == nil {
		_, err := fmt.Fprintf(out, "%s keeps no state, so there is nothing to migrate\n", name)
		return err
	}
	cfg, err := v.Load(environ)
	if err != nil && verb == "doctor" {
		return Environment(name, err).Report(out, asJSON)
	}
	if err != nil {
		return fmt.Errorf("the environment cannot be used; docs/configuration.md lists all variables:\n%w", err)
	}
	if own != nil {
		return own(ctx, cfg, out)
	}
	switch verb {
	case "migrate":
		return v.Migrate(ctx, cfg)
	case "doctor":
		return v.Doctor(ctx, cfg).Report(out, asJSON)
	case "health":
		return askReady(ctx, v.OpsAddr(cfg), out)
	default:
		CollectLess()
		return v.Serve(ctx, cfg)
	}
}

const (
	// healthTimeout is longer than /readyz takes to say no.
	healthTimeout = 4 * time.Second
	// maxReadiness bounds what is read of an answer, which lists the queues.
	maxReadiness = 16 << 10
)

// askReady asks the process that serves on this machine whether it should get traffic, and fails with its reason when not. It is
// for container engines, which run a command inside the container: an image without a shell has no other that could ask.
func askReady(ctx context.Context, ops config.Addr, out io.Writer) (err error) {
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
