package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
)

// databasesOf names the services that keep something.
func databasesOf() []string { return []string{"onboarding", "messaging"} }

// template is the name of a migrated database of a build in which steps are due. It is copied for each measurement.
func template(build int, service string) string { return service + "_of_build_" + strconv.Itoa(build) }

// urlOf is how a service's login reaches a database of the private server.
func (s *server) urlOf(database, login string) string { return s.private.URL(database, login) }

// makeTemplate migrates a database by the build's own migrate, and lets steps become due in it.
func (s Steps) makeTemplate(ctx context.Context, server *server, b *build, service, name string) error {
	if err := server.private.EnsureService(ctx, service); err != nil { // for its roles
		return err
	}
	quoted, owner := pgx.Identifier{name}.Sanitize(), pgx.Identifier{service}.Sanitize()
	if err := server.exec(ctx, "create database "+quoted+" owner "+owner); err != nil {
		return err
	}
	// A configuration has to be whole even for migrate; nothing of it is reached.
	environ, err := s.environ(ctx, &stubs{qstash: "http://127.0.0.1:1", twilio: "http://127.0.0.1:1"}, map[string]string{
		"onboarding": server.urlOf(name, service), "messaging": server.urlOf(name, service),
	})
	if err != nil {
		return err
	}
	log := filepath.Join(server.dir, name+".log")
	migrate, err := stack.StartChild(stack.ChildConfig{
		Name: service, Command: append(append([]string{}, b.program...), "serve", service, "migrate"), Environ: environ, Log: log,
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		migrate.Kill()
		return context.Cause(ctx)
	case <-migrate.Done():
	}
	if err := migrate.Err(); err != nil {
		return fmt.Errorf("migrate: %w: %s", err, tail(log))
	}
	return s.load().seed(ctx, server.urlOf(name, "postgres"), service, s.due())
}

// cloned copies both databases of a build for one measurement, whose steps are due now.
func (s *server) cloned(ctx context.Context, build int, use func(urls map[string]string) error) (err error) {
	urls := map[string]string{}
	for _, service := range databasesOf() {
		name := service + "_" + strings.ToLower(rand.Text()[:8])
		quoted := pgx.Identifier{name}.Sanitize()
		if err := s.exec(ctx, "create database "+quoted+" owner "+pgx.Identifier{service}.Sanitize()+
			" template "+pgx.Identifier{template(build, service)}.Sanitize()); err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeBound)
			defer cancel()
			err = errors.Join(err, s.exec(ctx, "drop database "+quoted+" with (force)"))
		}()
		urls[service] = s.urlOf(name, service)
	}
	if err := execEach(ctx, urls["onboarding"], sqlDueNow, sqlRangNow, "vacuum conversation_sessions", "vacuum step_alarms"); err != nil {
		return err
	}
	if err := s.exec(ctx, "checkpoint"); err != nil {
		return err
	}
	return use(urls)
}

// environ is the environment of the three services.
func (s Steps) environ(ctx context.Context, stubs *stubs, urls map[string]string) (map[string]string, error) {
	ports, err := stack.FreePorts(ctx, 6)
	if err != nil {
		return nil, err
	}
	environ := stack.ProcessEnviron(&stack.Vendors{QStashURL: stubs.qstash, TwilioURL: stubs.twilio}, stack.Addresses{
		Gateway: ports[0], GatewayOps: ports[1], Onboarding: ports[2], OnboardingOps: ports[3], Messaging: ports[4], MessagingOps: ports[5],
	}, stack.Secrets{APIJWT: apiKey})
	for name := range (stack.Secrets{}).Keys() {
		delete(environ, name) // a build that is compared may know no keys
	}
	environ["SERVICE_AUTH_SECRET"] = rand.Text() + rand.Text()
	environ["ONBOARDING_DATABASE_URL"], environ["MESSAGING_DATABASE_URL"] = urls["onboarding"], urls["messaging"]
	environ["INBOUND_AUDIT_INTERVAL"] = "0" // the stub of Twilio has no record of what people write
	environ["KAPSO_WEBHOOK_SECRET"] = webhookKey
	maps.Copy(environ, s.Environ)
	return environ, nil
}

// apiKey signs what the operator of a measurement asks. Its processes are on this machine alone, and end with it.
const apiKey = "the operator of a measurement asks with this key"

// place is the three services of a build, running.
type place struct {
	origin   string
	environ  map[string]string
	ops      map[string]string // where each says what it has used
	pids     map[string]string
	logs     []string
	children []*stack.Child
	client   *http.Client
}

// readyBound is how long the three services may take to become ready.
const readyBound = time.Minute

// open starts the three services and waits until they are ready.
func (s Steps) open(
	ctx context.Context, server *server, stubs *stubs, b *build, urls map[string]string, callers int,
) (_ *place, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyBound, errors.New("the services do not become ready"))
	defer cancel()
	environ, err := s.environ(ctx, stubs, urls)
	if err != nil {
		return nil, err
	}
	p := &place{
		origin: environ["PUBLIC_BASE_URL"], environ: environ, ops: map[string]string{}, pids: map[string]string{},
		client: &http.Client{Timeout: readyBound, Transport: &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}},
	}
	for _, service := range []string{stack.Messaging, stack.Onboarding, stack.Gateway} {
		if err := p.start(ctx, server, service, append(slices.Clip(b.program), "serve", service)); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// start starts a service and waits until it is ready.
func (p *place) start(ctx context.Context, server *server, service string, command []string) error {
	log := filepath.Join(server.dir, service+".log")
	_ = os.Remove(log) // of the measurement before, if there was one
	child, err := stack.StartChild(stack.ChildConfig{Name: service, Command: command, Environ: p.environ, Log: log})
	if err != nil {
		return err
	}
	p.children, p.logs = append(p.children, child), append(p.logs, log)
	p.pids[service] = strconv.Itoa(child.Pid())
	p.ops[service] = p.environ[strings.ToUpper(service)+"_OPS_ADDR"]
	for !p.ready(ctx, service) {
		if !process.RestOnMachineClock(ctx, 10*time.Millisecond, nil) {
			return fmt.Errorf("%s: %w: %s", service, context.Cause(ctx), tail(log))
		}
	}
	return nil
}

func (p *place) ready(ctx context.Context, service string) bool {
	_, err := p.ask(ctx, service, "/readyz")
	return err == nil
}

// ask reads a page of a service's ops port.
func (p *place) ask(ctx context.Context, service, page string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.ops[service]+page, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s of %s: %s", page, service, response.Status)
	}
	return said, nil
}

// close ends the services at once: their databases are dropped next.
func (p *place) close() {
	for _, child := range p.children {
		child.Kill()
	}
	p.client.CloseIdleConnections()
}

// complaints are the last lines that the services wrote of what went wrong.
func (p *place) complaints() string {
	var last []string
	for _, log := range p.logs {
		said, _ := os.ReadFile(log) // what there is of it
		var line string
		for one := range strings.Lines(string(said)) {
			if strings.Contains(one, `"ERROR"`) || strings.Contains(one, `"WARN"`) {
				line = one
			}
		}
		last = append(last, line)
	}
	return strings.Join(last, "")
}

// tail is the end of what a process said.
func tail(log string) string {
	said, _ := os.ReadFile(log) // what there is of it
	return string(said[max(0, len(said)-2000):])
}

// socketOf is the unix socket of a database's URL.
func socketOf(database string) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", errors.New("the database URL cannot be parsed") // the cause quotes it
	}
	return filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port")), nil
}
