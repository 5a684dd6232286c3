package qstash

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	api "paceline.internal/platform/qstash"
)

// Message is one request that QStash has been given to deliver. It must not be changed.
type Message struct {
	ID string
	// URL is the destination exactly as it was published.
	URL    string
	Method string
	// Header holds the headers that the destination receives in addition to QStash's own.
	Header http.Header
	Body   []byte
	// Retries is the number of attempts after the first.
	Retries int
	// Timeout bounds one attempt.
	Timeout                time.Duration
	DeduplicationID, Label string
	// Callback and FailureCallback are the URLs that get every answer and the final failure.
	Callback, FailureCallback string
	CreatedAt, NotBefore      time.Time
	CallerIP                  string
}

// message is a Message and its state. All of it is guarded by the emulator's lock.
type message struct {
	Message

	retryDelay      retryDelay
	callback        settings
	failureCallback settings

	retried   int    // attempts that have ended
	flying    bool   // an attempt is in flight
	epoch     int    // counts the restarts that made an attempt in flight forgotten
	cancelled bool   // cancelled while an attempt was in flight
	wait      *timer // of the next attempt
}

// publish answers POST /v2/publish/{destination}.
func (e *Emulator) publish(w http.ResponseWriter, r *http.Request, destination string) {
	body, err := readBody(w, r, maxBody)
	var m *message
	var dedupKey string
	if err == nil {
		m, dedupKey, err = e.read(r.Header, r.RemoteAddr, destination, body)
	}
	if bad, ok := errors.AsType[*refusal](err); ok {
		e.refuse(w, Message{URL: destination}, Event{Status: bad.status, Err: bad.text})
		return
	}
	if err != nil { // the caller hung up while sending
		panic(http.ErrAbortHandler)
	}
	fault := e.script.publish(m.Message)
	if fault.Reset || fault.Status != 0 {
		e.fail(w, m.Message, fault)
		return
	}
	id, err := e.accept(m, dedupKey)
	switch {
	case fault.LoseAnswer:
		panic(http.ErrAbortHandler)
	case err != nil:
		answerRefusal(w, err)
	case id == m.ID:
		answer(w, http.StatusOK, publishedJSON{MessageID: id})
	default:
		answer(w, http.StatusAccepted, publishedJSON{MessageID: id, Deduplicated: true})
	}
}

// readBody reads at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, text: "message is larger than the plan allows"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	return body, nil
}

// fail does what the script wants instead of accepting.
func (e *Emulator) fail(w http.ResponseWriter, m Message, fault PublishFault) {
	m.ID = "" // the caller never gets it
	e.lock()
	e.note(Refused, m, Event{Status: fault.Status, Err: "scripted", Fault: true})
	e.unlock()
	if fault.Reset {
		panic(http.ErrAbortHandler) // the way for a handler to drop its connection
	}
	answerError(w, fault.Status, "scripted failure")
}

// accept schedules the message, unless its key is taken; then it returns the id of the message that holds it.
func (e *Emulator) accept(m *message, dedupKey string) (id string, err error) {
	e.lock()
	defer e.unlock()
	if err := e.room(1); err != nil {
		return "", err
	}
	first := e.duplicates.claim(dedupKey, m.ID, e.cfg.Clock.Now())
	if first != m.ID {
		known := m.Message
		known.ID = first
		e.note(Duplicate, known, Event{})
		return first, nil
	}
	e.enqueue(m)
	return m.ID, nil
}

// messageLimit bounds the messages that wait; it is far beyond what any test or demonstration has.
const messageLimit = 1 << 20

// room returns a refusal unless n more messages may be taken in. The lock is held.
func (e *Emulator) room(n int) error {
	switch {
	case e.closed:
		return &refusal{status: http.StatusServiceUnavailable, text: "shutting down"}
	case len(e.messages)+n > messageLimit:
		return &refusal{status: http.StatusTooManyRequests, text: "this emulator keeps no more messages than wait already"}
	default:
		return nil
	}
}

