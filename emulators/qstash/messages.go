package qstash

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// messageJSON is a message as the API shows it, times in unix milliseconds. A body that is no text is in base64.
type messageJSON struct {
	MessageID       string      `json:"messageId"`
	URL             string      `json:"url"`
	Method          string      `json:"method"`
	Header          http.Header `json:"header"`
	Body            string      `json:"body,omitempty"`
	BodyBase64      []byte      `json:"bodyBase64,omitempty"`
	MaxRetries      int         `json:"maxRetries"`
	RetryDelay      string      `json:"retryDelayExpression,omitempty"`
	NotBefore       int64       `json:"notBefore"`
	CreatedAt       int64       `json:"createdAt"`
	Callback        string      `json:"callback,omitempty"`
	FailureCallback string      `json:"failureCallback,omitempty"`
	CallerIP        string      `json:"callerIP,omitempty"`
	Label           string      `json:"label,omitempty"`
	Labels          []string    `json:"labels,omitempty"`
}

func (m *message) json() messageJSON {
	text, binary := textOrBinary(m.Body)
	var labels []string
	if m.Label != "" {
		labels = []string{m.Label}
	}
	return messageJSON{
		MessageID: m.ID, URL: m.URL, Method: m.Method, Header: m.Header, Body: text, BodyBase64: binary,
		MaxRetries: m.Retries, RetryDelay: m.retryDelay.source,
		NotBefore: m.NotBefore.UnixMilli(), CreatedAt: m.CreatedAt.UnixMilli(),
		Callback: m.Callback, FailureCallback: m.FailureCallback, CallerIP: m.CallerIP, Label: m.Label,
		Labels: labels,
	}
}

func textOrBinary(body []byte) (text string, binary []byte) {
	if utf8.Valid(body) {
		return string(body), nil
	}
	return "", body
}

// getMessage shows a message until it is delivered or has failed; from then on it is unknown.
func (e *Emulator) getMessage(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	m, found := e.messages[r.PathValue("id")]
	var shown messageJSON
	if found {
		shown = m.json()
	}
	e.mu.Unlock()
	if !found {
		answerError(w, http.StatusNotFound, "message not found")
		return
	}
	answer(w, http.StatusOK, shown)
}

// deleteMessage cancels one message.
func (e *Emulator) deleteMessage(w http.ResponseWriter, r *http.Request) {
	e.lock()
	m, found := e.messages[r.PathValue("id")]
	if found {
		e.cancel(m)
	}
	e.unlock()
	if !found {
		answerError(w, http.StatusNotFound, "message not found")
		return
	}
	answer(w, http.StatusOK, map[string]int{"cancelled": 1})
}

// maxBulk is the largest count of a bulk cancellation.
const maxBulk = 500

// deleteMessages cancels the messages that match, oldest first. It has QStash's trap: without an id and without a filter these are
// all there are. If there are ids, the other filters have no effect.
func (e *Emulator) deleteMessages(w http.ResponseWriter, r *http.Request) {
	f, err := readFilter(r.URL.Query(), maxBulk)
	if err != nil {
		answerRefusal(w, err)
		return
	}
	if ids := "messageIds"; f.has(ids) {
		f.values, f.from, f.to = map[string][]string{ids: f.values[ids]}, 0, 1<<62
	}
	limit := f.count
	if !r.URL.Query().Has("count") {
		limit = messageLimit
	}
	e.lock()
	var matching []*message
	for _, m := range e.messages {
		of := about(m.ID, m.URL, m.Label)
		of["messageIds"], of["callerIp"] = m.ID, m.CallerIP
		if f.matches(m.CreatedAt, of) {
			matching = append(matching, m)
		}
	}
	slices.SortFunc(matching, func(a, b *message) int { return strings.Compare(a.ID, b.ID) }) // ids begin with the time
	matching = matching[:min(limit, len(matching))]
	for _, m := range matching {
		e.cancel(m)
	}
	e.unlock()
	answer(w, http.StatusOK, map[string]int{"cancelled": len(matching)})
}

// retryNow delivers a message that waits at once, as the attempt that it waits for: https://upstash.com/docs/qstash/howto/retry-now.
func (e *Emulator) retryNow(w http.ResponseWriter, r *http.Request) {
	e.lock()
	m, found := e.messages[r.PathValue("id")]
	found = found && m.wait != nil
	if found {
		e.forget(m.wait)
		e.launch(m)
	}
	e.unlock()
	if !found {
		answerError(w, http.StatusNotFound, "message not found, or not waiting")
		return
	}
	answer(w, http.StatusOK, map[string]string{"messageId": r.PathValue("id")})
}

// cancel ends a message that waits, and the retries of one that is being attempted. The lock is held.
func (e *Emulator) cancel(m *message) {
	if m.flying {
		if !m.cancelled {
			e.note(CancelRequested, m.Message, Event{Retried: m.retried})
		}
		m.cancelled = true
		return
	}
	e.forget(m.wait)
	e.finish(m, Cancelled, Event{})
}
