package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/process"
)

// stubs take the place of QStash and Twilio. The emulators remember every message and have timers, which is work on the
// measured machine; the stubs only answer.
type stubs struct {
	qstash, twilio *httptest.Server
	asked, alarms  atomic.Int64
	clock          *alarmClock // nil accepts alarms and delivers none; else it is told, too, when Twilio is asked
}

func newStubs(tb testing.TB) *stubs {
	tb.Helper()
	s := &stubs{}
	s.qstash, s.twilio = httptest.NewServer(http.HandlerFunc(s.publish)), httptest.NewServer(http.HandlerFunc(s.send))
	tb.Cleanup(s.qstash.Close)
	tb.Cleanup(s.twilio.Close)
	return s
}

// publish accepts an alarm.
func (s *stubs) publish(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the connection is used again
	if s.clock != nil {
		s.clock.published(r, body)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"messageId":"msg_%d"}`, s.alarms.Add(1)) // a client that has gone tries again
}

// send accepts a message. It answers every other request with 404.
func (s *stubs) send(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	phone := r.PostFormValue("To")
	if s.clock != nil {
		s.clock.asked(phone)
	}
	process.RestOnMachineClock(r.Context(), *answers, nil)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"sid":"SM%032x","status":"queued","from":%q,"num_segments":"1"}`, s.asked.Add(1), stack.FromNumber)
}

// kapsoKey signs the webhooks of Kapso. The processes of a measurement are on this machine alone, and end with it.
const kapsoKey = "a key of a measurement"

// environ is the environment of the three services, with the databases of these names.
func (s *server) environ(tb testing.TB, databases map[string]string) map[string]string {
	tb.Helper()
	ports, err := stack.FreePorts(tb.Context(), 6)
	require.NoError(tb, err)
	environ := stack.ProcessEnviron(&stack.Vendors{QStashURL: s.stubs.qstash.URL, TwilioURL: s.stubs.twilio.URL}, stack.Addresses{
		Gateway: ports[0], GatewayOps: ports[1], Onboarding: ports[2], OnboardingOps: ports[3], Messaging: ports[4], MessagingOps: ports[5],
	}, stack.Secrets{APIJWT: "a key of a measurement that signs no token"})
	maps.DeleteFunc(environ, func(name, _ string) bool { _, key := (stack.Secrets{}).Keys()[name]; return key })
	environ["SERVICE_AUTH_SECRET"] = "a secret of three processes that end with the measurement"
	// The stub of Twilio does not list messages. The release before has the second name.
	environ["INBOUND_SWEEP_INTERVAL"], environ["INBOUND_AUDIT_INTERVAL"] = "0", "0"
	environ["KAPSO_WEBHOOK_SECRET"] = kapsoKey
	// The sender's rate holds a run for many people back no more than the machine does.
	environ["SMS_SEGMENTS_PER_SECOND"] = "100"
	for _, service := range stored() {
		environ[strings.ToUpper(service)+"_DATABASE_URL"] = s.private.URL(databases[service], service)
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOGC", "GOMEMLIMIT", "GOMAXPROCS"} {
		if value, set := os.LookupEnv(name); set {
			environ[name] = value
		}
	}
	return environ
}

// place is the three services, running.
type place struct {
	origin    string
	environ   map[string]string
	databases map[string]string // by service
	pids      map[string]string // by service
	client    *http.Client
	close     func()
}

// services lists the processes in the order in which they start.
func services() []string { return []string{stack.Messaging, stack.Onboarding, stack.Gateway} }

// together names the process that has all three services.
const together = "together"

// wiring is a way to run the product.
type wiring struct {
	processes []string // in the order in which they start
	alarms    string   // the engine
	before    bool     // it is the release before
}

// apart is the wiring of all measurements that do not name another.
func apart() wiring { return wiring{processes: services(), alarms: "qstash"} }

// schema names the empty database of a service.
func (w wiring) schema(service string) string {
	if w.before {
		return service + "_before"
	}
	return service
}

// open starts the services and waits until they are ready. The log of a process is a file that is shown when it does not
// become ready.
func (s *server) open(tb testing.TB, databases map[string]string, callers int, w wiring) *place {
	tb.Helper()
	environ := s.environ(tb, databases)
	environ["ALARMS"] = w.alarms
	p := &place{
		origin: environ["PUBLIC_BASE_URL"], environ: environ, databases: databases, pids: map[string]string{},
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}},
	}
	var children []*stack.Child
	p.close = func() {
		for _, child := range children {
			child.Kill()
		}
		p.client.CloseIdleConnections()
	}
	tb.Cleanup(p.close) // where a check fails
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for _, service := range w.processes {
		log := filepath.Join(tb.TempDir(), service+".log")
		command, own := []string{os.Args[0]}, maps.Clone(environ)
		if own[asService] = service; w.before {
			command = []string{s.before, "serve", service}
		}
		child, err := stack.StartChild(stack.ChildConfig{Name: service, Command: command, Environ: own, Log: log})
		require.NoError(tb, err)
		children, p.pids[service] = append(children, child), strconv.Itoa(child.Pid())
		if service == together {
			service = stack.Gateway // it is ready when the others are
		}
		ready := "http://" + environ[strings.ToUpper(service)+"_OPS_ADDR"] + "/readyz"
		for {
			if answer, _, err := p.do(ctx, http.MethodGet, ready, "", nil); err == nil && answer.StatusCode == http.StatusOK {
				break
			}
			if !process.RestOnMachineClock(ctx, 10*time.Millisecond, nil) {
				said, _ := os.ReadFile(log) // as far as it was written
				tb.Fatalf("%s does not become ready: %s", service, said)
			}
		}
	}
	return p
}

// do makes a request, and returns the answer and its body.
func (p *place) do(ctx context.Context, method, target, body string, header map[string]string) (*http.Response, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	return response, string(said), err
}

// request is one that an outside program makes. Its error says that the answer was not the expected one.
type request func(ctx context.Context) error

// posting returns a request that must be answered with this status and text.
func (p *place) posting(target, body string, header map[string]string, status int, text string) request {
	return func(ctx context.Context) error {
		response, said, err := p.do(ctx, http.MethodPost, target, body, header)
		if err == nil && (response.StatusCode != status || !strings.Contains(said, text)) {
			err = fmt.Errorf("%s was answered %d: %s", target, response.StatusCode, said)
		}
		return err
	}
}

// twilioPosting returns a signed callback of Twilio.
func (p *place) twilioPosting(target string, form url.Values) request {
	form.Set("AccountSid", p.environ["TWILIO_ACCOUNT_SID"])
	return p.posting(target, form.Encode(), map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "X-Twilio-Signature": twilio.Sign(p.environ["TWILIO_AUTH_TOKEN"], target, form),
	}, http.StatusOK, "")
}