// enqueue takes a message in and waits for its time. The lock is held.
func (e *Emulator) enqueue(m *message) {
	e.messages[m.ID] = m
	e.note(Published, m.Message, Event{Due: m.NotBefore})
	m.wait = e.after(m.NotBefore.Sub(e.cfg.Clock.Now()), func() { e.launch(m) })
}

// read turns a publish request into a message and its deduplication key, or says what is wrong with it.
func (e *Emulator) read(h http.Header, remote, destination string, body []byte) (*message, string, error) {
	if err := playedHeaders(h); err != nil {
		return nil, "", err
	}
	if err := checkDestination(destination); err != nil {
		return nil, "", err
	}
	own, err := readSettings(h, "Upstash-")
	if err != nil {
		return nil, "", err
	}
	m := e.newMessage(destination, own, body)
	m.Label = h.Get(api.HeaderLabel)
	if contentType := h.Values("Content-Type"); len(contentType) > 0 {
		m.Header["Content-Type"] = contentType
	}
	m.CallerIP, _, _ = net.SplitHostPort(remote) // empty when the server is no TCP server
	if m.NotBefore, err = notBefore(h, m.CreatedAt); err != nil {
		return nil, "", err
	}
	if err := m.readCallbacks(h); err != nil {
		return nil, "", err
	}
	key, err := m.dedupKey(h)
	return m, key, err
}

// newMessage is a message that is due now.
func (e *Emulator) newMessage(destination string, s settings, body []byte) *message {
	now := e.cfg.Clock.Now()
	return &message{
		Message: Message{
			ID: newID("msg_"), URL: destination, Method: s.method, Header: s.forward, Body: body,
			Retries: s.retries, Timeout: s.timeout, CreatedAt: now, NotBefore: now,
		},
		retryDelay: s.retryDelay,
	}
}

// readCallbacks reads the URLs of the callbacks, and their settings.
func (m *message) readCallbacks(h http.Header) (err error) {
	m.Callback, m.FailureCallback = h.Get(api.HeaderCallback), h.Get(api.HeaderFailureCallback)
	for _, callback := range []string{m.Callback, m.FailureCallback} {
		if callback != "" && checkDestination(callback) != nil {
			return badRequest("invalid callback url: endpoint has invalid scheme, add http:// or https://")
		}
	}
	if m.callback, err = readSettings(h, api.HeaderCallbackPrefix); err != nil {
		return err
	}
	m.failureCallback, err = readSettings(h, api.HeaderFailureCallbackPrefix)
	return err
}

// dedupKey returns what a later publish must not repeat; empty when it may.
func (m *message) dedupKey(h http.Header) (string, error) {
	m.DeduplicationID = h.Get(api.HeaderDeduplicationID)
	if strings.Contains(m.DeduplicationID, ":") {
		return "", badRequest("DeduplicationId cannot contain ':'")
	}
	if m.DeduplicationID != "" {
		return "id:" + m.DeduplicationID, nil
	}
	raw := h.Get(api.HeaderContentBasedDedup)
	if raw == "" {
		return "", nil
	}
	byContent, err := strconv.ParseBool(raw)
	if err != nil {
		return "", badRequest("invalid content based deduplication")
	}
	if !byContent {
		return "", nil
	}
	return contentKey(m.Message, h), nil
}

// checkDestination wants an http or https URL. What else QStash delivers to begins differently and is not played.
func checkDestination(raw string) error {
	if groupName.MatchString(raw) {
		return notPlayed("URL groups; a destination begins with http:// or https://")
	}
	if strings.HasPrefix(raw, "api/") {
		return notPlayed(raw)
	}
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return badRequest("invalid destination url: endpoint has invalid scheme, add http:// or https://")
	}
	if u.Hostname() == "" {
		return badRequest("invalid destination url: endpoint has no host")
	}
	return nil
}

// groupName matches the name of a URL group. One with a dot is more likely a host without its scheme, and is answered as that.
var groupName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func newID(prefix string) string {
	return prefix + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
}
