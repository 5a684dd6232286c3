package qstash

import (
	"net/http"
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
}

func (m *message) json() messageJSON {
	text, binary := textOrBinary(m.Body)
	return messageJSON{
		MessageID: m.ID, URL: m.URL, Method: m.Method, Header: m.Header, Body: text, BodyBase64: binary,
		MaxRetries: m.Retries, RetryDelay: m.retryDelay.source,
		NotBefore: m.NotBefore.UnixMilli(), CreatedAt: m.CreatedAt.UnixMilli(),
		Callback: m.Callback, FailureCallback: m.FailureCallback, CallerIP: m.CallerIP, Label: m.Label,
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

// deleteAllMessages is QStash's trap: a deletion without an id and without a filter cancels everything there is.
// Filters are not known here and are refused, rather than being ignored.
func (e *Emulator) deleteAllMessages(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" || r.ContentLength != 0 {
		answerError(w, http.StatusNotImplemented, "this emulator cancels one message or all")
		return
	}
	e.lock()
	cancelled := len(e.messages)
	for _, m := range e.messages {
		e.cancel(m)
	}
	e.unlock()
	answer(w, http.StatusOK, map[string]int{"cancelled": cancelled})
}

// cancel ends a message that waits, and the retries of one whose attempt is in flight. The lock is held.
func (e *Emulator) cancel(m *message) {
	if m.flying {
		m.cancelled = true
		return
	}
	e.forget(m.wait)
	e.finish(m, Cancelled, Event{})
}
