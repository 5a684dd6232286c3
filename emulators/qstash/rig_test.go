package qstash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// rig is an emulator on a settable clock, served over HTTP, our client before it and a destination behind it.
type rig struct {
	t        *testing.T
	clock    *clock.Settable
	emulator *emulator.Emulator
	url      string
	client   *qstash.Client
	dest     *destination
}

func setup(t *testing.T, adjust ...func(*emulator.Config)) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewSettable(start), dest: newDestination(t)}
	cfg := emulator.Config{Clock: r.clock}
	for _, f := range adjust {
		f(&cfg)
	}
	r.emulator = emulator.New(cfg)
	t.Cleanup(r.emulator.Close)
	server := httptest.NewServer(r.emulator)
	t.Cleanup(server.Close)
	r.url = server.URL
	var err error
	r.client, err = qstash.New(qstash.Config{URL: server.URL, Token: emulator.DevToken, HTTPClient: newHTTPClient(t)})
	require.NoError(t, err)
	return r
}

func newHTTPClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// message is a publish request.
type message struct {
	Destination, ContentType, DeduplicationID, Label, RetryDelay, FailureCallback string

	Body           []byte
	Delay, Timeout time.Duration
	Retries        int // none unless it says otherwise; planRetries leaves it to the plan
	ForwardHeaders map[string]string
}

const planRetries = -1

// message is the least that can be published to the destination.
func (r *rig) message(id string) message {
	return message{Destination: r.dest.url + "/hook", DeduplicationID: id, Body: []byte(`{"step":1}`)}
}

func (m message) header() map[string]string {
	header := map[string]string{
		"Content-Type": m.ContentType, qstash.HeaderDeduplicationID: m.DeduplicationID, qstash.HeaderLabel: m.Label,
		qstash.HeaderRetryDelay: m.RetryDelay, qstash.HeaderFailureCallback: m.FailureCallback,
	}
	for name, d := range map[string]time.Duration{qstash.HeaderDelay: m.Delay, qstash.HeaderTimeout: m.Timeout} {
		if d > 0 {
			header[name] = strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + "s"
		}
	}
	if m.Retries != planRetries {
		header[qstash.HeaderRetries] = strconv.Itoa(m.Retries)
	}
	for name, value := range m.ForwardHeaders {
		header[qstash.HeaderForwardPrefix+name] = value
	}
	return header
}

func (r *rig) publish(m message) qstash.Receipt {
	r.t.Helper()
	status, answer := r.raw(http.MethodPost, "/v2/publish/"+m.Destination, m.header(), string(m.Body))
	require.Equal(r.t, 2, status/100, answer)
	return qstash.Receipt{MessageID: answer["messageId"].(string), Deduplicated: answer["deduplicated"] == true}
}

// refusal is the status of a publish that is not taken.
func (r *rig) refusal(m message) int {
	r.t.Helper()
	status, answer := r.raw(http.MethodPost, "/v2/publish/"+m.Destination, m.header(), string(m.Body))
	require.NotEmpty(r.t, answer["error"])
	return status
}

// ours publishes to the destination as the product does.
func (r *rig) ours(id string) (qstash.Receipt, error) {
	r.t.Helper()
	route := qstash.Route{Path: "/hook", FailurePath: "/failed", Label: "burst"}
	publisher, err := qstash.NewPublisher(qstash.PublisherConfig{
		Client: r.client, Origin: r.dest.url, Routes: []qstash.Route{route}, HashKey: make([]byte, 32),
		Log: slog.New(slog.DiscardHandler), Now: r.clock.Now,
	})
	require.NoError(r.t, err)
	job := qstash.Job{Route: route}
	job.DedupID, err = qstash.NewDedupID("burst", id)
	require.NoError(r.t, err)
	return publisher.Publish(r.t.Context(), job)
}

