package twilio_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"
	"go.uber.org/goleak"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
)

const (
	account = "AC0123456789abcdef0123456789abcdef"
	token   = "fedcba9876543210fedcba9876543210"
	service = "MG0123456789abcdef0123456789abcdef"
	number  = "+15550100001" // owned, in no service
	pooled1 = "+15550100002" // in the service
	pooled2 = "+15550100003"
	person  = "+15550190001"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is an emulator behind HTTP, the unmodified twilio-go talking to it, and an application that it calls back.
type bundle struct {
	t        *testing.T
	clock    *clock.Settable
	emulator *twilio.Emulator
	origin   string
	http     *http.Client
	api      *openapi.ApiService
	app      *application
	events   *events
}

func setup(t *testing.T, edits ...func(*twilio.Config)) *bundle {
	t.Helper()
	b := &bundle{t: t, clock: clock.NewSettable(start), app: newApplication(t), events: &events{}}
	cfg := twilio.Config{
		Clock: b.clock, AccountSID: account, AuthToken: token,
		Numbers: []string{number}, Services: map[string][]string{service: {pooled1, pooled2}},
		OnEvent: b.events.add,
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	emulator, err := twilio.New(cfg)
	require.NoError(t, err)
	b.emulator = emulator
	emulator.SetInboundURL(b.app.url + "/inbound")
	t.Cleanup(emulator.Close)
	server := httptest.NewServer(emulator)
	t.Cleanup(server.Close)
	b.origin = server.URL
	b.http = &http.Client{Transport: &rewrite{to: server.URL, next: &http.Transport{}}, CheckRedirect: stay}
	t.Cleanup(b.http.CloseIdleConnections)
	b.api = b.client(account, token)
	return b
}

// client is an ordinary twilio-go client, with a transport that leads to the emulator.
func (b *bundle) client(user, password string) *openapi.ApiService {
	base := &client.Client{Credentials: client.NewCredentials(user, password), HTTPClient: b.http}
	base.SetAccountSid(account)
	return openapi.NewApiService(&client.RequestHandler{Client: base})
}

// send creates a message through twilio-go.
func (b *bundle) send(edit func(*openapi.CreateMessageParams)) (*openapi.ApiV2010Message, error) {
	p := (&openapi.CreateMessageParams{}).SetTo(person).SetFrom(number).SetBody("hello")
	if edit != nil {
		edit(p)
	}
	return b.api.CreateMessage(p)
}

// must creates a message and returns its SID.
func (b *bundle) must(edit func(*openapi.CreateMessageParams)) string {
	b.t.Helper()
	m, err := b.send(edit)
	require.NoError(b.t, err)
	return *m.Sid
}

// code is the Twilio error code that a create is refused with.
func (b *bundle) code(edit func(*openapi.CreateMessageParams)) int {
	b.t.Helper()
	_, err := b.send(edit)
	var refusal *client.TwilioRestError
	require.ErrorAs(b.t, err, &refusal)
	require.Equal(b.t, 400, refusal.Status)
	return refusal.Code
}

// pass moves the clock and waits until every callback due by then has ended.
func (b *bundle) pass(d time.Duration) {
	b.t.Helper()
	b.clock.Advance(d)
	require.NoError(b.t, b.emulator.Idle(b.t.Context()))
}

func (b *bundle) message(sid string) twilio.Message {
	b.t.Helper()
	for _, m := range b.emulator.Messages() {
		if m.SID == sid {
			return m
		}
	}
	require.Fail(b.t, "no such message")
	return twilio.Message{}
}

func (b *bundle) receive(body string) twilio.Delivery {
	b.t.Helper()
	d, err := b.emulator.Receive(b.t.Context(), person, number, body)
	require.NoError(b.t, err)
	return d
}

// rewrite leads requests for api.twilio.com to the emulator.
type rewrite struct {
	to   string
	next *http.Transport
}

func (r *rewrite) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := url.Parse(r.to)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
	return r.next.RoundTrip(req)
}

func (r *rewrite) CloseIdleConnections() { r.next.CloseIdleConnections() }

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// application receives webhooks and answers as the test says.
type application struct {
	url string

	mu     sync.Mutex
	posts  []post
	answer func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1; nil answers 204
}

// post is one webhook as it arrived.
type post struct {
	Path, Query string
	Form        url.Values
	Header      http.Header
	Signed      bool // according to twilio-go
}

func newApplication(t *testing.T) *application {
	t.Helper()
	a := &application{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		http.Error(w, "not a form", http.StatusBadRequest)
		return
	}
	validator := client.NewRequestValidator(token)
	p := post{Path: r.URL.Path, Query: r.URL.RawQuery, Form: form, Header: r.Header}
	p.Signed = validator.ValidateBody(a.url+r.URL.RequestURI(), body, r.Header.Get("X-Twilio-Signature"))
	a.mu.Lock()
	a.posts = append(a.posts, p)
	n, answer := len(a.posts), a.answer
	a.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(n, w, r)
}

func (a *application) answers(f func(n int, w http.ResponseWriter, r *http.Request)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = f
}

func (a *application) says(contentType, body string) {
	a.answers(func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	})
}

// received is a copy of the webhooks so far, and the message status in each.
func (a *application) received() (posts []post, statuses []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.posts {
		posts, statuses = append(posts, p), append(statuses, p.Form.Get("MessageStatus"))
	}
	return posts, statuses
}

// events remembers the emulator's events.
type events struct {
	mu  sync.Mutex
	all []twilio.Event
}

func (e *events) add(event twilio.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// codes of the events of one kind.
func (e *events) codes(kind twilio.EventKind) []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	codes := []int{}
	for _, event := range e.all {
		if event.Kind == kind {
			codes = append(codes, event.Code)
		}
	}
	return codes
}

func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