// raw speaks to the emulator as any HTTP client would. A header without a value is left out.
func (r *rig) raw(method, path string, header map[string]string, body string) (int, map[string]any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewBufferString(body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+emulator.DevToken)
	for name, value := range header {
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := newHTTPClient(r.t).Do(req)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, resp.Body.Close()) }()
	var answer map[string]any
	require.NoError(r.t, json.NewDecoder(resp.Body).Decode(&answer))
	return resp.StatusCode, answer
}

// waiting reads a message that waits for delivery.
func (r *rig) waiting(id string) (int, map[string]any) {
	r.t.Helper()
	return r.raw(http.MethodGet, "/v2/messages/"+id, nil, "")
}

// cancel cancels a message, and returns the status of the answer.
func (r *rig) cancel(id string) int {
	r.t.Helper()
	status, _ := r.raw(http.MethodDelete, "/v2/messages/"+id, nil, "")
	return status
}

// deadLetters returns the dead letters of a page, and the cursor of the next.
func (r *rig) deadLetters(cursor string) (dead []map[string]any, next any) {
	r.t.Helper()
	status, page := r.raw(http.MethodGet, "/v2/dlq?cursor="+url.QueryEscape(cursor), nil, "")
	require.Equal(r.t, http.StatusOK, status)
	for _, m := range page["messages"].([]any) {
		dead = append(dead, m.(map[string]any))
	}
	return dead, page["cursor"]
}

// rawPublish publishes to the destination with the given headers.
func (r *rig) rawPublish(header map[string]string) (int, map[string]any) {
	r.t.Helper()
	return r.raw(http.MethodPost, "/v2/publish/"+r.dest.url+"/hook", header, "hello")
}

// idle waits until everything that is due has been delivered.
func (r *rig) idle() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(r.t, r.emulator.Idle(ctx))
}

// run lets d pass, and stops at every timer on the way until its deliveries have ended.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	until := r.clock.Now().Add(d)
	for r.idle(); ; r.idle() {
		next, ok := r.clock.Next()
		if !ok || next.After(until) {
			break
		}
		r.clock.AdvanceToNext()
	}
	r.clock.Advance(until.Sub(r.clock.Now()))
}

// attempts returns when, since the start, each attempt began.
func (r *rig) attempts() []time.Duration {
	times := []time.Duration{}
	for _, event := range r.emulator.Record().Of(emulator.Attempted) {
		times = append(times, event.Time.Sub(start))
	}
	return times
}

// arrival is a request that the destination received.
type arrival struct {
	method, uri string
	header      http.Header
	body        []byte
}

// destination is a server that keeps what it receives and answers what the test says.
type destination struct {
	url string

	mu       sync.Mutex
	arrivals []arrival
	answer   http.HandlerFunc
}

func newDestination(t *testing.T) *destination {
	t.Helper()
	d := &destination{answer: func(http.ResponseWriter, *http.Request) {}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		d.mu.Lock()
		d.arrivals = append(d.arrivals, arrival{method: r.Method, uri: r.RequestURI, header: r.Header.Clone(), body: body})
		answer := d.answer
		d.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func (d *destination) answers(f http.HandlerFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = f
}

// answersStatus answers the statuses one after the other, and the last one from then on.
func (d *destination) answersStatus(statuses ...int) {
	n := 0
	d.answers(func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		status := statuses[min(n, len(statuses)-1)]
		n++
		d.mu.Unlock()
		w.WriteHeader(status)
	})
}

func (d *destination) received() []arrival {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]arrival{}, d.arrivals...)
}

// only is the one request that has arrived.
func (d *destination) only(t *testing.T) arrival {
	t.Helper()
	all := d.received()
	require.Len(t, all, 1)
	return all[0]
}

// at are the requests that arrived at a path.
func (d *destination) at(uri string) []arrival {
	var there []arrival
	for _, a := range d.received() {
		if a.uri == uri {
			there = append(there, a)
		}
	}
	return there
}
